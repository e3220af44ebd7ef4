"""Lines as exporters write them, read by searching: what is found is what decoding finds."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import semconv
from gym_failures.reading import Tally, read_reports, rebuild
from gym_failures.reading.otlp_json import failing_traces, parse, parse_lines
from gym_failures.reading.otlp_line import decode_plain
from gym_failures.reading.otlp_outline import key_of, outline, thinned
from gym_failures.reading.search import count, find
from tests.spans import TRACE, span_id
from tests.strategies import span_layouts, stored_spans

OTHER_TRACE = "1" * 32


def text(name, value):
    """Return an OTLP key-value pair of text."""
    return {"key": name, "value": {"stringValue": value}}


def fine(number, trace=OTHER_TRACE, **fields):
    """Return a span that tells of nothing, with its fields in the order of the exporters."""
    return {"traceId": trace, "spanId": span_id(number), **fields}


def failed(number, trace=TRACE, **fields):
    """Return a span that failed."""
    said = {semconv.FAILURE_ID: "f", semconv.FAILURE_KIND: "agent_timeout", semconv.FAILURE_BOUNDARY: "agent"}
    event = {"name": semconv.EVENT_NAME, "attributes": [text(*pair) for pair in said.items()]}
    return fine(number, trace, attributes=[text(semconv.FAILURE_ID, "f")], events=[event], **fields)


def line(*scopes, service="agent"):
    """Return a record of one resource, with the spans of each of `scopes`, as exporters write it."""
    resource = {"attributes": [text("service.name", service)]}
    held = [{"scope": {}, "spans": list(spans)} for spans in scopes]
    return compact({"resourceSpans": [{"resource": resource, "scopeSpans": held}]})


def compact(document):
    """Return a document as a line of compact JSON."""
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def spaced(data):
    """Return a line with the spaces that Python's own writer leaves."""
    return json.dumps(json.loads(data)).encode() + b"\n"


GOOD = line([fine(1), fine(2)])
LINK = {"traceId": TRACE, "spanId": span_id(9)}

OUTLINED = {
    "one line": GOOD,
    "several lines": GOOD * 3,
    "no spans": GOOD + line(),
    "fields after the spans": GOOD.replace(b"}]}]}]}\n", b'}],"schemaUrl":""}],"schemaUrl":""}]}\n'),
    "several scopes": line([fine(1)], [fine(2)], []),
}

NOT_OUTLINED = {
    "nothing": b"",
    "a blank line": GOOD + b"\n" + GOOD,
    "junk": GOOD + b"junk\n" + GOOD,
    "another signal": GOOD + b'{"resourceLogs":[]}\n',
    "a last line without its end, which may have been cut": GOOD + GOOD.rstrip(),
    "a cut last line": GOOD + GOOD[:-20],
    "a cut line before another": GOOD[:-20] + b"\n" + GOOD,
    "half a line, and the next writer's in the same line": GOOD[:-40] + GOOD,
    "two records in one line": GOOD.rstrip() + GOOD,
    "line ends of two characters": GOOD.replace(b"\n", b"\r\n"),
    "spaces": spaced(GOOD),
    "spaces in one line of many": GOOD + spaced(GOOD) + GOOD,
    "spaces in one span": GOOD.replace(b'"traceId":', b'"traceId": ', 1),
    "another order in one span": line([fine(1), {"spanId": span_id(2), "traceId": OTHER_TRACE}]),
    "an id in base64": line([fine(1), fine(2, trace="Cvdl" * 6)]),
    "an id in capitals": line([fine(1), fine(2, trace="A" * 32)]),
    "an id that is too short": line([fine(1), fine(2, trace="abc")]),
    "an empty id": line([fine(1), fine(2, trace="")]),
    "links": line([fine(1, links=[LINK])]),
    "snake_case within": GOOD.replace(b"traceId", b"trace_id"),
    "snake_case within one span": GOOD.replace(b"traceId", b"trace_id", 1),
    "a text that is a name": line([fine(1, name="traceId")]),
}


@pytest.mark.parametrize("data", OUTLINED.values(), ids=OUTLINED)
def test_lines_of_exporters(data):
    """What exporters write has an outline, with the start and the trace of each span."""
    outlined = outline(data)
    assert outlined.keys == [key_of(span.trace_id) for span in parse(data).spans]
    assert {data[start : start + 12] for start in outlined.starts} <= {b'{"traceId":"'}


@pytest.mark.parametrize("data", NOT_OUTLINED.values(), ids=NOT_OUTLINED)
def test_lines_of_others(data):
    """What is not as exporters write it, or not whole, has no outline."""
    assert outline(data) is None


@pytest.mark.parametrize("data", [*OUTLINED.values(), *NOT_OUTLINED.values()], ids=[*OUTLINED, *NOT_OUTLINED])
@pytest.mark.parametrize("before", [True, False])
def test_reading_by_search_is_reading(data, before):
    """Beside lines of every kind a failure gives the same reports, spans and skips as when all is decoded."""
    data = line([fine(3), failed(4), fine(5, TRACE)]) + data if before else data + b"\n" + line([failed(4)])
    found, all_of_it = read_reports(data), parse(data)
    assert list(found) == rebuild(all_of_it.spans)
    assert len(found) == 1
    assert (found.spans, list(found.skipped)) == (len(all_of_it.spans), all_of_it.skipped)


