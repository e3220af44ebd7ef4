"""A failure becomes a span event, a count and, where nothing else carries it, a line of JSON."""

import json
import logging
import tracemalloc

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, StatusCode

from gym_failures import attributes, recorder, semconv
from gym_failures.config import Config, ConfigError
from gym_failures.errors import FailureError
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.log import FailureLog
from gym_failures.recorder import FailureRecorder
from gym_failures.recording import observe, record_failure
from gym_failures.records import FailureEvent, SdkErrorDetails
from gym_failures.testing import Telemetry


def event(number: int = 1, **fields: object) -> FailureEvent:
    """Make an event whose id tells its number."""
    return FailureEvent(
        **{
            "event_id": f"{number:032x}",
            "failure_kind": "provider_unavailable",
            "boundary": FailureBoundary.MODEL,
            "failure_reason": "the provider is away",
            **fields,
        }
    )


def test_span_event_has_exactly_these_names_and_values(telemetry: Telemetry) -> None:
    """A recorded failure is one span event of a constant name with the attributes of the table, in its order."""
    full = event(
        stage=FailureStage.AGENT,
        operation="model POST /v1/responses",
        operation_id="op",
        attempt_id="op.1",
        exception_type="openai.AuthenticationError",
        http_status=401,
        foreign_error=SdkErrorDetails(exception_type="openai.AuthenticationError", message="bad key", http_status=401),
        details={"provider_request_id": "req-1", "request_upload_complete": True},
    )
    with telemetry.span("work"):
        record_failure(full)
    (found,) = telemetry.named("work").events
    assert found.name == "gym.failure"
    assert list((found.attributes or {}).items()) == [
        ("failure.reason", "the provider is away"),
        ("failure.operation", "model POST /v1/responses"),
        ("failure.operation_id", "op"),
        ("failure.attempt_id", "op.1"),
        ("failure.stage", "agent"),
        ("exception.type", "openai.AuthenticationError"),
        ("http.response.status_code", 401),
        ("failure.foreign_error.type", "openai.AuthenticationError"),
        ("failure.foreign_error.message", "bad key"),
        ("failure.foreign_error.http_status", 401),
        ("failure.model.provider_request_id", "req-1"),
        ("failure.model.request_upload_complete", True),
        ("failure.origin", "local"),
        ("failure.root", True),
        ("failure.boundary", "model"),
        ("failure.kind", "provider_unavailable"),
        ("failure.id", f"{1:032x}"),
    ]


def test_every_local_failure_counts_once_by_kind_boundary_stage_and_root(telemetry: Telemetry) -> None:
    """The counter's labels are kind, boundary, stage and root, and never an id, a reason or an exception type."""
    with telemetry.span("work"):
        record_failure(event(1, stage=FailureStage.VERIFICATION, exception_type="ValueError"))
        record_failure(event(2, cause_id=f"{1:032x}"))
    assert telemetry.counts() == {
        (
            ("failure.boundary", "model"),
            ("failure.kind", "provider_unavailable"),
            ("failure.root", True),
            ("failure.stage", "verification"),
        ): 1,
        (("failure.boundary", "model"), ("failure.kind", "provider_unavailable"), ("failure.root", False)): 1,
    }


def test_ten_thousand_unregistered_kinds_make_one_series(telemetry: Telemetry) -> None:
    """Kinds outside the vocabulary count under `_OTHER`, and the event keeps its name (opentelemetry-python#2700)."""
    with telemetry.span("work"):
        for number in range(10_000):
            telemetry.recorder.write(event(number, failure_kind=f"odd_{number}"))
        telemetry.recorder.write(
            event(failure_kind="odd_x"), span=telemetry.tracer_provider.get_tracer("t").start_span("s")
        )
    ((series, count),) = telemetry.counts().items()
    assert dict(series)["failure.kind"] == "_OTHER"
    assert count == 10_001


def test_kinds_that_are_not_counted_by_name_keep_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the recorder remembers does not grow with names that count under `_OTHER`: a peer may make up any number."""
    monkeypatch.setattr("gym_failures.limits.NAMESPACED_KINDS_COUNTED", 2)
    of_ours = FailureRecorder(Config(log_lines="never"), meter_provider=metrics.NoOpMeterProvider())
    events = [event(failure_kind=f"{name}_{number}") for number in range(1_000) for name in ("odd", "server:odd")]
    for one in events[:10]:
        of_ours.write(one)
    tracemalloc.start()
    try:
        for one in events[10:]:
            of_ours.write(one)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown / len(events) < 50, "not even a key of a name is kept"


def test_namespaced_kinds_count_by_name_up_to_the_cap(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Namespaced kinds past the cap count under `_OTHER`; those within it keep their own series."""
    monkeypatch.setattr("gym_failures.limits.NAMESPACED_KINDS_COUNTED", 2)
    for kind in ("a:x", "b:x", "c:x", "a:x"):
        telemetry.recorder.write(event(failure_kind=kind))
    assert telemetry.count(failure_kind="a:x") == 2
    assert telemetry.count(failure_kind="b:x") == 1
    assert telemetry.count(failure_kind="_OTHER") == 1


