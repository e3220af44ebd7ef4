"""Files that Zstandard compressed, with the extra `zstd`."""
