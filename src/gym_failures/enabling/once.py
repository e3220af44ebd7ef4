"""Something that is done once in a process, whoever comes first."""

import os
import threading
from collections.abc import Callable
from typing import Final

from gym_failures.guard import Guard


class Once:
    """Calls a function once; a failure of it is reported and counts as a call."""

    def __init__(self, function: Callable[[], None], guard: Guard) -> None:
        """Name what is to be called, and what reports its failure."""
        self._function: Final = function
        self._guard: Final = guard
        self._lock = threading.RLock()
        self._begun = False
        self.done = False
        """Whether it has been called, and has returned."""
        if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()  # whoever held it is not in this process

    def __call__(self) -> bool:
        """Make sure that the function has been called; tells whether it had not been when this was asked."""
        if self.done:
            return False
        with self._lock:
            if not self._begun:
                self._begun = True
                with self._guard:
                    self._function()
                self.done = True
        return True
