"""Of a large trace only what its reports depend on is held."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures.reading import SpanStatus
from gym_failures.reading.rebuild import rebuild_stored
from gym_failures.reading.relevance import Relevance
from tests import strategies
from tests.spans import client, failure, relayed, server, span, told

TOLD = told(failure("f"))


def relevant(spans):
    """Return those of the spans that matter to the reports of their traces."""
    traces = {}
    for one in spans:
        traces.setdefault(one.trace_id, Relevance()).see(one)
    chosen = {trace_id: relevance.chosen() for trace_id, relevance in traces.items()}
    return [one for one in spans if chosen[one.trace_id](one)]


@given(strategies.stored_spans(), st.integers(0, 3), st.sampled_from(["trace", "request", "rollout"]))
def test_reports_are_the_same(spans, twice, by):
    """Whatever the spans are, also where some come twice, those that matter give the reports that all of them give."""
    spans += [replace(one, end_ns=one.end_ns + 1, parent_id=None) for one in spans[:twice]]
    assert rebuild_stored(relevant(spans), by=by) == rebuild_stored(spans, by=by)


MATTER = {
    "what tells": [client(2, 1, TOLD)],
    "what has heard of it": [client(2, 1, relayed(failure("f")))],
    "what names a rollout": [client(2, 1, rollout="r1")],
    "what lost events": [client(2, 1, dropped=1)],
    "the first of a tree": [span(5)],
    "what hangs on a lost span": [span(5, 99)],
    "what names for a parent what is no id": [
        replace(span(5 + at), parent_id=text) for at, text in enumerate(("zzzz", "-1", "1" * 17, "模型"))
    ],
    "a server beneath none": [server(2, 1)],
    "what outlasts all": [span(2, 1, end=900)],
    "what goes round": [span(4, 5), span(5, 4), client(6, 5, TOLD), span(7, 6)],
}


@pytest.mark.parametrize("spans", MATTER.values(), ids=MATTER)
def test_what_matters(spans):
    """What decides how something ended, when, or what belongs to whom stays, and all that is above it."""
    top = span(1, end=500)
    assert relevant([top, *spans]) == [top, *spans]


def test_what_does_not_matter():
    """Spans that tell of nothing and have nothing beneath them that does are left, a server's beneath a server too."""
    top, tells = server(1, end=500), client(4, 3, TOLD)
    calls = client(3, 1, end=500)
    others = [client(10 + number, 3, status=SpanStatus.ERROR) for number in range(5)]
    others += [server(20, 1, end=400), client(21, 20), server(22, 21), span(23, 22)]
    assert relevant([top, *others, calls, tells]) == [top, calls, tells]
