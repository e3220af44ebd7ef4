"""The last spans and counts, sent before a process ends and without holding up its end."""

import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from gym_failures import limits
from gym_failures.guard import Guard, warn_once

_GUARD: Final = Guard("flush")

Address = tuple[str, int]


class Answers:
    """Remembers whether whoever takes spans and counts has been there."""

    def __init__(self) -> None:
        self._last: dict[int, bool] = {}

    def __bool__(self) -> bool:
        """Tell whether the last batch of any exporter was taken."""
        return any(self._last.values())

    def watch(self, exporter: Any) -> Any:  # noqa: ANN401 - exporters of spans and of metrics share a shape alone
        """Return `exporter`, whose results are remembered from now on; a reader that others ask has none."""
        export = getattr(exporter, "export", None)
        if export is None:
            return exporter

        def watched(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
            result = export(*args, **kwargs)
            self._last[id(exporter)] = getattr(result, "name", "") == "SUCCESS"
            return result

        exporter.export = watched
        return exporter


class Flush:
    """Sends what is left. NeMo Gym gives its servers a second to end, and kills them then.

    A process has one end: that of its app and its exit share the time.
    """

    def __init__(
        self,
        parts: Sequence[Callable[[], object]],
        *,
        answers: Answers,
        receivers: Collection[Address] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take what sends the rest of each signal, what has answered before, and where else somebody may listen."""
        self._parts: Final = tuple(parts)
        self._answers: Final = answers
        self._receivers: Final = tuple(receivers)
        self._clock: Final = clock
        self._waited = 0.0
        self._gave_up = False

    def __call__(self, waited: float = 0.0) -> None:
        """Send it, and wait until it is sent; neither where nobody has answered before and nobody listens now.

        `waited` is how much of an end's time has been spent already, in seconds. What is under way when the wait is
        over may still arrive. After a call that ended so a further one does nothing.
        """
        begun = self._clock()
        with _GUARD:
            if self._parts and not self._gave_up and not self._is_sent(begun, limits.FLUSH_SECONDS - waited):
                self._gave_up = True
                warn_once("flush", "the last spans or counts of this process may be lost: nothing took them in time")
        self._waited = waited + self._clock() - begun

    def at_exit(self) -> None:
        """Send what has come since the last call, in the time which that has left."""
        self(self._waited)

    def _is_sent(self, begun: float, left: float) -> bool:
        patience = min(self._patience(), left)
        if patience <= 0:
            return False
        # The SDK's own flush takes as long as the exporter likes to try again, which can be 30 seconds.
        ends = [started(part) for part in self._parts]
        return all(end.wait(max(0, begun + patience - self._clock())) for end in ends)

    def _patience(self) -> float:
        if self._answers or (self._receivers and self._somebody_listens()):
            return limits.FLUSH_SECONDS
        return 0 if self._receivers else limits.FLUSH_UNANSWERED_SECONDS

    def _somebody_listens(self) -> bool:
        found: list[bool] = []
        # In a thread, because nothing bounds how long a name takes to be looked up.
        looking = started(lambda: found.append(any(map(_listens, self._receivers))))
        looking.wait(limits.FLUSH_UNANSWERED_SECONDS)
        return found == [True]


def _listens(receiver: Address) -> bool:
    try:
        socket.create_connection(receiver, limits.FLUSH_UNANSWERED_SECONDS).close()
    except OSError:
        return False
    return True


def started(part: Callable[[], object]) -> threading.Event:
    """Do `part` in a thread that holds up no exit, and return what is set when it is done."""
    done = threading.Event()

    def guarded() -> None:
        try:
            with _GUARD:
                part()
        finally:
            done.set()

    try:
        threading.Thread(target=guarded, daemon=True).start()
    except RuntimeError:  # Python 3.12.0 to 3.12.2 start none in an exit handler (cpython#113964)
        guarded()
    return done
