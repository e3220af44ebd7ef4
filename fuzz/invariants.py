"""What must hold for any bytes at all: one function a target, which raises when it does not.

Each returns whether the bytes were understood, so that a run can say how deep it got. Internal errors are let through,
so that "raises nothing" is not the guard's doing.
"""

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from json import JSONDecodeError
from typing import Final, Literal

from gym_failures import limits
from gym_failures.attributes import AttributesError, read_attributes, to_attributes
from gym_failures.guard import reraised
from gym_failures.header import decode_report, encode
from gym_failures.reading import read_reports
from gym_failures.records import FailureReport


def decoder(data: bytes) -> bool:
    """Decode `data` as a header value.

    Nothing is raised. What comes out is None or a valid report, which encodes within the budget; unless something had
    to be left out, the value carries the same report.
    """
    with reraised():
        report = decode_report(data)
    if report is None:
        return False
    _assert_valid(report)
    value, cut = encode(report, budget=limits.HEADER_HARD_LIMIT)
    assert len(value) <= limits.HEADER_HARD_LIMIT
    again = decode_report(value)
    assert again is not None
    assert cut or again == report
    assert again.failure_id == report.failure_id
    return True


def body(data: bytes) -> bool:
    """Decode `data` as the JSON text within a header value, which few mutations of a value ever reach; as `decoder`."""
    return decoder(b"1." + base64.urlsafe_b64encode(zlib.compress(data, 1)).rstrip(b"="))


def attributes(data: bytes) -> bool:
    """Read an event from the attributes that `data` holds as a JSON object.

    Nothing but AttributesError is raised. The event is valid, and its attributes read back as the same event.
    """
    try:
        found = json.loads(data)
        event = read_attributes(found if isinstance(found, dict) else {}).event
    except (AttributesError, JSONDecodeError, UnicodeDecodeError, RecursionError):
        return False
    _assert_valid(FailureReport(events={event.event_id: event.model_copy(update={"cause_id": None})}))
    again = read_attributes(to_attributes(event))
    assert again.dropped == ()
    assert again.event.model_copy(update={"details": event.details}) == event
    return True


def reader(data: bytes) -> bool:
    """Read `data` as a file of any format, and rebuild reports by trace, by request and by rollout.

    Nothing is raised, and every report is valid.
    """
    reports = [rebuilt.report for by in _BY for rebuilt in read_reports(data, by=by)]
    for report in reports:
        _assert_valid(report)
    return bool(reports)


def packed(data: bytes) -> bool:
    """Read `data` as a file that is compressed, or of records after their length; as `reader`."""
    return reader(data)


def _assert_valid(report: FailureReport) -> None:
    dumped = report.model_dump(mode="json")
    json.dumps(dumped).encode()
    assert FailureReport.model_validate(dumped) == report


_BY: Final[tuple[Literal["trace", "request", "rollout"], ...]] = ("trace", "request", "rollout")
TARGETS: Mapping[str, Callable[[bytes], bool]] = {
    target.__name__: target for target in (decoder, body, attributes, reader, packed)
}
