"""Which rollout each span belongs to."""

from typing import Final

from gym_failures import semconv
from gym_failures.fields import as_text
from gym_failures.reading.forest import Forest
from gym_failures.reading.model import Span, SpanRecord, whole

_MANY: Final = ""
"""Stands for more than one rollout; no rollout has this id."""


def named_rollout(span: Span) -> str | None:
    """Return the rollout that a span names itself; None where it names none."""
    if not isinstance(span, SpanRecord) and not span.may_have(semconv.NEMO_GYM_ROLLOUT_ID):
        return None
    return as_text(whole(span).attributes.get(semconv.NEMO_GYM_ROLLOUT_ID)) or None


def is_a_rollout(span: SpanRecord) -> bool:
    """Tell whether a span is the collection client's of a whole rollout, and not a server's of its part in one."""
    return span.name == semconv.ROLLOUT_SPAN_NAME and semconv.NEMO_GYM_SERVER_NAME not in span.attributes


def rollouts_of(forest: Forest) -> list[str | None]:
    """Return the rollout of each span of `forest`, by position; None where it is not known.

    It is the one named on the span or nearest above. A server may learn the id only from the body that it passes on, so
    a span without a name above takes the name beneath it, if there is only one.
    """
    rollouts = [named_rollout(span) for span in forest.spans]
    beneath = list(rollouts)
    for position in reversed(range(len(rollouts))):
        parent, name = forest.parents[position], beneath[position]
        if parent >= 0 and name is not None and beneath[parent] != name:
            beneath[parent] = name if beneath[parent] is None else _MANY
    for position, parent in enumerate(forest.parents):
        if rollouts[position] is None:
            above = rollouts[parent] if parent >= 0 else None
            rollouts[position] = above or beneath[position] or None
    return rollouts
