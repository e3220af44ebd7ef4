"""Whether tracing is on in an environment, and whether anything in it would lose failures.

Each module looks at one side of it, by the variables and the packages that there are; nothing is set up or changed.
"""
