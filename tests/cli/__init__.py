"""The command on files, with the extra `cli`."""