@pytest.mark.parametrize(("limit", "expected_children"), [(None, 200 - 64), (10, 190)], ids=["default", "sdk-limit-10"])
def test_failures_past_a_spans_room_go_on_child_spans(limit: int | None, expected_children: int) -> None:
    """Of 200 failures on one span all 200 are exported, the later ones on short child spans of it.

    The SDK keeps only the newest events of a span (opentelemetry-specification#1425).
    """
    with Telemetry(span_limits=SpanLimits(max_events=limit) if limit else None) as telemetry:
        with telemetry.span("work"):
            for number in range(200):
                record_failure(event(number))
        ids = {found["failure.id"] for found in telemetry.events()}
        assert ids == {f"{number:032x}" for number in range(200)}
        children = [span for span in telemetry.spans() if span.name == semconv.OVERFLOW_SPAN_NAME]
        assert len(children) == expected_children
        parent = telemetry.named("work").context
        assert parent is not None
        assert all(child.parent is not None and child.parent.span_id == parent.span_id for child in children)
        assert telemetry.count() == 200


def test_recording_after_the_span_ended_goes_on_a_short_linked_span(telemetry: Telemetry) -> None:
    """A failure recorded on a span that has ended goes on a short span of its trace (google-cloud-node#8939)."""
    with telemetry.span("work") as span:
        pass
    record_failure(event(), span=span)
    late = telemetry.named(semconv.OVERFLOW_SPAN_NAME)
    work = telemetry.named("work")
    assert late.context is not None
    assert work.context is not None
    assert late.context.trace_id == work.context.trace_id
    assert [link.context.span_id for link in late.links] == [work.context.span_id]
    assert telemetry.only_event()["failure.id"] == f"{1:032x}"


