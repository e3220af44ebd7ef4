"""Reports in headers and in the OpenTelemetry context: what comes in, what goes out, and that they never mix."""

import asyncio
import contextvars
import logging
import os
import subprocess
import sys

import pytest
from hypothesis import given
from opentelemetry import baggage, propagate
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context, attach, detach, get_current, set_value
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gym_failures import limits, selfmetrics
from gym_failures.header import decode_report, encode_report
from gym_failures.kinds import FailureBoundary
from gym_failures.propagation import (
    FailureReportPropagator,
    HeaderGetter,
    RawHeaderSetter,
    get_outgoing,
    get_report,
    header_values,
    set_report,
)
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.semconv import HEADER_NAME
from tests import strategies

NAME = "gym-failure-report"


def report(event_id="e", reason=""):
    """Return a report of one failure."""
    event = FailureEvent(
        event_id=event_id, boundary=FailureBoundary.MODEL, failure_kind="provider_unavailable", failure_reason=reason
    )
    return FailureReport(events={event_id: event}, failure_id=event_id)


REPORT = report()
VALUE = encode_report(REPORT)
CARRIERS = {
    "mapping": {NAME: VALUE},
    "mapping in another case": {"Gym-Failure-Report": VALUE},
    "mapping to a list": {NAME: [VALUE]},
    "mapping of bytes": {b"Gym-Failure-Report": VALUE.encode()},
    "pairs of ASGI": [(b"host", b"x"), (b"gym-failure-report", VALUE.encode())],
    "pairs in a tuple": ((NAME.upper(), VALUE),),
}


@pytest.fixture
def propagator():
    """Make a propagator as OpenTelemetry does: without arguments."""
    return FailureReportPropagator()


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=CARRIERS)
def test_extract_finds_the_report(propagator, carrier):
    """The report of any usual kind of headers is in the returned context, and not in the current one."""
    given = set_value("mine", 1, Context())
    context = propagator.extract(carrier, given)
    assert get_report(context) == REPORT
    assert context["mine"] == 1
    assert get_report() is get_report(given) is None


CARRYING_NOTHING = {
    "empty": {},
    "other headers": {"traceparent": "00-1-2-03"},
    "junk": {NAME: "junk"},
    "a number": {NAME: 5},
    "None": None,
    "text": NAME,
    "bytes": NAME.encode(),
    "an object": object(),
    "pairs that are none": [(NAME,)],
    "names that are none": [(None, VALUE)],
    "a megabyte": {NAME: "1." + "x" * 1_000_000},
}


@pytest.mark.parametrize("carrier", CARRYING_NOTHING.values(), ids=CARRYING_NOTHING)
def test_without_a_readable_report_the_context_is_the_callers_own(propagator, carrier):
    """Bad input gives the very context back that was given, and raises nothing.

    opentelemetry-python-contrib#377.
    """
    context = set_value("mine", 1, Context())
    assert propagator.extract(carrier, context) is context
    token = attach(context)
    try:
        assert propagator.extract(carrier) is context
    finally:
        detach(token)


@pytest.mark.parametrize("junk", ["junk", "1.eJwAAAA", "1." + "x" * 9_000])
def test_bad_input_is_counted_once_and_not_logged(propagator, monkeypatch, caplog, junk):
    """A header that cannot be read makes one count, and no line of log (opentelemetry-kotlin#967)."""
    refused: list[str] = []
    monkeypatch.setattr(selfmetrics, "decode_error", refused.append)
    caplog.set_level(logging.DEBUG)
    propagator.extract({NAME: junk})
    assert len(refused) == 1
    assert caplog.records == []


@given(strategies.failure_reports(max_size=3))
def test_what_is_injected_is_extracted(whole):
    """A report goes through headers as through the codec."""
    carrier: dict[str, str] = {}
    propagator = FailureReportPropagator(budget=limits.HEADER_HARD_LIMIT)
    with set_report(whole):
        propagator.inject(carrier)
    assert carrier == {NAME: encode_report(whole, budget=limits.HEADER_HARD_LIMIT)}
    assert get_report(propagator.extract(carrier)) == decode_report(carrier[NAME])


def test_nothing_is_injected_unless_it_was_set(propagator):
    """What came in is never sent on by itself: injecting reads only what `set_report` set."""
    carrier: dict[str, str] = {}
    received = propagator.extract({NAME: VALUE})
    propagator.inject(carrier, received)
    token = attach(received)
    try:
        propagator.inject(carrier)
    finally:
        detach(token)
    assert carrier == {}


def test_a_report_is_set_for_its_block_only(propagator):
    """`set_report` ends with its block, nests, and leaves what was received alone."""
    inner = report("inner")
    token = attach(propagator.extract({NAME: VALUE}))
    try:
        with set_report(report("outer")):
            with set_report(inner):
                assert get_outgoing() == inner
                assert get_report() == REPORT
            assert get_outgoing() == report("outer")
        assert get_outgoing() is None
    finally:
        detach(token)


def test_a_block_that_raises_ends_too():
    """The report is no longer set after an exception, which leaves as it was."""
    with pytest.raises(ZeroDivisionError), set_report(REPORT):
        raise ZeroDivisionError
    assert get_outgoing() is None


def test_tasks_do_not_share_what_they_set(propagator):
    """Two calls at the same time each send their own report."""

    async def call(name):
        carrier: dict[str, str] = {}
        with set_report(report(name)):
            await asyncio.sleep(0)
            propagator.inject(carrier)
        return decode_report(carrier[NAME]).failure_id

    async def both():
        return await asyncio.gather(call("a"), call("b"))

    assert contextvars.copy_context().run(asyncio.run, both()) == ["a", "b"]


