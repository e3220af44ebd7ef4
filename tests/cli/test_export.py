"""What `export` sends, and how it ends where that is not taken."""

import json
import os

import pytest

from gym_failures import limits, semconv
from gym_failures.attributes import to_attributes
from gym_failures.reading import read_reports
from gym_failures.records import FailureReport
from gym_failures.rows import with_failures
from tests.cli.receiving import receiving
from tests.spans import failure, server, told

FAILED = server(2, None, told(failure("a"), at=5), own="a", rollout="r2", service="agent")
FINE = server(3, None, trace="3" * 32)


@pytest.fixture
def receiver():
    """Give a receiver."""
    with receiving() as running:
        yield running


def test_failing_traces_are_sent(command, write, receiver):
    """The spans of failing traces are sent as they are stored, and how many is said."""
    ended = command("export", "--to", receiver.url, write(FAILED, FINE))
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output == f"sent 1 spans of 1 traces to {receiver.url}/v1/traces\n"
    ((path, headers, _),) = receiver.requests
    assert (path, headers["Content-Type"]) == ("/v1/traces", "application/json")
    (span,) = receiver.spans
    assert (span.trace_id, span.span_id, span.start_ns) == (FAILED.trace_id, FAILED.span_id, FAILED.start_ns)
    assert span.events[0].attributes == FAILED.events[0].attributes


def test_all_traces_are_sent_where_that_is_asked(command, write, receiver):
    """`--all` sends traces without failures too."""
    command("export", "--all", "--to", receiver.url, write(FAILED, FINE))
    assert {span.trace_id for span in receiver.spans} == {FAILED.trace_id, FINE.trace_id}


def test_many_spans_are_sent_in_parts(command, write, receiver):
    """A large run is sent in requests of a bounded size, and whole."""
    spans = [server(n, None, told(failure(f"f{n}")), own=f"f{n}", trace=f"{n:032x}") for n in range(1, 1_200)]
    command("export", "--to", receiver.url, write(*spans))
    assert len(receiver.requests) == 3
    assert {span.trace_id for span in receiver.spans} == {span.trace_id for span in spans}


def test_a_row_becomes_a_span_that_is_counted(command, tmp_path, receiver):
    """A row is sent as a span with stable ids and a stable time, and its failures as what a Collector counts."""
    report = FailureReport(events={"m": failure("m"), "a": failure("a", "m")}, failure_id="a")
    path = tmp_path / "rollouts.jsonl"
    path.write_text(json.dumps(with_failures({"_ng_task_index": 3, "_ng_rollout_index": 1}, report)))
    for _ in range(2):
        assert command("export", "--to", receiver.url, path).status == 0
    one, other = receiver.spans
    assert one == other
    assert (one.service, one.start_ns, one.end_ns) == ("rollouts", *[limits.UNKNOWN_TIME] * 2)
    assert [event.attributes[semconv.FAILURE_ORIGIN] for event in one.events] == ["local", "local"]
    assert [event.attributes[semconv.FAILURE_ROOT] for event in one.events] == [True, False]
    (sent,) = read_reports(receiver.requests[0][2], by="rollout")
    assert (sent.key, sent.report) == ("3-1", report)


ALONE = {"_ng_task_index": 3, "_ng_rollout_index": 1, "_ng_failure_class": "agent_run_error"}


def test_a_file_that_grows_is_sent_again(command, tmp_path, receiver):
    """A row is the same span however often its file was written to since, and so is one from standard input."""
    path = tmp_path / "rollouts.jsonl"
    text = json.dumps(ALONE) + "\n"
    for number in range(3):
        path.write_text(text + json.dumps({**ALONE, "_ng_task_index": 4}) * (number > 0))
        os.utime(path, ns=(number, number))
        assert command("export", "--to", receiver.url, path).status == 0
    assert len({(span.span_id, span.start_ns) for span in receiver.spans}) == 2
    for _ in range(2):
        assert command("export", "--to", receiver.url, "-", given=text.encode()).status == 0
    *_, one, other = receiver.spans
    assert one == other


ROW_TIMES = {
    "its response's": ({"response": {"created_at": 1_700_000_000.5}}, (), 1_700_000_000 * 10**9),
    "none": ({"response": {"created_at": "now"}}, (), limits.UNKNOWN_TIME),
    "one that cannot be": ({"response": {"created_at": 1e300}}, (), limits.UNKNOWN_TIME),
    "not a number": ({"response": {"created_at": float("nan")}}, (), limits.UNKNOWN_TIME),
    "one that is given": ({}, ("--at", "2026-05-01"), 1_777_593_600 * 10**9),
}


@pytest.mark.parametrize(("more", "options", "expected"), ROW_TIMES.values(), ids=ROW_TIMES)
def test_when_a_row_is_said_to_have_been(command, receiver, more, options, expected):
    """A row whose failures tell no time is at that of its response, else where one says, else always the same."""
    row = json.dumps(ALONE | more).encode()
    assert command("export", "--to", receiver.url, *options, "-", given=row).status == 0
    (span,) = receiver.spans
    assert (span.start_ns, span.end_ns, span.events[0].time_ns) == (expected, expected, expected)


def test_a_time_that_is_none(command, write, receiver):
    """A time before 1970 is wrong use: spans have none."""
    assert command("export", "--to", receiver.url, "--at", "1969-12-31", write(FAILED)).status == 2


