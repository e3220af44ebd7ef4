"""The classes of exceptions that this package defines.

::

    Exception
    ├── FailureError              a failure that a program raises; the only one that a running request can meet
    └── GymFailuresError          the package was used wrongly
        ├── MissingExtraError           what an extra brings is not installed (a ModuleNotFoundError too)
        ├── config.ConfigError          a setting that cannot be used (a ValueError too)
        └── attributes.AttributesError  attributes that hold no failure (a ValueError too)
"""

from typing import Any, Self

from pydantic import ValidationError

from gym_failures import limits
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.marks import last_mark_of
from gym_failures.misuse import GymFailuresError, MissingExtraError
from gym_failures.records import FailureDetails, FailureEvent, SdkErrorDetails
from gym_failures.text import clean, cut

__all__ = ["FailureError", "GymFailuresError", "MissingExtraError"]

_FIELDS = (
    "failure_kind",
    "boundary",
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
_PARAMETERS = {"failure_kind": "kind", "failure_reason": "reason"}


class FailureError(Exception):
    """Raise a failure in the vocabulary of `kinds`, observed at `boundary`.

    `raise FailureError(...) from error` keeps what it was caused by: another failure becomes its cause, any other
    exception its `foreign_error`. `kind` may be outside of the vocabulary, with one warning. `reason` is text for
    people, cut to 2,000 characters; `str()` of the error shows it. The other arguments are the fields of
    `records.FailureEvent`; None is unknown. Raises ValueError that names the argument for a boundary, stage or value
    that no record can hold.

    An error is no record yet: it gets its `event_id` when it is first recorded or reported, so that one made at module
    level can be raised again and again. It goes through pickle and copy with all of its fields and its mark; its
    `__cause__` stays behind, as that of every exception does, but the failures it was caused by are in the mark.
    """

    failure_kind: str
    boundary: FailureBoundary
    failure_reason: str
    stage: FailureStage | None
    operation: str | None
    operation_id: str | None
    attempt_id: str | None
    exception_type: str | None
    http_status: int | None
    foreign_error: SdkErrorDetails | None
    details: FailureDetails | None

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        kind: str,
        *,
        boundary: FailureBoundary | str,
        reason: str = "",
        stage: FailureStage | str | None = None,
        operation: str | None = None,
        operation_id: str | None = None,
        attempt_id: str | None = None,
        exception_type: str | None = None,
        http_status: int | None = None,
        foreign_error: SdkErrorDetails | None = None,
        details: FailureDetails | None = None,
    ) -> None:
        """Check the fields."""
        super().__init__(kind)
        given: dict[str, Any] = {
            "failure_kind": kind,
            "boundary": boundary,
            "failure_reason": reason,
            "stage": stage,
            "operation": operation,
            "operation_id": operation_id,
            "attempt_id": attempt_id,
            "exception_type": exception_type,
            "http_status": http_status,
            "foreign_error": foreign_error,
            "details": details,
        }
        # What a text holds depends on what went wrong, so neither broken Unicode nor a long reason may hide what did.
        given = {name: clean(value) if isinstance(value, str) else value for name, value in given.items()}
        if isinstance(reason, str):
            given["failure_reason"] = cut(given["failure_reason"], limits.REASON_LENGTH)
        try:
            self._take(FailureEvent(event_id="", **given))
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False, include_input=False)
            raise ValueError("; ".join(f"{_path(fault['loc'])}: {fault['msg']}" for fault in faults)) from None

    @classmethod
    def of(cls, event: FailureEvent) -> Self:
        """Return the error with the fields of `event`; it is not marked with the event."""
        error = cls.__new__(cls, event.failure_kind)
        error._take(event)  # noqa: SLF001 - of this class
        return error

    def _take(self, event: FailureEvent) -> None:
        for name in _FIELDS:
            setattr(self, name, getattr(event, name))

    @property
    def kind(self) -> str:
        """The kind of the failure."""
        return self.failure_kind

    @property
    def reason(self) -> str:
        """Text for people."""
        return self.failure_reason

    @property
    def event_id(self) -> str | None:
        """The id of the record that was made of this error, the last one; None before the first."""
        mark = last_mark_of(self)
        return None if mark is None else mark.events[0].event_id

    def __str__(self) -> str:
        """Say kind, boundary and reason in one line."""
        where = f"{self.failure_kind} at {self.boundary.value}"
        return f"{where}: {self.failure_reason}" if self.failure_reason else where

    def __repr__(self) -> str:
        """Say kind, boundary and reason as code."""
        reason = f", reason={self.failure_reason!r}" if self.failure_reason else ""
        return f"{type(self).__name__}({self.failure_kind!r}, boundary={self.boundary.value!r}{reason})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle without calling `__init__`, whose arguments a subclass may have changed."""
        return _restore, (type(self), self.args), self.__dict__.copy()


def _restore(kind: type[FailureError], args: tuple[object, ...]) -> FailureError:
    return kind.__new__(kind, *args)


def _path(location: tuple[int | str, ...]) -> str:
    first, *rest = location
    return ".".join(str(part) for part in (_PARAMETERS.get(str(first), first), *rest))
