"""What failed without a name for it: servers of which only OpenTelemetry knows how they ended."""

import pytest

from gym_failures.kinds import FailureBoundary
from gym_failures.reading import SpanStatus, read_reports, rebuild
from tests.spans import client, failure, server, span, span_id, told
from tests.stored import as_line

ERROR = SpanStatus.ERROR
SEEN = told(failure("p", boundary=FailureBoundary.MODEL, kind="transport_unreachable"), at=10)
REFUSED = failure("a")
OTHER_TRACE = "1" * 32

# The spans, and the number of the span that says that all failed; None where nothing does.
STATUSES = {
    "the server above": ([server(1, status=ERROR), client(2, 1, SEEN)], 1),
    "the first span": ([span(1, status=ERROR), client(2, 1, SEEN)], 1),
    "the server beneath a first span that went well": ([span(1), server(2, 1, status=ERROR), client(3, 2, SEEN)], 2),
    "the server beneath a call that failed": ([client(1, status=ERROR), server(2, 1, SEEN, status=ERROR)], 2),
    "the one of several that ended last": (
        [span(1), server(2, 1, status=ERROR), server(3, 1, SEEN), server(4, 1, status=ERROR), server(5, 1)],
        4,
    ),
    "a server that knows failures and names none": ([server(1, None, SEEN, status=ERROR)], 1),
    "a server without this package above one that recovered": ([server(1, status=ERROR), server(2, 1, SEEN)], 1),
    "a server whose caller was not stored": ([server(2, 1, status=ERROR), client(3, 2, SEEN)], 2),
    "only the server beneath": ([server(1), client(2, 1, SEEN), server(3, 2, status=ERROR)], None),
    "only a server beneath that, and it names why": (
        [server(1, None, SEEN), client(2, 1), server(3, 2, told(REFUSED), own="a", status=ERROR)],
        None,
    ),
    "only the call": ([server(1), client(2, 1, SEEN, status=ERROR)], None),
    "only a call that is first": ([client(1, None, SEEN, status=ERROR), server(2, 1)], None),
    "only a step whose server was not stored": ([span(2, 1, SEEN, status=ERROR)], None),
    "only another trace": ([server(1, None, SEEN), server(2, status=ERROR, trace=OTHER_TRACE)], None),
}


@pytest.mark.parametrize("by", ["trace", "rollout"])
@pytest.mark.parametrize(("spans", "number"), STATUSES.values(), ids=STATUSES)
def test_a_status_tells_that_all_failed(spans, number, by):
    """Where no span names a failure of its own, a topmost server's or the first span's error means that all failed.

    A call's own error means nothing, because what was called may have been tried again.
    """
    (found,) = rebuild(spans, by=by)
    assert (found.failed, found.report.failure_id, found.root) == (number is not None, None, None)
    assert "p" in (found.unlinked if found.failed else found.recovered)
    assert found.span.span_id == span_id(number or min(int(span.span_id, 16) for span in spans))


def test_a_name_outweighs_statuses():
    """Where a span names the failure of a server that only OpenTelemetry knows, that is how all ended."""
    (found,) = rebuild([server(1, status=ERROR), server(2, 1, told(REFUSED), own="a", status=ERROR)])
    assert (found.report.failure_id, found.span.span_id, found.root) == ("a", span_id(2), REFUSED)


def test_a_request_ended_as_its_own_span_says():
    """By request, each server's own status decides; what is beneath no server is decided by the first span."""
    spans = [span(1, None, SEEN, status=ERROR), server(2, 1), client(3, 2, SEEN), server(4, 3, SEEN, status=ERROR)]
    found = {int(report.key, 16): report.failed for report in rebuild(spans, by="request")}
    assert found == {1: True, 2: False, 4: True}


def test_rollouts_of_one_trace_end_apart():
    """The failed server of one rollout says nothing of another rollout in the same trace."""
    spans = [
        span(1),
        *(server(2, 1, rollout="r1", status=ERROR), client(3, 2, SEEN)),
        *(server(4, 1, rollout="r2"), client(5, 4, told(REFUSED))),
    ]
    assert {report.key: report.failed for report in rebuild(spans, by="rollout")} == {"r1": True, "r2": False}


@pytest.mark.parametrize("by", ["trace", "request", "rollout"])
def test_statuses_out_of_a_file(by):
    """A server's status is found in stored text too, where the span itself tells of no failure."""
    spans = [server(1, status=ERROR, rollout="r"), client(2, 1, SEEN)]
    (found,) = read_reports("".join(f"{as_line(one)}\n" for one in spans), by=by)
    assert (found.failed, found.span.span_id) == (True, span_id(1))
