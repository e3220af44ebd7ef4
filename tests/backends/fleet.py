"""A fleet of three services in one process: real spans, counters and report headers, sent to a real Collector."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, format_trace_id

from gym_failures import kinds, semconv
from gym_failures.config import Config
from gym_failures.errors import FailureError, error_from
from gym_failures.header import decode_report, encode_report
from gym_failures.ids import new_id
from gym_failures.log import FailureLog
from gym_failures.recorder import FailureRecorder
from gym_failures.records import FailureEvent, FailureReport

HOPS = (("collection", "collection"), ("agent", "agent"), ("model", "model"))
"""Service and boundary, from the one that asks to the one that fails."""

KINDS_OF_A_ROLLOUT = ("agent_request_failed", "agent_run_error")
"""What the two upper hops make of a failure of the third."""

Reply = str | None


class Insisting(SpanExporter):
    """Export again what was not accepted, as an SDK does for some seconds and an agent for as long as it takes."""

    def __init__(self, exporter, seconds=60):
        """Give up after `seconds`, because a test must end."""
        self._exporter = exporter
        self._seconds = seconds

    def export(self, spans):
        """Return once the spans are accepted."""
        deadline = time.monotonic() + self._seconds
        while (result := self._exporter.export(spans)) is not SpanExportResult.SUCCESS and time.monotonic() < deadline:
            time.sleep(0.1)
        return result

    def shutdown(self):
        """Shut the exporter down."""
        self._exporter.shutdown()


class Service:
    """One service as its own process would be: a resource, providers and a recorder of its own."""

    def __init__(self, name, boundary, endpoint, *, sampler=None, insist=False, process=None):  # noqa: PLR0913 - a process
        """Export to the Collector at `endpoint`, fast; `insist` goes on until it accepts.

        `process` is what the resource says of the process; None: an id of its own, as newer SDKs give.
        """
        resource = Resource({"service.name": name, **(process or {"service.instance.id": str(uuid.uuid4())})})
        self.name = name
        self.boundary = boundary
        self.tracers = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"{endpoint}/v1/traces")
        self.tracers.add_span_processor(
            BatchSpanProcessor(
                Insisting(exporter) if insist else exporter, schedule_delay_millis=100, max_queue_size=100_000
            )
        )
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(f"{endpoint}/v1/metrics"), export_interval_millis=1_000
        )
        self.meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        config = Config(log_lines="never")
        self.recorder = FailureRecorder(config, tracer_provider=self.tracers, meter_provider=self.meters)
        self._tracer = self.tracers.get_tracer("fleet")

    def serve(self, path, work: Callable[[FailureLog], None], **attributes: str) -> Reply:
        """Answer one request with `work`; return the value of the reply's report header, or None without one."""
        with self._tracer.start_as_current_span(
            f"POST {path}",
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            log = FailureLog(self.boundary, operation=f"{self.name} POST {path}", recorder=self.recorder, span=span)
            with log.activate():
                try:
                    work(log)
                except FailureError as error:
                    log.settle(error)
            reply = encode_report(log.report()) if log.has_failures else None
            log.seal()
            log.close()
            return reply

    def call(self, log, ask: Callable[[], Reply]) -> None:
        """Ask another service and raise what its report says."""
        with self._tracer.start_as_current_span("POST", kind=SpanKind.CLIENT, record_exception=False) as span:
            reply = ask()
            report = None if reply is None else log.observe_reply(reply, span=span)
        error = None if report is None else error_from(report)
        if error is not None:
            raise error

    def flush(self):
        """Send what is not sent yet."""
        self.tracers.force_flush()
        self.meters.force_flush()

    def shutdown(self):
        """Send the rest and end the threads."""
        self.tracers.shutdown()
        self.meters.shutdown()


class Rollout:
    """What one rollout sent over the wire, and its trace."""

    def __init__(self, trace_id: str, report: FailureReport | None):
        """Keep both."""
        self.trace_id = trace_id
        self.report = report


class Fleet:
    """Three services that call each other; their names end in `suffix`, so that tests share backends undisturbed."""

    def __init__(self, endpoint, suffix, **how):
        """Send everything to the Collector at `endpoint`; `how` is what `Service` takes."""
        self.services = [
            Service(f"{name}-{suffix}" if suffix else name, boundary, endpoint, **how) for name, boundary in HOPS
        ]
        self.top, self.middle, self.bottom = self.services

    def rollout(self, fail: Callable[[FailureLog], None] | None = None, *, rollout_id: str = "none") -> Rollout:
        """Run one rollout over three hops; `fail` runs at the model and may raise or observe failures."""

        def model(log):
            if fail is not None:
                fail(log)

        def agent(log):
            self.middle.call(log, lambda: self.bottom.serve("/v1/responses", model))

        def collection(log):
            self.top.call(log, lambda: self.middle.serve("/run", agent))

        tracer = self.top.tracers.get_tracer("fleet")
        with tracer.start_as_current_span("rollout") as root:
            reply = self.top.serve("/rollout", collection, **{semconv.NEMO_GYM_ROLLOUT_ID: rollout_id})
        return Rollout(format_trace_id(root.get_span_context().trace_id), decode_report(reply))

    def flush(self):
        """Send what is not sent yet."""
        for service in self.services:
            service.flush()


@contextmanager
def running(endpoint, suffix, **how) -> Iterator[Fleet]:
    """Give a fleet and shut it down in the end."""
    with ExitStack() as ends:
        fleet = Fleet(endpoint, suffix, **how)
        for service in fleet.services:
            ends.callback(service.shutdown)
        yield fleet


def retried(log):
    """Observe a dropped connection and fail at the second try: two failures of one kind each, on one span."""
    log.observe_failure(FailureEvent(event_id=new_id(), boundary="model", failure_kind=kinds.TRANSPORT_PEER_DROP))
    raise FailureError(kinds.PROVIDER_UNAVAILABLE, boundary="model")


def failing(kind, **fields) -> Callable[[FailureLog], None]:
    """Return what makes the model fail with `kind`."""

    def fail(_log):
        raise FailureError(kind, boundary="model", **fields)

    return fail
