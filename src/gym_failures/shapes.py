"""Exceptions that have a failure's fields, ours and upstream's, read field by field.

Adapters fill such exceptions with whatever they have at hand. One odd value costs its own field, not the failure
(opentelemetry-python-contrib#3940).
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from pydantic import ValidationError

from gym_failures import limits, selfmetrics
from gym_failures.kinds import FailureBoundary
from gym_failures.looking import attribute, is_really, look
from gym_failures.records import FailureEvent
from gym_failures.text import clean, cut, text_of

SHAPE_FIELDS: Final = (
    "failure_reason",
    "stage",
    "operation",
    "operation_id",
    "attempt_id",
    "exception_type",
    "http_status",
    "foreign_error",
    "details",
)
"""What an exception may carry beside kind, boundary and its id."""

_TEXT_BOUNDS: Final[Mapping[str, int]] = {
    "failure_reason": limits.REASON_LENGTH,
    "operation": limits.NAME_LENGTH,
    "exception_type": limits.TYPE_NAME_LENGTH,
}

_REQUIRED: Final = frozenset({"event_id", "failure_kind", "boundary"})


def lenient_event(fields: Mapping[str, Any]) -> FailureEvent:
    """Build an event from `fields`, leaving out (and counting) each optional one that does not validate.

    Texts that are too long are cut, not left out. Raises ValidationError only when id, kind or boundary are unusable.
    """
    kept = dict(fields)
    for name, bound in _TEXT_BOUNDS.items():
        value = kept.get(name)
        if value is not None:
            kept[name] = cut(clean(str.__str__(value) if is_really(value, str) else text_of(value)), bound)
    while True:
        try:
            return FailureEvent(**kept)
        except ValidationError as error:
            bad = {str(item["loc"][0]) for item in error.errors(include_input=False, include_url=False) if item["loc"]}
            bad &= kept.keys() - _REQUIRED
            if not bad:
                raise
        except KeyboardInterrupt:
            raise
        except BaseException:
            # As in `look`: a value's own code, such as the repr that an enum's error shows, or the iterator of a model.
            bad = {name for name in kept.keys() - _REQUIRED if _raises(kept, name)}
            if not bad:
                raise
        selfmetrics.dropped(selfmetrics.Loss.INVALID_FIELD, len(bad))
        for name in bad:
            del kept[name]


def _raises(fields: Mapping[str, Any], name: str) -> bool:
    """Tell whether the value of a field raises something of its own where it is validated."""

    def validate() -> bool:
        with suppress(ValidationError):
            FailureEvent(**{key: fields[key] for key in (*_REQUIRED, name)})
        return True

    return look(validate) is None


def shape_of(error: BaseException) -> tuple[str, FailureBoundary] | None:
    """Return kind and boundary of an exception that has a failure's shape, or None.

    The boundary may be ours, another package's enum member of the same value, or the value itself.
    """
    kind = attribute(error, "failure_kind")
    if not is_really(kind, str) or not (kind := str.__str__(kind)):
        return None
    boundary = look(FailureBoundary, attribute(error, "boundary"))  # Its error shows the repr of the value.
    return None if boundary is None else (kind, boundary)
