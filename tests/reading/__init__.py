"""Reading of stored text, with the extra `reading`."""
