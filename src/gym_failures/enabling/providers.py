"""OpenTelemetry's SDK set up in a process where nobody has done so; its metrics, which few want, are in `meters`."""

import atexit
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

from gym_failures import limits, provided, semconv
from gym_failures._version import __version__
from gym_failures.enabling.exporters import chosen, delay, made, receivers
from gym_failures.enabling.flushing import Answers, Flush
from gym_failures.enabling.process import RUN_ID, Process
from gym_failures.enabling.reticence import Reticence
from gym_failures.enabling.span_file import SpanFile
from gym_failures.guard import Guard

_METERS: Final = Guard("meters")
_GROUP: Final = "nemo-gym"
"""The service of which each server is a part, unless OTEL_SERVICE_NAME says another; NeMo Gym's own default."""
_RUN_IDS: Final = ("NEMO_GYM_OTEL_RUN_ID", "NEMO_LENS_RUN_ID", "SLURM_JOB_ID", RUN_ID)
"""Where NeMo Gym and nemo-lens look for the id of a run, in their order, and the one that `gym-failures run` makes."""


def somebody_has() -> bool:
    """Tell whether this process has a TracerProvider already, or is to have none."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return True
    return not isinstance(provided.tracer_provider(), trace.ProxyTracerProvider)


class _Reticent(SpanProcessor):
    """Makes every span reticent as it begins: without this provider the program would have none to write text on."""

    def __init__(self, reticence: Reticence) -> None:
        self._reticence: Final = reticence

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's signature
        self._reticence.apply(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        return True  # Older SDKs' own says nothing, which ends the flush of the processors behind.


def set_up(process: Process, traces: str, reticence: Reticence) -> Flush:
    """Make the providers of this process and make them global; returns what sends the rest of their spans and metrics.

    Everything is as the variables of OpenTelemetry say. Where they say nothing of an exporter, spans are written to a
    file of this process in the folder `traces`, at once, so that a process that is killed has written what it knew.
    `reticence` decides what spans say of exceptions.
    """
    resource = resource_of(process, os.environ)
    answers = Answers()
    flush_meters = None
    with _METERS:  # Without counts there still are spans to send.
        flush_meters = _set_up_meters(resource, answers)
    parts: list[Callable[[], object]] = [] if flush_meters is None else [flush_meters]
    processors = [*_processors(process, traces, answers)]
    if processors:  # else nobody would see a span, and what is on it would be written nowhere
        # What ends the SDK's providers at exit waits for a receiver that is not there.
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for processor in (_Reticent(reticence), *processors):
            tracers.add_span_processor(processor)
        trace.set_tracer_provider(tracers)
        parts.append(tracers.force_flush)
    flush = Flush(parts, answers=answers, receivers=receivers(os.environ))
    atexit.register(flush.at_exit)
    return flush


def _set_up_meters(resource: Resource, answers: Answers) -> Callable[[], object] | None:
    if provided.has_no_meters():
        # What the SDK counts of its own spans it asks the API for, which would fail.
        metrics.set_meter_provider(provided.meter_provider())
        return None
    if not chosen("metrics", os.environ):
        return None
    from gym_failures.enabling import meters  # noqa: PLC0415 - takes as long to import as all else here

    return meters.set_up(resource, answers)


def _processors(process: Process, traces: str, answers: Answers) -> Iterator[SpanProcessor]:
    names = chosen("traces", os.environ)
    if names is None:
        yield SimpleSpanProcessor(SpanFile(traces, process.name or _GROUP))
        return
    wait = delay("OTEL_BSP_SCHEDULE_DELAY", limits.EXPORT_DELAY, os.environ)
    for exporter in made("traces", names, os.environ):
        yield BatchSpanProcessor(answers.watch(exporter), schedule_delay_millis=wait)


def resource_of(process: Process, environ: Mapping[str, str]) -> Resource:
    """Return what describes this process: NeMo Gym's own attributes, and what the environment says, which comes first.

    The service's name is made of what the environment says and the server's name.
    """
    given = Resource.create()
    group = str(given.attributes.get("service.name", ""))
    if not group or group.startswith("unknown_service"):
        group = _GROUP
    attributes = {
        "nemo.gym.service_group": group,
        semconv.NEMO_GYM_SERVER_NAME: process.name,
        "nemo.gym.server.type": process.type,
        semconv.NEMO_RUN_ID: next((environ[name] for name in _RUN_IDS if environ.get(name)), None),
        "telemetry.distro.name": "gym-failures",
        "telemetry.distro.version": __version__,
        # Counters of two processes under one identity would make one series of nonsense.
        "service.instance.id": str(uuid.uuid4()),
    }
    name = f"{group}/{process.name}" if process.name and _named_apart(environ) else group
    ours = Resource({key: value for key, value in attributes.items() if value is not None})
    return ours.merge(given).merge(Resource({"service.name": name}))


def _named_apart(environ: Mapping[str, str]) -> bool:
    """Tell whether each server is a service of its own, by NeMo Gym's switch."""
    switch = environ.get("NEMO_GYM_OTEL_SERVICE_NAME_PER_SERVER", "").strip().lower()
    return switch in {"", "1", "true", "yes", "on"}
