"""Names of ours in stored text: whose they are is told without decoding, or the line is decoded."""

import base64

import pytest

from gym_failures import semconv
from gym_failures.reading.otlp_json import failing_traces
from gym_failures.reading.otlp_outline import telling_traces
from tests.reading.test_otlp_outline import GOOD, LINK, OTHER_TRACE, failed, fine, line, text
from tests.spans import TRACE, span_id

OWN = {"attributes": [text(semconv.FAILURE_ID, "f")]}

TELLING = {
    "an event": ([failed(1), fine(2)], {TRACE}),
    "an attribute": ([fine(1), fine(2, TRACE, attributes=[text(semconv.FAILURE_ID, "f")])], {TRACE}),
    "several spans": ([failed(1), fine(2), failed(3), failed(4, OTHER_TRACE)], {TRACE, OTHER_TRACE}),
    "the word alone": ([fine(1, name="failure"), fine(2, attributes=[text("a", "failure")])], set()),
    "an attribute of another's": ([fine(1, attributes=[text("k8s.failure", "x")])], set()),
}


@pytest.mark.parametrize(("spans", "expected"), TELLING.values(), ids=TELLING)
def test_traces_that_tell(spans, expected):
    """A trace tells of a failure when a name of ours stands in one of its spans."""
    assert set(telling_traces(line(spans))) == expected
    assert failing_traces([GOOD + line(spans)]) == expected


UNCLEAR = {
    "another order in the span": [fine(1), {"spanId": span_id(2), "traceId": TRACE, **OWN}],
    "another order and nothing before": [{"spanId": span_id(2), "traceId": TRACE, **OWN}],
    "another order at the end of the span": [fine(1), {"spanId": span_id(2), **OWN, "traceId": TRACE}],
    "an id in capitals": [fine(1), fine(2, TRACE.upper(), **OWN)],
    "an id in base64": [fine(1), fine(2, base64.b64encode(bytes.fromhex(TRACE)).decode(), **OWN)],
    "links before it": [fine(1), fine(2, TRACE, links=[{"traceId": OTHER_TRACE, "spanId": span_id(9)}], **OWN)],
    "links of another": [fine(1, links=[LINK]), fine(2, TRACE, **OWN)],
}


@pytest.mark.parametrize("spans", UNCLEAR.values(), ids=UNCLEAR)
def test_traces_that_only_decoding_tells(spans):
    """Where a span need not belong to the id before it, its line has to be decoded, and tells the right trace."""
    data = line(spans)
    assert list(telling_traces(GOOD + data + GOOD)) == [data.rstrip()]
    assert failing_traces([GOOD + data + GOOD]) == {TRACE}


def test_a_resource_that_tells():
    """A name of ours among the attributes of a process is no failure of a span that follows."""
    named = line([fine(1)]).replace(b"service.name", b"failure.name")
    assert failing_traces([named]) == set()
