"""Tests that need a real browser; `make test-browser` runs them."""