def test_a_line_of_a_log_becomes_a_short_span(command, tmp_path, receiver):
    """A failure's line is sent as a span of its own beneath the one that it names, which may be stored, and once."""
    line = {"event": "gym.failure", "time_unix_nano": 7, "trace_id": "1" * 32, "span_id": "2" * 16}
    path = tmp_path / "server.log"
    path.write_text(f"INFO: started\n{json.dumps({**line, **to_attributes(failure('m'), root=True)})}\n")
    for _ in range(2):
        assert command("export", "--to", receiver.url, path).status == 0
    one, other = receiver.spans
    assert one == other
    assert (one.trace_id, one.parent_id, one.name, one.start_ns, one.end_ns) == (
        "1" * 32,
        "2" * 16,
        "gym.failure",
        7,
        7,
    )
    assert one.span_id != one.parent_id
    assert one.events[0].attributes == to_attributes(failure("m"), root=True)


def test_a_line_without_a_trace_becomes_a_trace(command, tmp_path, receiver):
    """A failure's line that names no span is sent as the first span of a trace, beneath none and not beneath itself."""
    path = tmp_path / "server.log"
    path.write_text(json.dumps({"event": "gym.failure", **to_attributes(failure("m"), root=True)}))
    assert command("export", "--to", receiver.url, path).status == 0
    (span,) = receiver.spans
    assert (span.name, span.parent_id, span.events[0].attributes) == (
        "gym.failure",
        None,
        to_attributes(failure("m"), root=True),
    )


@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_the_variables_of_opentelemetry_are_heeded(command, write, receiver, monkeypatch, variable):
    """Without `--to`, spans go where OpenTelemetry's variables say, with the headers that they name."""
    monkeypatch.setenv(variable, receiver.url + ("/v1/traces" if "TRACES" in variable else ""))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b,x-other=c")
    assert command("export", write(FAILED)).status == 0
    ((path, headers, _),) = receiver.requests
    assert (path, headers["x-key"], headers["x-other"]) == ("/v1/traces", "a b", "c")


def test_a_receiver_that_is_busy_is_asked_again(command, write, receiver, monkeypatch):
    """What a receiver is too busy for is sent again, and then once."""
    monkeypatch.setattr(limits, "SEND_AGAIN", (0.0, 0.0))
    receiver.answers += [(503, b""), (429, b"")]
    assert command("export", "--to", receiver.url, write(FAILED)).status == 0
    assert len(receiver.requests) == 3


REFUSALS = {
    "an error": ([(400, b"no")], "answered 400"),
    "busy for too long": ([(503, b"")] * 3, "answered 503"),
    "some spans": (
        [(200, b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}')],
        "refused 1 spans: too old",
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_what_is_refused_is_an_error(command, write, receiver, monkeypatch, refusal):
    """Where not all is taken, the command says why and ends with status 5."""
    monkeypatch.setattr(limits, "SEND_AGAIN", (0.0, 0.0))
    answers, said = refusal
    receiver.answers += answers
    ended = command("export", "--to", receiver.url, write(FAILED))
    assert (ended.status, ended.output) == (5, "")
    assert ended.errors == f"gym-failures: {receiver.url}/v1/traces {said}; 0 spans were sent before\n"


@pytest.mark.parametrize(
    "answer", [b"", b"ok", b"[]", b'{"partialSuccess":{}}', b'{"partialSuccess":{"errorMessage":"x"}}']
)
def test_an_answer_that_refuses_nothing_is_well(command, write, receiver, answer):
    """Whatever else a receiver says with its 200, the spans were taken."""
    receiver.answers.append((200, answer))
    assert command("export", "--to", receiver.url, write(FAILED)).status == 0


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:4318", "is no URL"),
        ("ftp://127.0.0.1", "is no URL"),
        ("http://local host:4318", "is no URL"),
        ("http://127.0.0.1:99999", "is no URL"),
        ("http://me:secret@127.0.0.1", "a URL with a user is not taken"),
    ],
)
def test_where_nothing_can_be_sent(command, write, url, said):
    """What is no address to send to is wrong use: one line that says so, without a secret, and status 2."""
    ended = command("export", "--to", url, write(FAILED))
    assert (ended.status, ended.output) == (2, "")
    assert said in ended.errors
    assert "secret" not in ended.errors
    assert len(ended.errors.splitlines()) == 1


def test_where_nobody_is(command, write):
    """Where nobody takes spans, the command says so in one line and ends with status 5."""
    ended = command("export", "--to", "http://127.0.0.1:1", write(FAILED))
    assert (ended.status, ended.output) == (5, "")
    assert "took nothing" in ended.errors
    assert len(ended.errors.splitlines()) == 1


def test_files_that_cannot_be_read(command, write, receiver, tmp_path):
    """A file that is not there is wrong use; a damaged line is told of, and with `--strict` an error."""
    assert command("export", "--to", receiver.url, tmp_path / "nowhere").status == 2
    path = write(FAILED)
    path.write_text(path.read_text() + "junk\n")
    ended = command("export", "--strict", "--to", receiver.url, path)
    assert ended.status == 4
    assert ended.errors.startswith(f"skipped: {path}, line 2: ")
    assert len(receiver.spans) == 1