@given(span_layouts(), st.sets(st.integers(0, 3)))
def test_thinned_lines(layouts, wanted):
    """A thinned line is a record that has all of the wanted spans, each under its own resource and scope."""
    traces = {f"{number:032x}" for number in wanted}

    def spans_of(resources):
        return [
            [
                [span.span_id for span in scope.spans if span.trace_id in traces]
                for scope in resource.scope_spans
                if any(span.trace_id in traces for span in scope.spans)
            ]
            for resource in resources
            if any(span.trace_id in traces for scope in resource.scope_spans for span in scope.spans)
        ]

    numbers = iter(range(1, 1_000))
    data = b"".join(
        compact(
            {
                "resourceSpans": [
                    {
                        "resource": {},
                        "scopeSpans": [
                            {"spans": [fine(next(numbers), f"{trace:032x}", status={}) for trace in scope]}
                            for scope in resource
                        ],
                    }
                    for resource in request
                ]
            }
        )
        for request in layouts
    )
    outlined = outline(data)
    lines = list(thinned(outlined, {key_of(trace) for trace in traces}))
    assert spans_of(decode_plain(lines)) == spans_of(decode_plain(data.splitlines()))
    assert sum(map(len, lines)) <= len(data)


def test_unwanted_spans_are_not_decoded():
    """Of many spans in a line those of the wanted trace are left, and the last, which has the end with it."""
    many = line([fine(number) for number in range(1, 50)] + [failed(50)] + [fine(number) for number in range(51, 99)])
    (thin,) = thinned(outline(many), {key_of(TRACE)})
    assert [span.span_id for span in parse(thin).spans] == [span_id(50), span_id(98)]


def as_exported(record):
    """Return a span record as exporters write it, without what is empty."""
    fields = {
        "traceId": record.trace_id,
        "spanId": record.span_id,
        "parentSpanId": record.parent_id,
        "name": record.name,
        "kind": int(record.kind),
        "startTimeUnixNano": str(record.start_ns),
        "endTimeUnixNano": str(record.end_ns),
        "attributes": [text(*pair) for pair in record.attributes.items()],
        "events": [
            {
                "timeUnixNano": str(event.time_ns),
                "name": event.name,
                "attributes": [text(name, str(value)) for name, value in event.attributes.items()],
            }
            for event in record.events
        ],
        "droppedEventsCount": record.dropped_events,
    }
    return {name: value for name, value in fields.items() if value}


@given(stored_spans(), st.sampled_from(["trace", "request", "rollout"]), st.integers(1, 4))
def test_what_is_not_decoded_changes_no_report(spans, by, batch):
    """Whatever the spans are, the reports are those that come of decoding all spans of the failing traces."""
    exported = [as_exported(span) for span in spans]
    data = b"".join(line(exported[start : start + batch]) for start in range(0, len(spans), batch))
    traces = failing_traces([data])
    assert list(read_reports(data, by=by)) == rebuild(
        [span for span in parse(data).spans if span.trace_id in traces], by=by
    )


@given(st.data())
def test_a_file_cut_anywhere(data):
    """Wherever a file was cut, the failures in its whole lines are found, and the rest is one skip."""
    whole = GOOD + line([failed(3), fine(4)]) + line([fine(5), failed(6, OTHER_TRACE)], [fine(7)])
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    found, all_of_it = read_reports(io.BytesIO(cut)), parse(cut)
    assert list(found) == rebuild(all_of_it.spans)
    assert (found.spans, list(found.skipped)) == (len(all_of_it.spans), all_of_it.skipped)


def test_a_damaged_span_beside_a_failure_is_told_of():
    """In a line that has a failure every fault of what is decoded is told of, with the line that it is in."""
    damaged = line([failed(1), fine(2, TRACE, name=5), fine(3)])
    found = read_reports(GOOD * 5 + damaged + GOOD)
    assert (len(found), found.spans, [skip.line for skip in found.skipped]) == (1, 14, [6])


def test_unwanted_spans_of_several_scopes_are_not_decoded():
    """Where another scope follows, the span before it is left too, because it has the end of its scope with it."""
    many = line(
        [failed(1), *(fine(number) for number in range(2, 20))],
        [fine(number) for number in range(20, 30)],
        [*(fine(number) for number in range(30, 40)), failed(40), *(fine(number) for number in range(41, 50))],
    )
    (thin,) = thinned(outline(many), {key_of(TRACE)})
    assert [span.span_id for span in parse(thin).spans] == list(map(span_id, (1, 19, 29, 40, 49)))


def test_lines_of_several_processes():
    """A process that several lines repeat is that of the spans in those lines, and of no others."""
    services = ["agent", "model", "agent", "sandbox", "model"]
    data = b"".join(line([failed(number)], service=service) for number, service in enumerate(services, 1))
    spans = parse_lines([data], Tally(), traces={TRACE})
    assert {span.span_id: span.service for span in spans} == {
        span_id(number): service for number, service in enumerate(services, 1)
    }


@given(st.binary(max_size=100), st.binary(min_size=1, max_size=4), st.integers(0, 100))
def test_searching(data, wanted, start):
    """Searching answers what Python's own would, wherever it begins."""
    for sought in (wanted, data[start : start + 20] or wanted):
        assert find(data, sought) == data.find(sought)
        assert count(data, sought) == data.count(sought)
        if start <= len(data):
            assert find(data, sought, start) == data.find(sought, start)
            assert find(data, sought, start, start + 20) == data.find(sought, start, start + 20)
