"""The demo's faults, through agent and gateway into Jaeger: each is found there, with the report of the wire.

The demo's services have common names, which other tests count by; so these tests come last, by the name of the file.
"""

import json
import time

import pytest

from backends.stack import Collector, Jaeger
from gym_failures.agreement import disagreements
from gym_failures.demo.run import run
from gym_failures.demo.wire import replies
from gym_failures.reading import SpanKind, read_files, read_reports
from gym_failures.reading.sources.jaeger import Jaeger as Source
from gym_failures.reading.sources.jaeger_grpc import JaegerGrpc

TOP = "collection"
FAILED = 28
"""Rollouts of the demo that fail, in every run."""


@pytest.fixture(scope="module", params=["badger", "memory"])
def ran(request, tmp_path_factory):
    """Run the demo into a Jaeger of each storage; give that, the folder of the run, and its failed rollouts."""
    folder = tmp_path_factory.mktemp("demo")
    if request.param == "badger":
        jaeger, collector = request.getfixturevalue("jaeger"), request.getfixturevalue("agent")
        yield (jaeger, *faults(folder, collector))
        return
    place, prometheus = tmp_path_factory.mktemp("laptop"), request.getfixturevalue("prometheus")
    with (
        Jaeger(place, storage=request.param) as jaeger,
        Collector("all-in-one.yaml", place, to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url}) as laptop,
    ):
        yield (jaeger, *faults(folder, laptop))


def faults(folder, collector):
    """Run the demo; return its folder and what its files tell of the rollouts that failed."""
    done = run(folder, otlp=collector.http, on_end=lambda _: None)
    assert done.unsent == []
    failed = [found for found in read_files((folder / "spans").glob("*.jsonl"), by="rollout") if found.failed]
    assert len(failed) == FAILED
    return folder, failed


def test_every_failed_rollout_is_found_by_the_attributes_of_its_span(ran, eventually):
    """A search for the kind of a rollout's own failure finds its trace, and the span that it failed with says so."""
    jaeger, _, failed = ran
    for kind in {own_kind(found) for found in failed}:
        wanted = {found.trace_id for found in failed if own_kind(found) == kind}
        eventually(
            lambda kind=kind, wanted=wanted: (
                wanted - {trace["traceID"] for trace in jaeger.find(TOP, failure_kind=kind) if says(trace, kind)}
            ),
            set(),
        )


def test_every_failed_rollout_is_found_by_the_attributes_of_its_events(ran, eventually):
    """A search at the top for the kind of a root cause further down, which is on an event alone, finds its trace."""
    jaeger, _, failed = ran
    by_kind = {}
    for found in failed:
        for event_id in told_at_the_top(found):
            by_kind.setdefault(found.report.events[event_id].failure_kind, set()).add(found.trace_id)
    assert len(by_kind) > len({own_kind(found) for found in failed})
    for kind, wanted in by_kind.items():
        eventually(lambda kind=kind, wanted=wanted: wanted - trace_ids(jaeger.find(TOP, failure_kind=kind)), set())


def test_jaegers_answers_hold_the_reports_of_the_wire(ran, eventually):
    """Each report that a server of the demo sent is the one rebuilt from what Jaeger answers for its trace."""
    jaeger, folder, failed = ran
    sent = {reply.caller: reply.report for reply in replies(folder)}
    compared = 0
    for found in failed:
        eventually(lambda id_=found.trace_id: len(server_spans(jaeger, id_)), len(stored(folder, found.trace_id)))
        for request in read_reports(json.dumps(jaeger.trace(found.trace_id)), by="request"):
            if request.span.kind is SpanKind.SERVER and request.span.parent_id in sent:
                assert disagreements(sent[request.span.parent_id], request) == []
                compared += sent[request.span.parent_id] is not None
    assert compared >= FAILED


def says(trace, kind):
    """Tell whether a span of a trace, as Jaeger tells it, has `kind` among its own attributes."""
    return any({"key": "failure.kind", "type": "string", "value": kind} in span["tags"] for span in trace["spans"])


def own_kind(found):
    """Return the kind of a rollout's own failure."""
    return found.report.events[found.report.failure_id].failure_kind


def told_at_the_top(found):
    """Return the ids of the failures that the collection client heard of, by its own and by remote events."""
    chain = [found.report.failure_id]
    while (cause := found.report.events[chain[-1]].cause_id) is not None:
        chain.append(cause)
    return chain


def trace_ids(traces):
    """Return the trace ids of what a search found."""
    return {trace["traceID"] for trace in traces}


def server_spans(jaeger, trace_id):
    """Return the ids of the servers' spans that Jaeger has of a trace."""
    document = jaeger.trace(trace_id)
    return {
        span["spanId"]
        for resource in document["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
        if span.get("kind") == SpanKind.SERVER
    }


def stored(folder, trace_id):
    """Return the ids of the servers' spans that the run's own files have of a trace."""
    found = set()
    for path in (folder / "spans").glob("*.jsonl"):
        for line in path.read_text().splitlines():
            for resource in json.loads(line)["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    found |= {
                        span["spanId"]
                        for span in scope["spans"]
                        if span["traceId"] == trace_id and span.get("kind") == SpanKind.SERVER
                    }
    return found


APIS = {"by http": lambda jaeger: Source(jaeger.url, most=7), "by grpc": lambda jaeger: by_grpc(jaeger, most=7)}


@pytest.mark.parametrize("api", APIS.values(), ids=APIS)
def test_a_search_by_bisection_gives_the_reports_of_the_files(ran, eventually, api):
    """Asked for few traces at a time, Jaeger gives all that failed, and they tell what the files tell."""
    jaeger, folder, failed = ran
    asked = api(jaeger)
    wanted = {
        report.trace_id: report.report
        for report in read_files((folder / "spans").glob("*.jsonl"))
        if report.trace_id in {found.trace_id for found in failed}
    }

    def told():
        reports = {report.trace_id: report for report in searched(asked, folder)}
        return {trace_id: reports[trace_id].report for trace_id in wanted if trace_id in reports}

    eventually(told, wanted)


def test_both_apis_give_the_same_reports(ran, eventually):
    """Whatever is asked for, and by whichever API, the reports of a run are the same."""
    jaeger, folder, _ = ran
    one, other = Source(jaeger.url), by_grpc(jaeger)
    eventually(lambda: set(other.services()) >= services(folder), True)  # noqa: FBT003 - what is compared
    assert sorted(one.services()) == sorted(other.services())
    for tags in (
        None,
        {"failure.kind": "provider_unavailable"},
        {"failure.boundary": "sandbox"},
        {"failure.kind": "x"},
    ):
        eventually(
            lambda tags=tags: (
                {report.trace_id: report.report for report in searched(one, folder, tags)}
                == {report.trace_id: report.report for report in searched(other, folder, tags)}
            ),
            True,  # noqa: FBT003 - as above
        )
    assert searched(other, folder, {"failure.kind": "provider_unavailable"}) != []
    assert searched(other, folder, {"failure.kind": "x"}) == []


def by_grpc(jaeger, **said):
    """Return what asks a Jaeger by gRPC."""
    return JaegerGrpc(f"grpc://{jaeger.query_grpc}", **said)


def services(folder):
    """Return the names of the services of a run."""
    return {path.stem for path in (folder / "spans").glob("*.jsonl")}


def searched(asked, folder, tags=None):
    """Return the reports of the last hour that a search gives of the services of a run."""
    now = time.time_ns()
    found = asked.failing(services(folder), since_ns=now - 3_600 * 10**9, until_ns=now, tags=tags)
    assert not found.full
    return read_reports(found, by="trace")
