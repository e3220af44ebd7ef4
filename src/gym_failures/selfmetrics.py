"""What this package says about itself: drops, refused headers, header sizes.

It is said at places that know of no recorder, so there is one meter a process: that of its own recorder, and until
there is one the global one. That is the API's proxy, so instruments exist before a provider does and cost nothing where
there is none.
"""

from enum import StrEnum

from opentelemetry import metrics

from gym_failures import provided, semconv
from gym_failures._version import __version__


class Loss(StrEnum):
    """Why something was lost; nothing else is said of what a bound, a peer or a wrong value cost."""

    CAUSES = "causes"
    HEADER_EVENT = "header_event"
    HEADER_FIELD = "header_field"
    INVALID_FIELD = "invalid_field"
    LOG_FULL = "log_full"
    SHORT_SPANS = "short_spans"
    UNTRUSTED_PEER = "untrusted_peer"


class _Instruments:
    """The instruments of one meter."""

    __slots__ = ("decode_errors", "dropped", "header_cut", "header_size")

    def __init__(self, meter: metrics.Meter) -> None:
        self.dropped = meter.create_counter(
            semconv.METRIC_DROPPED, unit="{item}", description="Items that could not be recorded or carried, by reason."
        )
        self.decode_errors = meter.create_counter(
            semconv.METRIC_DECODE_ERRORS, unit="{header}", description="Report headers that were refused, by reason."
        )
        self.header_size = meter.create_histogram(
            semconv.METRIC_HEADER_SIZE, unit="By", description="Size of the report headers that were written."
        )
        self.header_cut = meter.create_counter(
            semconv.METRIC_HEADER_CUT, unit="{header}", description="Report headers that had to leave something out."
        )


def meter_of(provider: metrics.MeterProvider | None) -> metrics.Meter:
    """Return this package's meter of `provider`; None takes the global one."""
    return metrics.get_meter(semconv.SCOPE, __version__, provided.meter_provider() if provider is None else provider)


_used: _Instruments | None = None


def _instruments() -> _Instruments:
    """Return what is counted with, made at its first use: whoever only imports this asks for no provider."""
    global _used  # noqa: PLW0603 - one meter a process
    if _used is None:
        _used = _Instruments(meter_of(None))
    return _used


def say_by(meter: metrics.Meter) -> None:
    """Count and measure with `meter` from now on."""
    global _used  # noqa: PLW0603 - one meter a process
    _used = _Instruments(meter)


def dropped(reason: Loss, count: int = 1) -> None:
    """Count `count` items lost for `reason`."""
    _instruments().dropped.add(count, {semconv.METRIC_REASON: reason})


def internal_error(cause: str) -> None:
    """Count one error of our own, and with it what was being done; `cause` is that of the guard which met it.

    A short constant of ours, and none of `Loss`: the one series tells both.
    """
    _instruments().dropped.add(1, {semconv.METRIC_REASON: cause})


def decode_error(reason: str) -> None:
    """Count one refused report header; `reason` is a short constant of ours."""
    _instruments().decode_errors.add(1, {semconv.METRIC_REASON: reason})


def header_written(size: int, *, was_cut: bool) -> None:
    """Record the size in bytes of one written header value, and whether something was left out."""
    _instruments().header_size.record(size)
    if was_cut:
        _instruments().header_cut.add(1)
