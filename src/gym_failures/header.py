"""A failure report as one header value, and back.

Encoding stays within a budget and says when it had to leave something out. Decoding takes anything from anywhere, in
bounded time: what is no report is refused and counted. The reference ``wire-format.md`` describes the format.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final, NamedTuple, cast

from gym_failures import limits, selfmetrics
from gym_failures.fields import unchecked
from gym_failures.guard import Guard
from gym_failures.packing import Refusal, RefusedError, Tree, pack, parse, unpack
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.repair import chain_ids, repair
from gym_failures.shedding import Draft, shed, text_size
from gym_failures.text import wire_id
from gym_failures.wire import Carried, event_tree, read_exact, read_tree, to_tree

__all__ = ["EncodedReport", "decode_report", "decode_reports", "encode", "encode_report"]

# What is left when not even the bare own failure fits; any budget has room for it.
_NOTHING: Final = cast("str", pack({"omitted": True, "events": {}}, limits.HEADER_BUDGET_MIN))

_guard: Final = Guard("decode_header")


class EncodedReport(NamedTuple):
    """A header value, and whether anything had to be left out of it."""

    value: str
    was_cut: bool


def encode_report(report: FailureReport, *, budget: int = limits.HEADER_BUDGET) -> str:
    """Return the header value for `report`: visible ASCII without a comma, at most `budget` bytes.

    What is left out when it does not fit, and what is raised, is said at `encode`.
    """
    return encode(report, budget=budget).value


def encode(report: FailureReport, *, budget: int = limits.HEADER_BUDGET) -> EncodedReport:
    """Return the header value for `report`, and whether it had to be cut to fit into `budget` bytes.

    What does not fit is left out in this order: texts of events off the own failure's chain, those events, texts of
    causes, the own texts; the middle of a chain that is too long even so, whereupon the start of the own texts has room
    again; all other facts, the root cause.

    Raises ValueError when `budget` is not in [HEADER_BUDGET_MIN, HEADER_HARD_LIMIT] of `limits`.
    """
    check_budget(budget)

    def within_budget(tree: Tree) -> str | None:
        # Looks at the texts first, so that no megabytes of JSON are made only to be thrown away.
        return None if text_size(tree["events"]) > limits.DECODE_INFLATED else pack(tree, budget)

    if len(report.events) <= limits.DECODE_EVENTS:
        value = within_budget(to_tree(report))
        if value is not None:
            return EncodedReport(value, was_cut=False)
    return EncodedReport(shed(_draft(report), within_budget) or _NOTHING, was_cut=True)


def check_budget(budget: int) -> None:
    """Raise ValueError when `budget` is not in [HEADER_BUDGET_MIN, HEADER_HARD_LIMIT] of `limits`."""
    if not limits.HEADER_BUDGET_MIN <= budget <= limits.HEADER_HARD_LIMIT:
        raise ValueError(f"budget is {budget}, not in [{limits.HEADER_BUDGET_MIN}, {limits.HEADER_HARD_LIMIT}]")


def _draft(report: FailureReport) -> Draft:
    """Return `report` for shedding, without what is beyond the number of events that is decoded."""
    links = chain_ids(report.events, report.failure_id)
    linked = frozenset(links)
    half = limits.DECODE_EVENTS // 2
    ends = links if len(links) <= limits.DECODE_EVENTS else links[:half] + links[-half:]
    others = tuple(islice((key for key in report.events if key not in linked), limits.DECODE_EVENTS - len(ends)))
    known = frozenset(ends + others)
    return Draft(
        events={wire_id(key): event_tree(event) for key, event in report.events.items() if key in known},
        chain=tuple(map(wire_id, ends)),
        others=tuple(map(wire_id, others)),
        omitted=report.omitted or len(known) < len(report.events),
    )


def decode_report(value: object) -> FailureReport | None:
    """Return the report that a header value carries, or None when it carries none; raises nothing.

    `value` is text or bytes, and may be several values that a proxy has joined with commas; None is no header. The
    report is always valid: a link that leads nowhere, or round in a circle, is cut, and `omitted` then set.
    """
    return decode_reports((value,))


def decode_reports(values: Iterable[object]) -> FailureReport | None:
    """Return one report of all header values of a message, or None when none of them can be read; raises nothing.

    Of an event that several values carry, the first copy is kept. The own failure is that of theirs which caused no
    other event; where that is not exactly one, it is the last value's that has any.
    """
    with _guard:
        values = (values,) if isinstance(values, str | bytes) else values  # one header, not its characters
        return _merged(list(_read_all(values)))
    return None


def _read_all(values: Iterable[object]) -> Iterator[Carried]:
    known = 0
    for count, piece in enumerate(chain.from_iterable(map(_pieces, values))):
        if count == limits.DECODE_VALUES or known >= limits.DECODE_EVENTS:
            selfmetrics.decode_error(Refusal.TOO_MANY_VALUES)
            return
        try:
            carried = _read_one(piece)
        except RefusedError as refused:
            selfmetrics.decode_error(refused.reason)
        else:
            known += len(carried.events)
            yield carried


def _pieces(value: object) -> list[object]:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        # Empty members of a list mean nothing (RFC 9110, section 5.6.1); an empty value is refused further on.
        pieces = (piece.strip(" \t") for piece in value.split(",", limits.DECODE_VALUES))
        return [piece for piece in pieces if piece] or [""]
    return [] if value is None else [value]


def _read_one(value: object) -> Carried:
    if not isinstance(value, str):
        raise RefusedError(Refusal.NOT_TEXT)
    body = unpack(value)
    exact = read_exact(body) if len(body) <= limits.DECODE_AT_ONCE else None
    return read_tree(parse(body)) if exact is None else exact


def _merged(found: list[Carried]) -> FailureReport | None:
    if not found:
        return None
    events: dict[str, FailureEvent] = {}
    for carried in found:
        events = carried.events | events if events else carried.events
    own = [carried.failure_id for carried in found if carried.failure_id is not None]
    if len(own) > 1:
        causes = {event.cause_id for event in events.values()}
        outermost = dict.fromkeys(failure_id for failure_id in own if failure_id not in causes)
        own = list(outermost) if len(outermost) == 1 else own
    failure_id = own[-1] if own else None
    omitted = any(carried.omitted for carried in found)
    if _linked(events) and (failure_id is None or failure_id in events):
        return unchecked(FailureReport, {"events": events, "failure_id": failure_id, "omitted": omitted})
    return repair(events, failure_id=failure_id, omitted=omitted).report


def _linked(events: dict[str, FailureEvent]) -> bool:
    """Tell whether every cause comes before its effect, as nearly always; then none is missing and none goes round."""
    seen = set()
    for event_id, event in events.items():
        if event.cause_id is not None and event.cause_id not in seen:
            return False
        seen.add(event_id)
    return True
