"""The last spans, sent before a process ends and without holding up its end."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from gym_failures import limits
from gym_failures.guard import Guard, warn_once

_GUARD: Final = Guard("flush")


class Flush:
    """Sends what is left. NeMo Gym gives its servers half a second to end, and then kills them."""

    def __init__(self, parts: Sequence[Callable[[], object]], *, answered: Callable[[], bool]) -> None:
        """Take what sends the rest of each signal, and what tells whether the receiver has ever answered."""
        self._parts: Final = tuple(parts)
        self._answered: Final = answered
        self._gave_up = False

    def __call__(self) -> None:
        """Send it, and wait until it is sent: a moment only for a receiver that has not answered before.

        What is under way by then may still arrive. After a call that ended so, a further one does not wait at all.
        """
        with _GUARD:
            patience = limits.FLUSH_SECONDS if self._answered() else limits.FLUSH_UNANSWERED_SECONDS
            until = time.monotonic() + (0 if self._gave_up else patience)
            # The SDK's own flush takes as long as the exporter likes to try again, which can be 30 seconds.
            threads = [threading.Thread(target=_guarded, args=(part,), daemon=True) for part in self._parts]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(max(0, until - time.monotonic()))
            if any(thread.is_alive() for thread in threads):
                self._gave_up = True
                warn_once("flush", "the last spans or metrics of this process may be lost: nothing took them in time")


def _guarded(part: Callable[[], object]) -> None:
    with _GUARD:
        part()
