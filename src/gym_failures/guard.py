"""The one place where our own errors stop: the host program never notices us.

Only `Exception` is caught. Cancellation, exit and interrupts belong to the host and pass.
"""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

from gym_failures import limits, selfmetrics

logger = logging.getLogger(__name__)

# A dict, because `setdefault` looks and claims in one atomic step: no lock that a fork could copy in its locked state.
_said: dict[str, object] = {}
_reraising = 0


def warn_once(cause: str, message: str, *args: object) -> None:
    """Log one warning for `cause` in the life of the process, however often it is asked for (opentelemetry-js#4223).

    At most `limits.REMEMBERED_CAUSES` causes are remembered; after that nothing more is said.
    """
    if cause in _said or len(_said) >= limits.REMEMBERED_CAUSES:
        return
    token = object()
    if _said.setdefault(cause, token) is token:
        logger.warning(message, *args)


@contextmanager
def reraised() -> Iterator[None]:
    """Let our own errors through within the block, so that no defect hides in a test; process-wide.

    Blocks may overlap in any way, as fixtures of async tests do.
    """
    global _reraising  # noqa: PLW0603 - one switch a process
    _reraising += 1
    try:
        yield
    finally:
        _reraising -= 1


class Guard:
    """A reusable block that swallows and reports an `Exception` raised within it.

    One instance serves any number of threads and nested uses, because it keeps no state.
    """

    __slots__ = ("_cause",)

    def __init__(self, cause: str) -> None:
        """Name what is guarded: a short constant, used as the drop reason and as the key of the one warning."""
        self._cause: Final = cause

    def __enter__(self) -> None:
        """Enter the guarded block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Report an `Exception` once per cause and swallow it; let everything else pass.

        The report says type and place, never the message, which can quote what a peer sent.
        """
        if error is None or not isinstance(error, Exception) or _reraising:
            return False
        self._report(error, trace)
        return True

    def report(self, error: Exception) -> None:
        """Do what the end of the block does with `error`, for an ``except`` where entering a block costs too much.

        Raises `error` within `reraised`.
        """
        if _reraising:
            raise error
        self._report(error, error.__traceback__)

    def _report(self, error: Exception, trace: TracebackType | None) -> None:
        try:
            selfmetrics.internal_error(self._cause)
            key = f"guard:{self._cause}"
            if key not in _said:  # to format frames costs far more than what was guarded
                warn_once(
                    key,
                    "internal error in %s (%s); the host program is unaffected\n%s",
                    self._cause,
                    type(error).__qualname__,
                    "".join(traceback.format_tb(trace, limit=-limits.GUARD_FRAMES)),
                )
        except Exception:  # noqa: BLE001, S110 - a broken meter or log handler must not reach the host either
            pass