def test_unsampled_span_builds_no_attributes_for_a_span_and_still_counts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a span that is not sampled no attribute is built, the counter counts (logfire#1497)."""

    def spy(*_: object, **__: object) -> dict[str, object]:
        raise AssertionError("attributes were built")

    caplog.set_level(logging.CRITICAL, logger=semconv.LOGGER_FAILURES)
    monkeypatch.setattr(recorder, "to_attributes", spy)
    with Telemetry(sampler=ALWAYS_OFF) as telemetry:
        with telemetry.span("work"):
            record_failure(event())
        assert telemetry.spans() == ()
        assert telemetry.count() == 1


def test_failure_that_no_span_carries_is_one_line_of_json(
    telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a recording span a failure is one line of JSON with the event's own fields (NVIDIA-NeMo/Gym#3182)."""
    record_failure(event())
    (record,) = [record for record in caplog.records if record.name == semconv.LOGGER_FAILURES]
    line = json.loads(record.getMessage())
    assert line.pop("time_unix_nano") > 0
    assert line == {"event": "gym.failure", **attributes.to_attributes(event(), origin="local", root=True)}
    assert telemetry.spans() == ()


@pytest.mark.parametrize(
    ("setting", "on_span", "off_span"),
    [("auto", 0, 1), ("always", 1, 1), ("never", 0, 0)],
)
def test_log_lines_follow_the_setting(
    setting: str, on_span: int, off_span: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A line is written when nothing else carries the failure, always, or never, as configured."""
    with Telemetry(Config(log_lines=setting)) as telemetry:
        with telemetry.span("work"):
            record_failure(event(1))
        assert len(caplog.records) == on_span
        caplog.clear()
        record_failure(event(2))
        assert len(caplog.records) == off_span


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("full", "the provider is away"), ("truncate:12", "the pr…[+14]"), ("off", None)],
)
def test_reasons_on_spans_follow_the_setting(setting: str, expected: str | None) -> None:
    """Spans keep reasons whole, cut with a mark, or not at all, as configured."""
    with Telemetry(Config(span_reasons=setting)) as telemetry:
        with telemetry.span("work"):
            record_failure(event())
        assert telemetry.only_event().get("failure.reason") == expected


def test_summary_is_three_attributes_and_a_status_without_description(telemetry: Telemetry) -> None:
    """The own failure gives its span id, kind and boundary and the status ERROR; a description could hold secrets."""
    with telemetry.span("work") as span:
        telemetry.recorder.summarize(span, event())
    work = telemetry.named("work")
    assert dict(work.attributes or {}) == {
        "failure.id": f"{1:032x}",
        "failure.kind": "provider_unavailable",
        "failure.boundary": "model",
    }
    assert work.status.status_code is StatusCode.ERROR
    assert work.status.description is None


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("provider_unavailable", "provider_unavailable"),
        ("tools:odd", "tools:odd"),
        ("odd", "_OTHER"),
        ("cancelled", None),
    ],
)
def test_an_error_of_our_own_span_has_a_type(telemetry: Telemetry, kind: str, expected: str | None) -> None:
    """A span that `observe` opens and that ends as ERROR says `error.type`, the kind by the name it counts under."""
    with pytest.raises(FailureError), observe("agent", span_name="ours"):
        raise FailureError(kind, boundary="agent")
    attributes_of_ours = telemetry.named("ours").attributes or {}
    assert attributes_of_ours["failure.kind"] == kind
    assert attributes_of_ours.get("error.type") == expected


def test_the_log_of_our_own_span_gives_it_a_type_and_no_other(telemetry: Telemetry) -> None:
    """A log says `error.type` on its span where that is of this package, and nothing of it on another's span."""
    ours = telemetry.recorder.tracer.start_span("ours")
    theirs = telemetry.tracer_provider.get_tracer("theirs").start_span("theirs")
    for span in (ours, theirs):
        FailureLog("agent", span=span, recorder=telemetry.recorder).settle(ValueError("x"))
        span.end()
    assert (telemetry.named("ours").attributes or {})["error.type"] == "agent_run_error"
    assert (telemetry.named("theirs").attributes or {})["failure.kind"] == "agent_run_error"
    assert "error.type" not in (telemetry.named("theirs").attributes or {})


def test_cancelled_leaves_the_status_alone(telemetry: Telemetry) -> None:
    """A cancelled request is named on its span, whose status stays unset (opentelemetry-python#4484)."""
    with telemetry.span("work") as span:
        telemetry.recorder.summarize(span, event(failure_kind="cancelled"))
    work = telemetry.named("work")
    assert (work.attributes or {})["failure.kind"] == "cancelled"
    assert work.status.status_code is StatusCode.UNSET


def test_wrong_environment_raises_for_who_builds_and_not_for_who_records(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrong variable raises with its name where a recorder is built; recording warns once and uses the defaults."""
    monkeypatch.setenv("GYM_FAILURES_HEADER_BUDGET", "many")
    with pytest.raises(ConfigError, match="GYM_FAILURES_HEADER_BUDGET"):
        FailureRecorder()
    recorder.set_default_recorder(None)
    try:
        assert record_failure(event()) is not None
        assert [r for r in caplog.records if "GYM_FAILURES_HEADER_BUDGET" in r.getMessage()]
    finally:
        recorder.set_default_recorder(None)


def test_switched_off_records_nothing() -> None:
    """With `enabled` false nothing is written and nothing counted."""
    with Telemetry(Config(enabled=False)) as telemetry:
        with telemetry.span("work"):
            assert record_failure(event()) is None
            assert record_failure(ValueError("x"), boundary="agent") is None
        assert telemetry.events() == []
        assert telemetry.count() == 0


def test_one_broken_way_out_leaves_the_others() -> None:
    """A log handler that raises costs its lines; spans, counts and the report have every failure of a chain."""

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002 - as it is called
            raise RuntimeError("disk full")

    telemetry = Telemetry(Config(log_lines="always"))
    handler = Broken()
    logger = logging.getLogger(semconv.LOGGER_FAILURES)
    logger.addHandler(handler)
    try:
        with telemetry.span("server"):
            log = FailureLog("agent", recorder=telemetry.recorder)
            error = FailureError("agent_run_error", boundary="agent")
            error.__cause__ = FailureError("provider_unavailable", boundary="model")
            own = log.settle(error)
    finally:
        logger.removeHandler(handler)
    assert own is not None
    assert log.report().failure_id == own.event_id
    assert len(log.report().events) == len(telemetry.events()) == telemetry.count() == 2


def test_broken_span_leaves_count_and_line(caplog: pytest.LogCaptureFixture) -> None:
    """Where a span takes no event, as with a broken sampler, the failure is counted and is a line of JSON."""

    class Broken(NonRecordingSpan):
        def is_recording(self) -> bool:
            return True

        def add_event(self, *_: object, **__: object) -> None:
            raise RuntimeError("broken")

    telemetry = Telemetry()
    telemetry.recorder.write(event(), span=Broken(INVALID_SPAN_CONTEXT))
    assert telemetry.count() == 1
    lines = [record.getMessage() for record in caplog.records if record.name == semconv.LOGGER_FAILURES]
    assert [json.loads(line)["failure.id"] for line in lines] == [event().event_id]
