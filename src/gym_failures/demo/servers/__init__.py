"""The servers of the demo; a module has a function `app`, which gets the run's settings and returns an ASGI app."""
