"""Rollouts as the servers of a Gym store them: the shape of what `gym-failures demo` writes.

A rollout that goes well has 18 spans. One that fails stops there, and all that is above fails with it: the caller's
span beside the server's at each hop, the agent's, the collection client's. So five or six of its spans are failed ones.
"""

import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from gym_failures import semconv
from gym_failures.attributes import to_attributes
from gym_failures.ids import new_id
from gym_failures.kinds import FailureBoundary
from gym_failures.records import FailureEvent

LONGEST_STEP: Final = 1_000_000_000
SPACING: Final = 300_000_000
"""Time between two rollouts, so that some 60 go on at once and their spans are mixed; nanoseconds, like the above."""


class Request(NamedTuple):
    """A request, and those that its server makes in turn."""

    service: str
    route: str
    makes: tuple["Request", ...] = ()


PROVIDER: Final = Request("provider", "/v1/chat/completions")
"""The one server that stores no spans."""
MODEL: Final = Request("model", "/v1/responses", (PROVIDER,))
ROLLOUT: Final = Request(
    "agent",
    "/run",
    (
        Request("resources", "/seed_session"),
        MODEL,
        MODEL,
        Request("sandbox", "/execute"),
        Request("resources", "/verify", (MODEL,)),
    ),
)
FAULTS: Final = {
    PROVIDER.route: ("provider_unavailable", FailureBoundary.MODEL, "access denied: the key is not valid any more"),
    "/execute": ("provider_oom_killed", FailureBoundary.SANDBOX, "the container needs more memory than its 512 MiB"),
    "/verify": ("verifier_error", FailureBoundary.RESOURCES_SERVER, "the answer ends in line 3 without a verdict"),
}
PORTS: Final = {"agent": 43519, "resources": 37877, "model": 41011, "sandbox": 44671, "provider": 34871}
SCOPES: Final = {
    SpanKind.CLIENT: InstrumentationScope("opentelemetry.instrumentation.aiohttp_client", "0.66b1"),
    SpanKind.SERVER: InstrumentationScope("opentelemetry.instrumentation.fastapi", "0.66b1"),
    SpanKind.INTERNAL: InstrumentationScope("collection"),
}

Attributes = dict[str, str | int]


class Open(NamedTuple):
    """A span that has not ended."""

    service: str
    kind: SpanKind
    name: str
    context: SpanContext
    above: SpanContext | None
    start: int


