"""Asking a Jaeger for the traces that tell of failures."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym_failures import limits
from gym_failures.reading import read_reports
from gym_failures.reading.sources.jaeger import Jaeger
from gym_failures.reading.sources.jaeger_search import JaegerError
from tests.jaeger import served, trace


def found(store, *, most=10, services=("agent",), until=1_000, **said):
    """Return the numbers of the traces that were found, and whether some may be missing."""
    answer = Jaeger(store.url, most=most).failing(services, since_ns=0, until_ns=until * 1_000, **said)
    return sorted(int(report.trace_id, 16) for report in read_reports(answer)), answer.full


def test_a_full_range_is_asked_for_in_halves():
    """Of many more traces than one answer holds, all are found, each once."""
    with served(*(trace(number, event_id=f"f{number}") for number in range(1, 501))) as store:
        assert found(store) == ([*range(1, 501)], False)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=40), st.integers(1, 5))
def test_no_trace_is_lost_or_found_twice(starts, most):
    """Wherever traces lie in time, all are found; or, where one moment has as many as an answer holds, that is said."""
    traces = [trace(n, event_id=f"f{n}", start=start) for n, start in enumerate(starts, 1)]
    with served(*traces) as store:
        numbers, full = found(store, most=most)
    crowded = max(starts.count(start) + starts.count(start + 1) for start in range(1_000)) >= most
    assert full is crowded
    assert len(numbers) == len(set(numbers))
    if not crowded:
        assert numbers == [*range(1, len(starts) + 1)]


def test_only_failing_traces_are_kept():
    """What tells of no failure is left out, and takes no room."""
    with served(trace(1), trace(2, event_id=None)) as store:
        answer = Jaeger(store.url).failing(["agent"], since_ns=0, until_ns=10_000)
    assert answer.read().count(b'"traceID"') == 2  # of the trace, and of its span


def test_what_is_found_beyond_a_bound_waits_on_disk(monkeypatch):
    """Of what a search finds, memory holds only so much, and all of it is read."""
    monkeypatch.setattr(limits, "JAEGER_HELD", 1_000)
    with served(*(trace(number, event_id=f"f{number}") for number in range(1, 21))) as store:
        answer = Jaeger(store.url).failing(["agent"], since_ns=0, until_ns=1_000_000)
    assert answer._rolled
    assert len(read_reports(answer)) == 20


def test_services_times_and_tags_are_asked_for():
    """A search is for the services, the times and the tags that are given."""
    traces = (trace(1), trace(2, service="model"), trace(3, kind="shutdown"), trace(900, service="model"))
    with served(*traces) as store:
        assert Jaeger(store.url).services() == ["agent", "model"]
        assert found(store, services=["model"])[0] == [2, 900]
        assert found(store, services=["agent", "model"], until=100)[0] == [1, 2, 3]
        assert found(store, tags={"failure.kind": "shutdown"})[0] == [3]


def test_what_was_found_is_named_by_its_url():
    """A skip in what Jaeger answered names its URL."""
    with served(trace(1)) as store:
        assert Jaeger(f"{store.url}/").failing(["agent"], since_ns=0, until_ns=1_000).name == store.url


WRONG = {
    "no URL": ("localhost:16686", None, "is no URL like"),
    "a URL with a password": ("http://me:secret@127.0.0.1", None, "^a URL with a user is not taken$"),
    "a host with a space": ("http://local host", None, "is no URL like"),
    "no such port": ("http://localhost:99999", None, "is no URL like"),
    "no port that can be asked": ("http://localhost:0", None, "is no URL like"),
    "a file": ("file:///etc/passwd", None, "is no URL like"),
    "nobody there": ("http://127.0.0.1:1", None, "/api/services did not answer: "),
    "an error": (None, (500, "no"), "/api/services answered 500"),
    "a page": (None, (200, "<html>"), "did not answer like Jaeger"),
    "something else": (None, (200, "[]"), "did not answer like Jaeger"),
    "bytes of no text": (None, (200, '{"data":["\udcff"]}'.replace("\udcff", "\x00")), "did not answer like Jaeger"),
}


@pytest.mark.parametrize(("url", "broken", "said"), WRONG.values(), ids=WRONG)
def test_what_is_not_a_jaeger(url, broken, said):
    """Whatever does not answer as Jaeger does is one error that says what was asked."""
    with served() as store:
        store.broken = broken
        with pytest.raises(JaegerError, match=said):
            Jaeger(url or store.url).services()
