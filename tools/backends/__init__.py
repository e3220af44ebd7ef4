"""The real programs behind the tests of `collector-config/`: how they are had, started, and ended."""