class Rollout:
    """One rollout, whose `spans` are in the order in which they ended; it fails at the first request to `fault`."""

    def __init__(self, chance: random.Random, start: int, fault: str | None) -> None:
        """Run it; a `fault` of None lets all go well."""
        self.spans: list[ReadableSpan] = []
        self._chance, self._now, self._fault = chance, start, fault
        self._trace_id = chance.getrandbits(128)
        self._named: Attributes = {semconv.NEMO_GYM_ROLLOUT_ID: f"r{start}"}
        span = self._open("collection", SpanKind.INTERNAL, "rollout", None)
        report = self._call(ROLLOUT, span)
        own = failure("agent_request_failed", FailureBoundary.COLLECTION, cause=report[-1]) if report else None
        self._end(span, self._named | summary(own), [] if own is None else [self._event(own)], failed=own is not None)

    def _call(self, request: Request, above: Open) -> list[FailureEvent]:
        """Make a request as the service of `above`; return what its reply reports, if anything."""
        span = self._open(above.service, SpanKind.CLIENT, "POST", above.context)
        if request is not PROVIDER:
            report = self._serve(request, span)
            status, origin = 500 if report else 200, semconv.ORIGIN_REMOTE
        else:
            report = [failure(*FAULTS[request.route], status=401)] if self._fault == request.route else []
            status, origin = 401 if report else 200, semconv.ORIGIN_LOCAL
        attributes: Attributes = {
            "http.request.method": "POST",
            "url.full": f"http://127.0.0.1:{PORTS[request.service]}{request.route}",
            "server.address": "127.0.0.1",
            "server.port": PORTS[request.service],
            "http.response.status_code": status,
        }
        if report:
            attributes["error.type"] = str(status)
        self._end(span, attributes, [self._event(event, origin) for event in report], failed=bool(report))
        return report

    def _serve(self, request: Request, above: Open) -> list[FailureEvent]:
        span = self._open(request.service, SpanKind.SERVER, f"POST {request.route}", above.context)
        report: list[FailureEvent] = []
        for made in request.makes:
            report = self._call(made, span)
            if report:
                break
        # The failure of the provider is the model server's own, which its call has recorded.
        observed = None
        if self._fault == request.route:
            observed = failure(*FAULTS[request.route])
        elif report and request is ROLLOUT:
            observed = failure("agent_run_error", FailureBoundary.AGENT, cause=report[-1])
        if observed is not None:
            report = [*report, observed]
        attributes: Attributes = {
            "url.scheme": "http",
            "server.address": f"127.0.0.1:{PORTS[request.service]}",
            "server.port": PORTS[request.service],
            "network.protocol.version": "1.1",
            "url.path": request.route,
            "http.request.method": "POST",
            "user_agent.original": "Python/3.13 aiohttp/3.14.5",
            "client.address": "127.0.0.1",
            "client.port": 35342,
            "http.route": request.route,
            "http.response.status_code": 500 if report else 200,
        }
        if report:
            attributes |= {"error.type": "500"} | summary(report[-1])
        self._end(span, attributes, [] if observed is None else [self._event(observed)], failed=bool(report))
        return report

    def _open(self, service: str, kind: SpanKind, name: str, above: SpanContext | None) -> Open:
        context = SpanContext(
            self._trace_id, self._chance.getrandbits(64), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
        )
        return Open(service, kind, name, context, above, self._tick())

    def _end(self, span: Open, attributes: Attributes, events: list[Event], *, failed: bool) -> None:
        self.spans.append(
            ReadableSpan(
                span.name,
                span.context,
                span.above,
                process(span.service),
                attributes,
                events,
                kind=span.kind,
                instrumentation_scope=SCOPES[span.kind],
                status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
                start_time=span.start,
                end_time=self._tick(),
            )
        )

    def _event(self, event: FailureEvent, origin: str = semconv.ORIGIN_LOCAL) -> Event:
        root = event.cause_id is None if origin == semconv.ORIGIN_LOCAL else None
        return Event(semconv.EVENT_NAME, to_attributes(event, origin=origin, root=root), self._now)

    def _tick(self) -> int:
        self._now += self._chance.randrange(LONGEST_STEP)
        return self._now


def failure(
    kind: str,
    boundary: FailureBoundary,
    reason: str = "",
    *,
    status: int | None = None,
    cause: FailureEvent | None = None,
) -> FailureEvent:
    """Return what a server of a Gym records."""
    return FailureEvent(
        event_id=new_id(),
        failure_kind=kind,
        boundary=boundary,
        failure_reason=reason,
        exception_type="gym_failures.exceptions.FailureError",
        operation=f"{boundary.value} POST",
        http_status=status,
        cause_id=None if cause is None else cause.event_id,
    )


def summary(own: FailureEvent | None) -> Attributes:
    """Return the attributes of a span whose own failure this is."""
    if own is None:
        return {}
    return {
        semconv.FAILURE_ID: own.event_id,
        semconv.FAILURE_KIND: own.failure_kind,
        semconv.FAILURE_BOUNDARY: own.boundary.value,
    }


@cache
def process(service: str) -> Resource:
    """Return what the SDK says of the one process of a service."""
    return Resource.create({"service.name": service})


def rollouts(at_least: int, failing: float) -> list[ReadableSpan]:
    """Return `at_least` so many spans of rollouts, the share `failing` of them failed, in the order in which they end.

    What fails is the provider, the sandbox and the verifier in turn.
    """
    chance = random.Random(0)  # noqa: S311 - the same spans each time
    spans: list[ReadableSpan] = []
    faults = list(FAULTS)
    start = failed = 0
    while len(spans) < at_least:
        fault = None
        if failed < failing * len(spans):
            fault = faults[0]
            faults.append(faults.pop(0))
        rollout = Rollout(chance, start, fault)
        spans += rollout.spans
        failed += sum(span.status.status_code is StatusCode.ERROR for span in rollout.spans)
        start += SPACING
    return sorted(spans, key=lambda span: span.end_time or 0)


def write(path: Path, spans: Iterable[ReadableSpan], batch: int) -> None:
    """Write `spans` to one file as OpenTelemetry's exporter does: one line for so many spans of one process."""
    exporter = FileSpanExporter(path)
    waiting: dict[Resource, list[ReadableSpan]] = {}
    for span in spans:
        batched = waiting.setdefault(span.resource, [])
        batched.append(span)
        if len(batched) == batch:
            exporter.export(batched)
            batched.clear()
    for batched in waiting.values():
        exporter.export(batched)
    exporter.shutdown()
