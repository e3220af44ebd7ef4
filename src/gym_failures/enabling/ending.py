"""The end of an app in a server: what is left is sent while the event loop runs on.

A server cancels the requests that take too long, and does not wait for them: they end, with their spans and their
replies, while the app's lifespan ends. So whoever held the loop up there would lose just them.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from gym_failures import limits
from gym_failures.enabling.flushing import Flush, started

_LOOK_EVERY: Final = 0.005
"""How often is looked whether something is over, in seconds."""


async def end(flush: Flush, is_open: Callable[[], bool]) -> None:
    """Send what is left when no request `is_open`, or after a short wait for them; all in the time that an end has."""
    if not _has_loop():
        flush()
        return
    begun = time.monotonic()
    await _while(lambda: is_open() and time.monotonic() < begun + limits.FLUSH_REQUESTS_SECONDS)
    # In a thread of its own: those of the loop may all be held by requests.
    sending = started(partial(flush, time.monotonic() - begun))
    await _while(lambda: not sending.is_set())


async def _while(so: Callable[[], bool]) -> None:
    while so():  # noqa: ASYNC110 - neither a thread's end nor a clock sets an event
        await asyncio.sleep(_LOOK_EVERY)


def _has_loop() -> bool:
    """Tell whether this runs in asyncio's loop, and not in another library's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
