"""Programs that know nothing of this package, each run as a script."""
