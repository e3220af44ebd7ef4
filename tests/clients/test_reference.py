"""The reference of clients shows code that runs."""

import re
from pathlib import Path

from gym_failures.log import FailureLog
from gym_failures.testing import Telemetry
from tests.clients.callers import CALLERS
from tests.failing import peer, reply

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "clients.md"


def test_a_retry_loop(telemetry: Telemetry) -> None:
    """The attempts of the page's loop, whose calls all fail, are numbered within one operation."""
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    caller = CALLERS[0]
    code = compile(example.replace("...", "call()"), "clients.md", "exec")
    with caller.watched(telemetry.tracer_provider), peer(reply(503)) as port, FailureLog("model") as log:
        exec(code, {"call": lambda: caller.call(f"http://127.0.0.1:{port}/")})  # noqa: S102 - our own page
    events = [*log.report().events.values()]
    assert len({event.operation_id for event in events}) == 1
    assert [event.attempt_id for event in events] == [f"{events[0].operation_id}.{number}" for number in (1, 2, 3)]
