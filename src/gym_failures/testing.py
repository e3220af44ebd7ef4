"""A kit for tests of code that records failures: telemetry in memory, fixed ids, a clock that steps.

It needs the ``sdk`` extra. Our own tests use nothing else::

    with Telemetry() as telemetry:
        with telemetry.span("work"), observe("sandbox"):
            ...
    assert telemetry.only_event()["failure.kind"] == "provider_oom_killed"
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import Any, Final, Self
from unittest import mock

from opentelemetry.trace import Span, SpanKind

from gym_failures import guard, semconv
from gym_failures.config import Config
from gym_failures.ids import id_source
from gym_failures.misuse import MissingExtraError
from gym_failures.reading import By, RebuiltReport, from_readable_span, rebuild
from gym_failures.recorder import FailureRecorder, default_recorder_replaced

try:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.sdk.trace.sampling import Sampler
except ModuleNotFoundError as error:
    raise MissingExtraError("gym_failures.testing", error.name or "", "sdk") from error

CLOCK_START: Final = 1_700_000_000_000_000_000
"""First time that `stepping_clock` gives, in nanoseconds since the epoch."""
CLOCK_STEP: Final = 1_000_000
"""Time between two readings of `stepping_clock`, in nanoseconds."""


class Telemetry:
    """Spans and metrics in memory, and a recorder that writes to them, in force within a `with` block.

    Ids count up from 1, times step by one millisecond, and an internal error of gym-failures is raised instead of
    reported. The process's global providers are left alone. What was recorded in a block before is forgotten, so an
    exception that a module makes once is recorded in each.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        service: str = "test",
        sampler: Sampler | None = None,
        span_limits: SpanLimits | None = None,
    ) -> None:
        """Take a configuration (None: the defaults, not the environment) and what the SDK's provider takes."""
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        resource = Resource({"service.name": service})
        self.tracer_provider = TracerProvider(
            sampler=sampler,
            resource=resource,
            span_limits=span_limits,
            id_generator=_CountingSpanIds(),
            shutdown_on_exit=False,
        )
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meter_provider = MeterProvider([self._reader], resource=resource, shutdown_on_exit=False)
        self.recorder = FailureRecorder(
            config or Config(), tracer_provider=self.tracer_provider, meter_provider=self.meter_provider
        )
        self._in_force = ExitStack()

    def __enter__(self) -> Self:
        """Put the recorder, the ids and the clock in force."""
        self._in_force.enter_context(default_recorder_replaced(self.recorder))
        self._in_force.enter_context(counting_ids())
        self._in_force.enter_context(stepping_clock())
        self._in_force.enter_context(guard.reraised())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Put back what was in force before; what was captured stays readable."""
        self._in_force.close()

    def span(self, name: str, *, kind: SpanKind = SpanKind.INTERNAL) -> AbstractContextManager[Span]:
        """Open a span that records no exception by itself, and make it the current one."""
        tracer = self.tracer_provider.get_tracer("test")
        return tracer.start_as_current_span(name, kind=kind, record_exception=False, set_status_on_exception=False)

    def spans(self) -> tuple[ReadableSpan, ...]:
        """Return the spans that have ended, in the order of their ends."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        """Return the one ended span of that name; raises ValueError when there are none or several."""
        (span,) = (span for span in self.spans() if span.name == name)
        return span

    def events(self) -> list[Mapping[str, Any]]:
        """Return the attributes of every failure event, in the order of the spans' ends."""
        return [
            dict(event.attributes or {})
            for span in self.spans()
            for event in span.events
            if event.name == semconv.EVENT_NAME
        ]

    def only_event(self) -> Mapping[str, Any]:
        """Return the attributes of the one failure event; raises ValueError when there are none or several."""
        (event,) = self.events()
        return event

    def reports(self, *, by: By = "trace") -> list[RebuiltReport]:
        """Return the reports rebuilt from the spans, by "trace", "request" or "rollout"."""
        return rebuild(map(from_readable_span, self.spans()), by=by)

    def counts(self, metric: str = semconv.METRIC_FAILURES) -> dict[tuple[tuple[str, Any], ...], int]:
        """Return the values of one counter by its sorted attributes."""
        data = self._reader.get_metrics_data()
        return {
            tuple(sorted((point.attributes or {}).items())): int(getattr(point, "value", 0))
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for found in scope.metrics
            if found.name == metric
            for point in found.data.data_points
        }

    def count(self, metric: str = semconv.METRIC_FAILURES, **attributes: object) -> int:
        """Return the sum of one counter over the series that have these attributes; ``_`` in a name stands for a dot.

        ``count(failure_kind="cancelled")`` sums the series whose ``failure.kind`` is ``cancelled``.
        """
        wanted = {(name.replace("_", ".", 1), value) for name, value in attributes.items()}
        return sum(value for series, value in self.counts(metric).items() if wanted <= set(series))


class _CountingSpanIds(IdGenerator):
    """Trace and span ids that count up from 1."""

    def __init__(self) -> None:
        self._spans = itertools.count(1)
        self._traces = itertools.count(1)

    def generate_span_id(self) -> int:
        return next(self._spans)

    def generate_trace_id(self) -> int:
        return next(self._traces)


@contextmanager
def counting_ids() -> Iterator[Callable[[], str]]:
    """Make failure ids count up: 32 hex digits, ``0...1``, ``0...2``; gives the source within the block."""
    numbers = itertools.count(1)

    def source() -> str:
        return f"{next(numbers):032x}"

    with id_source(source):
        yield source


@contextmanager
def stepping_clock(start: int = CLOCK_START, step: int = CLOCK_STEP) -> Iterator[None]:
    """Let the SDK's clock for spans and events step by `step` nanoseconds at every reading, from `start`."""
    times = itertools.count(start, step)
    with mock.patch("opentelemetry.sdk.trace.time_ns", times.__next__):
        yield
