"""A failure becomes a span event, a count and, where nothing else would carry it, one line of JSON."""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from opentelemetry import metrics, trace
from opentelemetry.trace import Link, NonRecordingSpan, Span, StatusCode, TraceFlags

from gym_failures import kinds, limits, provided, selfmetrics, semconv
from gym_failures._version import __version__
from gym_failures.attributes import to_attributes
from gym_failures.config import Config, ConfigError
from gym_failures.guard import Guard, warn_once
from gym_failures.privacy import reason_policy, shortened
from gym_failures.records import FailureEvent
from gym_failures.room import keeps_events, room_on
from gym_failures.text import cut

_SAMPLED: Final = int(TraceFlags.SAMPLED)

# Each way out has a guard of its own: where one breaks, as in a log handler of the program, the others still carry.
_SPAN: Final = Guard("span")
_LINE: Final = Guard("log_line")


class ShortSpans(Protocol):
    """What bounds the short spans of one request."""

    def may_open_for(self, event: FailureEvent) -> bool:
        """Tell whether one more may be opened, for this event."""


class FailureRecorder:
    """Write failures to spans, counters and the log, by one configuration.

    One recorder serves a process and is safe in threads: what it keeps is the set of counted namespaced kinds. None of
    its methods checks whether an event was written before; `log.FailureLog` and `record_failure` do.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        """Take the configuration (None reads the environment) and the providers (None takes the global ones).

        Raises ConfigError when the environment holds a wrong value.
        """
        self.config = Config.from_env() if config is None else config
        if tracer_provider is None:
            tracer_provider = provided.tracer_provider()
        self.tracer = trace.get_tracer(semconv.SCOPE, __version__, tracer_provider)
        """What opens the spans of this package."""
        self.meter = selfmetrics.meter_of(meter_provider)
        """What makes the counters of this package."""
        self._failures = self.meter.create_counter(
            semconv.METRIC_FAILURES, unit="{failure}", description="Failures that this process was first to observe."
        )
        self._requests = self.meter.create_counter(
            semconv.METRIC_REQUESTS_FAILED, unit="{request}", description="Requests whose outcome was a failure."
        )
        self._namespaced: set[str] = set()
        self._labels: dict[tuple[str, str, str | None, bool], dict[str, str | bool]] = {}
        self._lines = logging.getLogger(semconv.LOGGER_FAILURES)
        self._always_line = self.config.log_lines == "always"
        self._ever_line = self.config.log_lines != "never"
        self._policy = None if self.config.span_reasons == "full" else reason_policy(self.config.span_reasons)

    def write(  # noqa: PLR0913 - an event, and where it may go
        self,
        event: FailureEvent,
        *,
        origin: str = semconv.ORIGIN_LOCAL,
        span: Span | None = None,
        request_span: Span | None = None,
        late: bool = False,
        short_spans: ShortSpans | None = None,
    ) -> None:
        """Write one event: on `span` if that records, else on `request_span`, else on a short span beneath them.

        Counts it when its origin is local. When no span carries it, it becomes a line of JSON. Call it once an event;
        `late` says that the reply's header had been written before. `short_spans` is asked before a short span is
        opened; None has no bound.
        """
        try:
            carried = self._on_a_span(event, origin, span, request_span, late=late, short_spans=short_spans)
        except Exception:  # a block of the guard costs too much where all goes well
            carried = False
            with _SPAN:
                raise
        if origin == semconv.ORIGIN_LOCAL:
            self._failures.add(1, self._labels_of(event))
        if self._always_line or (self._ever_line and not carried and origin == semconv.ORIGIN_LOCAL):
            with _LINE:
                self._line(event, origin, span, request_span, late=late)

    def carry(  # noqa: PLR0913 - as of `write`
        self,
        event: FailureEvent,
        *,
        origin: str,
        span: Span | None,
        late: bool,
        request_span: Span | None = None,
        short_spans: ShortSpans | None = None,
    ) -> None:
        """Put on a span, as `write` does, an event that was written where no span was left, or none was there."""
        with _SPAN:
            self._on_a_span(event, origin, span, request_span, late=late, short_spans=short_spans)

    def count_in_silence(self, event: FailureEvent, span: Span) -> bool:
        """Count a local event of which nothing else would be seen on `span`, which does not record; tell if so.

        Then no attribute is built, and its text need not even be cleaned.
        """
        if span.get_span_context().trace_flags & _SAMPLED:
            return False
        if self._ever_line and self._lines.isEnabledFor(logging.WARNING):
            return False
        self._failures.add(1, self._labels_of(event))
        return True

    def summarize(self, span: Span, event: FailureEvent, *, omitted: bool = False) -> None:
        """Say on `span` which failure is its own, and set its status to ERROR unless it was cancelled.

        The status has no description: OpenTelemetry's instrumentation overwrites it, and it could hold secrets. With
        ERROR a span of this package says `error.type` (OpenTelemetry's semantic conventions, "Recording errors").
        """
        if not span.is_recording():
            return
        kind = event.failure_kind
        attributes: dict[str, str | bool] = {
            semconv.FAILURE_ID: event.event_id,
            semconv.FAILURE_KIND: kind,
            semconv.FAILURE_BOUNDARY: event.boundary._value_,
        }
        if kind != kinds.CANCELLED:
            span.set_status(StatusCode.ERROR)
            if _is_ours(span):
                # First, so that where a span takes few attributes the last ones that it got are those of the failure.
                attributes = {semconv.ERROR_TYPE: self._label(kind), **attributes}
        if omitted:
            attributes[semconv.FAILURE_OMITTED] = True
        span.set_attributes(attributes)

    def request_failed(self, event: FailureEvent) -> None:
        """Count one request whose own failure is `event`."""
        self._requests.add(
            1, {semconv.FAILURE_KIND: self._label(event.failure_kind), semconv.FAILURE_BOUNDARY: event.boundary.value}
        )

    def _on_a_span(  # noqa: PLR0913 - what `write` was given
        self,
        event: FailureEvent,
        origin: str,
        span: Span | None,
        request_span: Span | None,
        *,
        late: bool,
        short_spans: ShortSpans | None,
    ) -> bool:
        target = span if span is not None and span.is_recording() else request_span
        if target is not None and target.is_recording():
            room = room_on(target)
            if room is not None:
                target.add_event(semconv.EVENT_NAME, self._attributes(event, origin, late=late, room=room.text))
                return True
            return self._on_a_short_span(event, origin, target, late=late, short_spans=short_spans)
        for ended in (span, request_span):
            # A span that has ended but was sampled: what happens after it still belongs to its trace.
            if ended is not None and (context := ended.get_span_context()).is_valid and context.trace_flags.sampled:
                return self._on_a_short_span(event, origin, ended, late=late, short_spans=short_spans, ended=True)
        return False

    def _on_a_short_span(  # noqa: PLR0913 - what `write` was given
        self,
        event: FailureEvent,
        origin: str,
        parent: Span,
        *,
        late: bool,
        short_spans: ShortSpans | None,
        ended: bool = False,
    ) -> bool:
        if not keeps_events(parent) or (short_spans is not None and not short_spans.may_open_for(event)):
            return False
        context = parent.get_span_context()
        short = self.tracer.start_span(
            semconv.OVERFLOW_SPAN_NAME,
            context=trace.set_span_in_context(NonRecordingSpan(context)),
            links=[Link(context)] if ended else None,
        )
        if not short.is_recording():
            return False
        room = room_on(short)
        if room is not None:
            short.add_event(semconv.EVENT_NAME, self._attributes(event, origin, late=late, room=room.text))
        short.end()
        return room is not None

    def _attributes(
        self, event: FailureEvent, origin: str, *, late: bool, room: int | None = None
    ) -> dict[str, str | int | bool]:
        """Return what is written of `event`, with texts of at most `room` characters; None for any length."""
        root = event.cause_id is None if origin == semconv.ORIGIN_LOCAL else None
        if self._policy is not None:
            event = shortened(event, self._policy)
        if room is not None:
            event = shortened(event, lambda text: cut(text, room))
        return to_attributes(event, origin=origin, root=root, late=late)

    def _line(
        self, event: FailureEvent, origin: str, span: Span | None, request_span: Span | None, *, late: bool
    ) -> None:
        if not self._lines.isEnabledFor(logging.WARNING):
            return
        context = (span or request_span or trace.get_current_span()).get_span_context()
        line: dict[str, str | int | bool] = {"event": semconv.EVENT_NAME, "time_unix_nano": time.time_ns()}
        if context.is_valid:
            line["trace_id"] = f"{context.trace_id:032x}"
            line["span_id"] = f"{context.span_id:016x}"
        rollout = _rollout_of(span) or _rollout_of(request_span)
        if rollout is not None:
            line[semconv.NEMO_GYM_ROLLOUT_ID] = rollout
        line.update(self._attributes(event, origin, late=late))
        self._lines.warning("%s", json.dumps(line, separators=(",", ":")))

    def _labels_of(self, event: FailureEvent) -> dict[str, str | bool]:
        # `_value_` is the documented field behind `value`, whose descriptor costs as much as all the rest here.
        stage = None if event.stage is None else event.stage._value_
        key = (event.failure_kind, event.boundary._value_, stage, event.cause_id is None)
        labels = self._labels.get(key)
        if labels is None:
            kind = self._label(event.failure_kind)
            labels = {
                semconv.FAILURE_KIND: kind,
                semconv.FAILURE_BOUNDARY: event.boundary._value_,
                semconv.FAILURE_ROOT: event.cause_id is None,
            }
            if stage is not None:
                labels[semconv.FAILURE_STAGE] = stage
            if kind != semconv.KIND_OTHER:  # other kinds are without number
                self._labels[key] = labels
        return labels

    def _label(self, kind: str) -> str:
        """Return the kind as a metric label: a closed set and a capped one (opentelemetry-python#2700)."""
        if kind in kinds.FAILURE_KINDS or kind in self._namespaced:
            return kind
        if len(self._namespaced) < limits.NAMESPACED_KINDS_COUNTED and kinds.is_namespaced(kind):
            self._namespaced.add(kind)
            return kind
        return semconv.KIND_OTHER


def say_omitted(span: Span) -> None:
    """Say on a span, where it records, that failures are missing from it."""
    if span.is_recording():
        span.set_attribute(semconv.FAILURE_OMITTED, True)  # noqa: FBT003 - OpenTelemetry's signature


def _is_ours(span: Span) -> bool:
    """Tell whether this package opened a span; only the SDK's own can be asked."""
    try:
        return bool(span.instrumentation_scope.name == semconv.SCOPE)  # type: ignore[attr-defined]  # so it is asked
    except AttributeError:
        return False


def _rollout_of(span: Span | None) -> str | None:
    """Return the rollout that a span names; only the SDK's own can be asked."""
    rollout = (getattr(span, "attributes", None) or {}).get(semconv.NEMO_GYM_ROLLOUT_ID)
    return rollout if isinstance(rollout, str) else None


_default: FailureRecorder | None = None


def default_recorder() -> FailureRecorder:
    """Return the recorder of this process, made from the environment at the first call.

    A wrong value in the environment is warned about here and not raised, because the caller is in the middle of a
    request; whoever enables tracing makes a recorder at start, and gets the error there.
    """
    global _default  # noqa: PLW0603 - one recorder a process
    if _default is None:
        try:
            _default = FailureRecorder()
        except ConfigError as error:
            warn_once("config", "%s; the defaults are used instead", error)
            _default = FailureRecorder(Config())
    return _default


def set_default_recorder(recorder: FailureRecorder | None) -> FailureRecorder | None:
    """Make `recorder` the one that is used where none is named, and return the one before.

    What this package counts of itself, such as what it had to drop, goes to its MeterProvider too. None lets the next
    use read the environment again, and takes the global providers.
    """
    global _default
    before, _default = _default, recorder
    selfmetrics.say_by(selfmetrics.meter_of(None) if recorder is None else recorder.meter)
    return before


@contextmanager
def default_recorder_replaced(recorder: FailureRecorder) -> Iterator[None]:
    """Use `recorder` where none is named, within the block; for tests, process-wide."""
    before = set_default_recorder(recorder)
    try:
        yield
    finally:
        set_default_recorder(before)
