"""What a report leaves out when it does not fit: the least needed first, the own failure and the root cause last.

Events stand here as the JSON objects of the header, keyed by id.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from gym_failures import limits
from gym_failures.packing import Tree
from gym_failures.text import cut

Pack = Callable[[Tree], str | None]
"""Return the value that carries a report, or None when that is too large."""

_TEXTS: Final = frozenset({"failure_reason", "message", "provider_status_reason"})
_BARE: Final = frozenset({"failure_kind", "boundary", "cause_id"})


class Draft(NamedTuple):
    """A report that may have to be cut."""

    events: Mapping[str, Tree]
    chain: tuple[str, ...]
    """Ids from the own failure down to its root cause; empty without an own failure."""
    others: tuple[str, ...]
    """Ids of all other events in the order of the report, where causes tend to come first; so the last go first."""
    omitted: bool


class _Kept(NamedTuple):
    """How much stays of each thing that can be shed: characters of each text, or a number of events."""

    other_text: int
    others: int
    cause_text: int
    own_text: int
    links: int
    """Events of the chain, from both of its ends."""
    context: int
    """1 with, 0 without what is neither id nor kind, boundary or cause."""


class _Rung(NamedTuple):
    """One step of the ladder: take `thing` down to `least`, after giving the own texts `own_text` characters back."""

    thing: str
    least: int
    own_text: int | None = None


# What a rung took stays taken on the next. The least of a text leaves room for the mark that says how much was cut. A
# chain that does not fit even without the own texts is too long: then their start is worth more than its middle.
_LADDER: Final = (
    _Rung("other_text", limits.CUT_MARK_LENGTH),
    _Rung("others", 0),
    _Rung("cause_text", limits.CUT_MARK_LENGTH),
    _Rung("own_text", limits.CUT_MARK_LENGTH),
    _Rung("links", 2, own_text=limits.HEADER_OWN_REASON),
    _Rung("own_text", limits.CUT_MARK_LENGTH),
    _Rung("context", 0),
    _Rung("links", 1),
)


def shed(draft: Draft, pack: Pack) -> str | None:
    """Return the value that carries as much of `draft` as fits; None when not even the bare own failure does."""
    whole = limits.REASON_LENGTH
    kept = _Kept(whole, len(draft.others), whole, whole, len(draft.chain), 1)
    for thing, least, own_text in _LADDER:
        before = kept if own_text is None else kept._replace(own_text=own_text)
        if least < getattr(before, thing):
            kept = before._replace(**{thing: least})
            value = pack(_tree(draft, kept))
            if value is not None:
                return _fullest(value, thing, (kept, before), lambda kept: pack(_tree(draft, kept)))
    return None


def _fullest(value: str, name: str, between: tuple[_Kept, _Kept], attempt: Callable[[_Kept], str | None]) -> str:
    """Give back as much of the thing called `name` as fits, by bisection; `value` is of the lower bound, which fits."""
    kept, _ = between
    enough, too_much = (getattr(bound, name) for bound in between)
    while too_much - enough > 1:
        middle = (enough + too_much) // 2
        fuller = attempt(kept._replace(**{name: middle}))
        if fuller is None:
            too_much = middle
        else:
            enough, value = middle, fuller
    return value


def text_size(events: Mapping[str, Tree]) -> int:
    """Return the characters of all texts that can be shortened."""
    return sum(_text_size(event) for event in events.values())


def _text_size(part: Tree) -> int:
    return sum(
        _text_size(value) if isinstance(value, dict) else len(value)
        for name, value in part.items()
        if name in _TEXTS or isinstance(value, dict)
    )


def _tree(draft: Draft, kept: _Kept) -> Tree:
    from_root = kept.links // 2
    chain = draft.chain[: kept.links - from_root] + draft.chain[len(draft.chain) - from_root :]
    text_limits = dict.fromkeys(draft.others[: kept.others], kept.other_text) | dict.fromkeys(chain, kept.cause_text)
    tree: Tree = {}
    if chain:
        tree["failure_id"] = chain[0]
        text_limits[chain[0]] = kept.own_text
    if draft.omitted or not kept.context or len(text_limits) < len(draft.events):
        tree["omitted"] = True
    tree["events"] = events = {}
    for event_id, event in draft.events.items():
        if event_id in text_limits:
            projection = _shortened(event, text_limits[event_id])
            if projection.get("cause_id") not in text_limits:
                projection.pop("cause_id", None)
            if not kept.context:
                projection = {name: value for name, value in projection.items() if name in _BARE}
            events[event_id] = projection
    return tree


def _shortened(part: Tree, limit: int) -> Tree:
    return {
        name: _shortened(value, limit) if isinstance(value, dict) else cut(value, limit) if name in _TEXTS else value
        for name, value in part.items()
    }
