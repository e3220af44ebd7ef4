"""What this package says about itself: drops, refused headers, header sizes.

Instruments come from the API's proxy meter, so they exist before a provider does and cost nothing where there is none.
"""

from opentelemetry import metrics

from gym_failures import semconv
from gym_failures._version import __version__

_meter = metrics.get_meter(semconv.SCOPE, __version__)

_dropped = _meter.create_counter(
    semconv.METRIC_DROPPED, unit="{item}", description="Items that could not be recorded or carried, by reason."
)
_decode_errors = _meter.create_counter(
    semconv.METRIC_DECODE_ERRORS, unit="{header}", description="Report headers that were refused, by reason."
)
_header_size = _meter.create_histogram(
    semconv.METRIC_HEADER_SIZE, unit="By", description="Size of the report headers that were written."
)
_header_cut = _meter.create_counter(
    semconv.METRIC_HEADER_CUT, unit="{header}", description="Report headers that had to leave something out."
)


def dropped(reason: str, count: int = 1) -> None:
    """Count `count` items lost for `reason`, a short constant of ours, never text from outside."""
    _dropped.add(count, {semconv.METRIC_REASON: reason})


def decode_error(reason: str) -> None:
    """Count one refused report header; `reason` is a short constant of ours."""
    _decode_errors.add(1, {semconv.METRIC_REASON: reason})


def header_written(size: int, *, was_cut: bool) -> None:
    """Record the size in bytes of one written header value, and whether something was left out."""
    _header_size.record(size)
    if was_cut:
        _header_cut.add(1)
