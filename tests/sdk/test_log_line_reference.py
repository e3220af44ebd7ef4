"""The reference of the log line says what is written."""

import json
import re
from pathlib import Path

import pytest

from gym_failures import semconv
from gym_failures.kinds import FailureBoundary
from gym_failures.recording import record_failure
from gym_failures.records import FailureEvent
from gym_failures.testing import Telemetry

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "log-line.md"


def test_example_of_the_reference_is_what_is_written(telemetry: Telemetry, caplog: pytest.LogCaptureFixture) -> None:
    """The reference's example is, key for key and in order, the line of that failure."""
    (example,) = re.findall(r"```json\n(.+?)\n```", REFERENCE.read_text(), re.DOTALL)
    wanted = json.loads(example)
    record_failure(
        FailureEvent(
            event_id=wanted[semconv.FAILURE_ID],
            failure_kind=wanted[semconv.FAILURE_KIND],
            boundary=FailureBoundary(wanted[semconv.FAILURE_BOUNDARY]),
            failure_reason=wanted[semconv.FAILURE_REASON],
        )
    )
    assert telemetry.count() == 1
    (record,) = caplog.records
    written = json.loads(record.getMessage())
    assert list(written) == list(wanted)
    assert written | {"time_unix_nano": 0} == wanted | {"time_unix_nano": 0}
