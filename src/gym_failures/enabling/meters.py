"""OpenTelemetry's SDK for metrics, set up where its variables name an exporter of metrics."""

import os
from collections.abc import Callable
from typing import Any

from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from gym_failures import limits
from gym_failures.enabling.exporters import chosen, delay, made
from gym_failures.enabling.flushing import Answers
from gym_failures.guard import warn_once


def set_up(resource: Resource, answers: Answers) -> Callable[[], object] | None:
    """Make the MeterProvider of this process and make it global; returns what sends the rest of its metrics.

    None where no exporter can be made, or the process has a MeterProvider of its own.
    """
    exporters = [answers.watch(one) for one in made("metrics", chosen("metrics", os.environ) or (), os.environ)]
    if not exporters or _has_meters():
        return None
    readers = [_reader(one) for one in exporters]
    try:
        meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
    except Exception:
        for reader in readers:
            reader.shutdown()  # else it says again and again that it has no provider
        raise
    metrics.set_meter_provider(meters)
    return meters.force_flush


def _reader(exporter: Any) -> MetricReader:  # noqa: ANN401 - what an entry point names
    if isinstance(exporter, MetricReader):
        return exporter
    interval = delay("OTEL_METRIC_EXPORT_INTERVAL", limits.METRICS_DELAY, os.environ)
    return PeriodicExportingMetricReader(exporter, export_interval_millis=interval)


def _has_meters() -> bool:
    """Tell whether somebody has set a MeterProvider; the one that stands for none has no public name."""
    if type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider":
        return False
    warn_once("meters", "this process has a MeterProvider of its own: OTEL_METRICS_EXPORTER is left to it")
    return True
