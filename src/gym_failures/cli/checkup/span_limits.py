"""What the limits of OpenTelemetry's SDK would cut or drop of failures."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from gym_failures import limits
from gym_failures.attributes import KEYS
from gym_failures.cli.checkup.finding import Finding, problem, warning


class _Needed(NamedTuple):
    """What failures need of one limit."""

    least: int
    """With less than that failures are lost, or cannot be told apart."""
    without: str
    """What then is so."""
    all: int
    """With as much as that nothing is missing."""
    else_missing: str
    """What is missing otherwise."""


_OF_EVENTS: Final = _Needed(
    limits.LAST_OF_AN_EVENT,
    "the ids of failures or of their causes are dropped",
    len(KEYS),
    f"a failure has up to {len(KEYS)} attributes, and the first are dropped",
)
_OF_SPANS: Final = _Needed(
    limits.LAST_OF_A_SPAN,
    "the failure that a request ended with is dropped from its span",
    limits.ATTRIBUTES_OF_A_SPAN,
    f"a request's span can have {limits.ATTRIBUTES_OF_A_SPAN} attributes, and the first, as its rollout's, are dropped",
)
_FOR_ALL: Final = "OTEL_ATTRIBUTE_COUNT_LIMIT"
_OWN_OF_EVENTS: Final = "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT"
_OWN_OF_SPANS: Final = "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
_LIMITS: Final = {
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": _Needed(
        limits.OWN_ID_LENGTH,
        "ids are cut, and failures cannot be linked",
        limits.REASON_LENGTH,
        "longer reasons are cut",
    ),
    # Of events the SDK cuts by the one above alone, and spans have no reasons.
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": _Needed(
        limits.OWN_ID_LENGTH,
        "ids on spans are cut, so the failure that a request ended with is not known",
        limits.WIRE_ID_LENGTH,
        "longer kinds, and ids of rollouts, are cut on spans",
    ),
    _OWN_OF_EVENTS: _OF_EVENTS,
    _OWN_OF_SPANS: _OF_SPANS,
}
_OF_BOTH: Final = _Needed(
    _OF_SPANS.least, _OF_SPANS.without, max(_OF_EVENTS.all, _OF_SPANS.all), _OF_SPANS.else_missing
)
_EVENTS: Final = "OTEL_SPAN_EVENT_COUNT_LIMIT"


def span_limits(said: Mapping[str, str]) -> Iterator[Finding]:
    """Yield which limits are too low, and what comes of it."""
    for name, needed in _needed(said):
        limit = _number(said.get(name))
        if limit is None or limit >= needed.all:
            continue
        fix = f"set it to {needed.all} or more"
        if limit < needed.least:
            yield problem(name, f"is {said[name]}: {needed.without}", fix)
        else:
            yield warning(name, f"is {limit}: {needed.else_missing}", fix)
    events = _number(said.get(_EVENTS))
    if events is not None and events < 1:
        yield problem(_EVENTS, f"is {said[_EVENTS]}: spans have no events, so no failures", f"unset {_EVENTS}")


def _needed(said: Mapping[str, str]) -> Iterator[tuple[str, _Needed]]:
    """Yield the limits that apply; the one for all counts of attributes only where there is none of its own."""
    yield from _LIMITS.items()
    if _OWN_OF_EVENTS not in said:
        yield _FOR_ALL, _OF_EVENTS if _OWN_OF_SPANS in said else _OF_BOTH
    elif _OWN_OF_SPANS not in said:
        yield _FOR_ALL, _OF_SPANS


def _number(value: str | None) -> int | None:
    """Return a limit; what is no number OpenTelemetry refuses, which ends the program, so it cuts as 0 does."""
    if value is None or value.strip().lower() == "unset":
        return None
    try:
        return max(int(value), 0)
    except ValueError:  # no number, or more digits than Python converts
        return 0
