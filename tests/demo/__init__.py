"""The demo, run once for all of these tests, with the extra `demo`."""
