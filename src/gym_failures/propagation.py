"""Failure reports in the headers of messages, and in the OpenTelemetry context.

Two context keys keep two directions apart: `extract` writes what came in, `inject` reads only what the program has set
to go out. So what came in is never forwarded by itself.
"""

from collections.abc import Iterable, Iterator, MutableSequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry.context import Context, attach, create_key, detach, get_current, get_value, set_value
from opentelemetry.propagators.textmap import (
    CarrierT,
    Getter,
    Setter,
    TextMapPropagator,
    default_getter,
    default_setter,
)

from gym_failures import limits, selfmetrics
from gym_failures.config import Config, ConfigError
from gym_failures.guard import Guard, warn_once
from gym_failures.header import check_budget, decode_reports, encode
from gym_failures.records import FailureReport
from gym_failures.semconv import HEADER_NAME

__all__ = [
    "FailureReportPropagator",
    "HeaderGetter",
    "RawHeaderSetter",
    "get_outgoing",
    "get_report",
    "header_values",
    "set_report",
]

_RECEIVED: Final = create_key("gym-failures-received")
_OUTGOING: Final = create_key("gym-failures-outgoing")

_extracting: Final = Guard("extract")
_injecting: Final = Guard("inject")

# How multi-dicts give all values of a name: aiohttp's (with what to give for none), httpx's, Starlette's and urllib3's,
# the standard library's messages.
_MULTI_DICT_METHODS: Final = (("getall", ()), ("get_list",), ("getlist",), ("get_all",))


def get_report(context: Context | None = None) -> FailureReport | None:
    """Return the report that `extract` found in what came in, or None; a context of None is the current one."""
    return _report(_RECEIVED, context)


def get_outgoing(context: Context | None = None) -> FailureReport | None:
    """Return the report that `inject` will write, or None; a context of None is the current one."""
    return _report(_OUTGOING, context)


def _report(key: str, context: Context | None) -> FailureReport | None:
    report = get_value(key, context)
    return report if isinstance(report, FailureReport) else None


@contextmanager
def set_report(report: FailureReport) -> Iterator[None]:
    """Send `report` with what is injected within the block, such as one call to another server."""
    token = attach(set_value(_OUTGOING, report))
    try:
        yield
    finally:
        detach(token)


class FailureReportPropagator(TextMapPropagator):
    """Carry failure reports in the header `gym-failure-report`, beside trace context and baggage.

    `OTEL_PROPAGATORS=tracecontext,baggage,gym_failures` puts it in force. `budget` is the longest value that is
    written, in bytes; raises ValueError when it is not in [HEADER_BUDGET_MIN, HEADER_HARD_LIMIT] of `limits`. When it
    is not `enabled` (None reads ``GYM_FAILURES_ENABLED``) it does nothing. Reports go out as they were set: what must
    not leave the process is for whoever sets them to leave out.
    """

    def __init__(self, *, budget: int = limits.HEADER_BUDGET, enabled: bool | None = None) -> None:
        check_budget(budget)
        self._budget: Final = budget
        self._enabled: Final = _is_enabled() if enabled is None else enabled

    @property
    def fields(self) -> set[str]:
        """Name the one header that is written."""
        return {HEADER_NAME}

    def extract(
        self, carrier: CarrierT, context: Context | None = None, getter: Getter[CarrierT] = default_getter
    ) -> Context:
        """Return a context in which `get_report` finds the report of `carrier`.

        Without a header, or with one that cannot be read, that is the caller's own `context` (None is the current
        one, as for baggage); raises nothing. The default getter reads every kind of headers that `header_values` does.
        """
        if context is None:
            context = get_current()
        if not self._enabled:
            return context
        with _extracting:
            values = header_values(carrier) if getter is default_getter else getter.get(carrier, HEADER_NAME)
            report = decode_reports(values) if values else None
            if report is not None:
                return set_value(_RECEIVED, report, context)
        return context

    def inject(
        self, carrier: CarrierT, context: Context | None = None, setter: Setter[CarrierT] = default_setter
    ) -> None:
        """Write the report that was set to go out in `context` (None is the current one), if any; raises nothing."""
        with _injecting:
            report = get_outgoing(context) if self._enabled else None
            if report is not None:
                value, was_cut = encode(report, budget=self._budget)
                setter.set(carrier, HEADER_NAME, value)
                selfmetrics.header_written(len(value), was_cut=was_cut)


def _is_enabled() -> bool:
    """Tell what the environment says; a wrong one is no reason to fail where OpenTelemetry loads its propagators."""
    try:
        return Config.from_env().enabled
    except ConfigError as error:
        warn_once("propagator:config", "%s; the defaults are used instead", error)
        return True


def header_values(carrier: object) -> list[object]:
    """Return all values of the report header in `carrier`, in their order; raises only what `carrier` raises.

    `carrier` is any usual kind of headers: a multi-dict of aiohttp, httpx, Starlette, urllib3 or the standard library;
    a mapping to text, bytes or lists of them; or ASGI's pairs of names and values. Names match in any case.
    """
    return _values_of(carrier, HEADER_NAME)


class HeaderGetter(Getter[object]):
    """Read any header as `header_values` reads the report's, for propagators that know only plain mappings."""

    def get(self, carrier: object, key: str) -> list[str] | None:
        """Return all values of the header called `key` as text, or None when there is none."""
        return [_text_of(value) for value in _values_of(carrier, key)] or None

    def keys(self, carrier: object) -> list[str]:
        """Return the names of all headers."""
        return [_text_of(name) for name, _ in _pairs(carrier)]


class RawHeaderSetter(Setter[MutableSequence[tuple[bytes, bytes]]]):
    """Write into ASGI's list of pairs, in place."""

    def set(self, carrier: MutableSequence[tuple[bytes, bytes]], key: str, value: str) -> None:
        """Set the header called `key` to exactly one value: those it had before are gone."""
        name = key.lower().encode("latin-1")
        carrier[:] = [pair for pair in carrier if pair[0].lower() != name]
        carrier.append((name, value.encode("latin-1")))


def _values_of(carrier: object, name: str) -> list[Any]:
    for method, *default in _MULTI_DICT_METHODS:
        get_all = getattr(carrier, method, None)
        if get_all is not None:
            return list(get_all(name, *default) or ())
    lower = name.lower()
    values: list[Any] = []
    for key, value in _pairs(carrier):
        if _text_of(key).lower() == lower:
            values += value if isinstance(value, list | tuple) else (value,)
    return values


def _pairs(carrier: Any) -> Iterable[tuple[Any, Any]]:  # noqa: ANN401 - headers come in any type
    items = getattr(carrier, "items", None)
    if items is not None:
        pairs: Iterable[tuple[Any, Any]] = items()
        return pairs
    return () if carrier is None or isinstance(carrier, str | bytes) else carrier


def _text_of(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
