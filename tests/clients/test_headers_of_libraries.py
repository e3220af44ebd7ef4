"""The headers that real libraries keep, as carriers of a report."""

from email.message import Message

import httpx
import multidict
import pytest
import requests
import starlette.datastructures
import urllib3

from gym_failures.header import decode_reports, encode_report
from gym_failures.kinds import FailureBoundary
from gym_failures.propagation import FailureReportPropagator, get_report, header_values
from gym_failures.records import FailureEvent, FailureReport

NAME = "gym-failure-report"


def value_of(event_id):
    """Return the header value of a report of one failure."""
    event = FailureEvent(event_id=event_id, boundary=FailureBoundary.AGENT, failure_kind="agent_timeout")
    return encode_report(FailureReport(events={event_id: event}, failure_id=event_id))


ONE, TWO = value_of("one"), value_of("two")
PAIRS = [("Gym-Failure-Report", ONE), ("content-type", "text/plain"), (NAME, TWO)]


def message(pairs):
    """Return headers as the standard library's HTTP client keeps them."""
    headers = Message()
    for name, value in pairs:
        headers[name] = value
    return headers


def raw(pairs):
    """Return headers as ASGI and httptools keep them."""
    return [(name.lower().encode(), value.encode()) for name, value in pairs]


MULTI = {
    "aiohttp": multidict.CIMultiDict,
    "aiohttp, read only": lambda pairs: multidict.CIMultiDictProxy(multidict.CIMultiDict(pairs)),
    "httpx": httpx.Headers,
    "Starlette": lambda pairs: starlette.datastructures.Headers(raw=raw(pairs)),
    "urllib3": urllib3.HTTPHeaderDict,
    "standard library": message,
    "ASGI": raw,
}


@pytest.mark.parametrize("headers", MULTI.values(), ids=MULTI)
def test_all_values_are_found_in_order(headers):
    """Repeated headers are found one by one, whatever the case of their names."""
    carrier = headers(PAIRS)
    assert [value if isinstance(value, str) else value.decode() for value in header_values(carrier)] == [ONE, TWO]
    assert get_report(FailureReportPropagator().extract(carrier)).events.keys() == {"one", "two"}


@pytest.mark.parametrize("headers", MULTI.values(), ids=MULTI)
def test_no_value_is_an_empty_list(headers):
    """A reply without the header is the usual case and no error of any library's."""
    assert header_values(headers([("content-type", "text/plain")])) == []
    assert header_values(headers([])) == []


def test_values_that_a_library_joins_are_read_one_by_one():
    """Requests keeps repeated headers as one text, joined with commas; both reports are in it."""
    headers = requests.structures.CaseInsensitiveDict({"Gym-Failure-Report": f"{ONE}, {TWO}"})
    assert decode_reports(header_values(headers)).events.keys() == {"one", "two"}
    assert header_values(requests.structures.CaseInsensitiveDict()) == []
