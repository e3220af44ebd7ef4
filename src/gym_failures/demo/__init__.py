"""A small Gym on this machine that fails on demand: real servers, real HTTP, real exporters.

`run.run` starts one process for each server and one for the collection client, lets 40 rollouts go through them, and
leaves a folder: what the processes exported, and what the servers replied. `gym-failures demo` shows what is in it.
"""


class DemoError(RuntimeError):
    """Say why the demo could not be run."""
