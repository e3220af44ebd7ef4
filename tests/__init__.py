"""The tests. Those right here need no extra; each folder below says in its docstring what it needs."""
