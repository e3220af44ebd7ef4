"""Where stored spans come from; the one place in reading that does input and output."""