def test_the_context_to_inject_can_be_given(propagator):
    """A context of the caller's counts instead of the current one."""
    with set_report(REPORT):
        context = get_current()
    carrier: dict[str, str] = {}
    propagator.inject(carrier, context)
    assert carrier == {NAME: VALUE}


def test_a_carrier_that_cannot_be_written_raises_nothing(propagator):
    """Injecting never breaks the call that it is for (posthog#55424)."""
    with set_report(REPORT):
        propagator.inject(())
        propagator.inject(None)


def test_sizes_and_cuts_are_recorded(propagator, monkeypatch):
    """Every header that is written is measured; a report that is too large is cut and counted (posthog#55424)."""
    written: list[tuple[int, bool]] = []
    monkeypatch.setattr(selfmetrics, "header_written", lambda size, *, was_cut: written.append((size, was_cut)))
    for one in (REPORT, report(reason="".join(chr(0x4E00 + place * 7 % 20_000) for place in range(2_000)))):
        carrier: dict[str, str] = {}
        with set_report(one):
            propagator.inject(carrier)
        assert written[-1] == (len(carrier[NAME]), one is not REPORT)
        assert len(carrier[NAME]) <= limits.HEADER_BUDGET


def test_the_field_is_named(propagator):
    """Whoever reuses a carrier learns which field to delete."""
    assert propagator.fields == {NAME}


def test_a_wrong_budget_raises_at_construction():
    """A wrong setting is said when it is made and not in the middle of a request."""
    with pytest.raises(ValueError, match="budget"):
        FailureReportPropagator(budget=100)


class _Getter(Getter[dict[str, list[str]]]):
    def get(self, carrier, key):
        return carrier.get(f"x-{key}")

    def keys(self, carrier):
        return list(carrier)


def test_a_getter_of_the_callers_own_is_used(propagator):
    """Who has headers of another kind passes a getter for them."""
    assert get_report(propagator.extract({f"x-{NAME}": [VALUE]}, getter=_Getter())) == REPORT
    assert propagator.extract({}, getter=_Getter()) == Context()


def test_several_headers_are_one_report(propagator):
    """Repeated headers are merged: the own failure is the one that caused no other."""
    two = encode_report(report("f"))
    context = propagator.extract([(NAME, VALUE), (NAME, two)])
    assert get_report(context).events.keys() == {"e", "f"}
    assert header_values([(NAME, VALUE), ("x", "y"), (NAME.title(), two)]) == [VALUE, two]


def test_the_getter_reads_any_header_for_other_propagators():
    """Trace context and baggage are read from ASGI's pairs by the same getter."""
    pairs = [
        (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        (b"Baggage", b"rollout=7"),
        (b"gym-failure-report", VALUE.encode()),
    ]
    everything = CompositePropagator(
        [TraceContextTextMapPropagator(), W3CBaggagePropagator(), FailureReportPropagator()]
    )
    context = everything.extract(pairs, getter=HeaderGetter())
    assert baggage.get_baggage("rollout", context) == "7"
    assert get_report(context) == REPORT
    assert HeaderGetter().keys(pairs) == ["traceparent", "Baggage", "gym-failure-report"]
    assert HeaderGetter().get(pairs, "absent") is None


def test_the_setter_replaces_what_stands_in_asgi_headers(propagator):
    """After writing there is exactly one such header, in place, and the others are as they were."""
    headers = [(b"Gym-Failure-Report", b"old"), (b"x-other", b"1"), (b"gym-failure-report", b"older")]
    with set_report(REPORT):
        propagator.inject(headers, setter=RawHeaderSetter())
    assert headers == [(b"x-other", b"1"), (b"gym-failure-report", VALUE.encode())]


PROGRAM = f"""
from opentelemetry import propagate
from gym_failures.propagation import get_report, set_report
from gym_failures.header import decode_report

report = decode_report({VALUE!r})
assert {NAME!r} in propagate.get_global_textmap().fields, propagate.get_global_textmap().fields
assert {{"traceparent", "baggage"}} <= propagate.get_global_textmap().fields
carrier = {{}}
with set_report(report):
    propagate.inject(carrier)
assert carrier == {{{NAME!r}: {VALUE!r}}}, carrier
assert get_report(propagate.extract(carrier)) == report
print("carried")
"""


def test_opentelemetry_finds_the_propagator_by_its_name():
    """`OTEL_PROPAGATORS=tracecontext,baggage,gym_failures` is all that it takes."""
    environment = os.environ | {"OTEL_PROPAGATORS": "tracecontext,baggage,gym_failures"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("carried\n", "")


def test_what_the_environment_does_not_name_is_not_in_force():
    """Importing the package changes no propagator of the process."""
    assert NAME not in propagate.get_global_textmap().fields


@pytest.mark.parametrize(("value", "works"), [("false", False), ("true", True), ("maybe", True)])
def test_the_switch_of_the_package_is_the_propagators_too(monkeypatch, value, works):
    """With GYM_FAILURES_ENABLED=false nothing is read and nothing written; a wrong value is no reason to fail here."""
    monkeypatch.setenv("GYM_FAILURES_ENABLED", value)
    propagator = FailureReportPropagator()
    carrier = {}
    with set_report(FailureReport(omitted=True)):
        propagator.inject(carrier)
    assert bool(carrier) == works
    carrier = {HEADER_NAME: encode_report(FailureReport(omitted=True))}
    assert (get_report(propagator.extract(carrier, Context())) is not None) == works
