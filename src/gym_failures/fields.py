"""The fields of a failure event as they leave the process and come back: one row each, for attributes and header alike.

A row names the field, the attribute that carries it, and how one value is written and read. Writing takes legal values
and makes them fit for any exporter. Reading is tolerant: a number may come as text and text as bytes, as trace stores
return them; what is too long is cut; what cannot be used is None and costs its own field only.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from operator import attrgetter
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel
from pydantic import Field as Bounds

from gym_failures import limits, semconv
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.records import (
    FailureEvent,
    FailureReport,
    ModelFailureDetails,
    SandboxFailureDetails,
    SdkErrorDetails,
)
from gym_failures.text import clean, cut, wire_id

Scalar = str | int | bool
Values = dict[str, Any]
Writer = Callable[[Any], Scalar | None]
Reader = Callable[[object], Any]
Row = tuple[str, str, Writer, str | None]
"""How one field is written: the field's name, the name to write, the writer, and the value that is absent."""

_WHOLE_NUMBER: Final = re.compile(rf"([+-]?[0-9]{{1,{limits.INTEGER_DIGITS}}})(?:\.0*)?")
_TOO_LARGE: Final = 10**limits.INTEGER_DIGITS
_OTLP_INTEGERS: Final = range(-(1 << limits.OTLP_INTEGER_BITS), 1 << limits.OTLP_INTEGER_BITS)
_FLAGS: Final[Mapping[str, bool]] = {"true": True, "false": False}

_Record = TypeVar("_Record", bound=BaseModel)


class Codec(NamedTuple):
    """How one value is written, and read again; each way None stands for what cannot be used."""

    write: Writer
    read: Reader
    exact: Any
    """The type of what reading leaves as it is: JSON of that type need not be read value by value."""


class Field(NamedTuple):
    """One field: its name in the record, the attribute that carries it, its codec, and the value that means absent."""

    name: str
    key: str
    codec: Codec
    absent: str | None = None


def as_text(value: object) -> str | None:
    """Return the text that `value` stands for, without lone surrogates; None when it stands for none."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    # A store that infers types turns an id of digits into a number.
    if isinstance(value, int) and not isinstance(value, bool) and -_TOO_LARGE < value < _TOO_LARGE:
        return str(value)
    return None


# Each reader first looks for what nearly always comes, because reading a header has a budget in time.


def _text(limit: int, *, least: int = 0) -> Codec:
    def read(value: object) -> str | None:
        if type(value) is str and value.isascii() and least <= len(value) <= limit:
            return value
        text = as_text(value)
        return None if text is None or len(text) < least else cut(text, limit)

    return Codec(clean, read, Annotated[str, Bounds(min_length=least, max_length=limit)])


def _id(*, least: int, writer: Writer) -> Codec:
    """Return the codec of an id: one that is too long is not cut, but stays different from any other."""

    def read(value: object) -> str | None:
        if type(value) is str and value.isascii() and least <= len(value) <= limits.WIRE_ID_LENGTH:
            return value
        text = as_text(value)
        if text is None or len(text) < least:
            return None
        return wire_id(text) if text else text

    return Codec(writer, read, Annotated[str, Bounds(min_length=least, max_length=limits.WIRE_ID_LENGTH)])


def _read_number(value: object) -> int | None:
    if type(value) is int:
        return value if -_TOO_LARGE < value < _TOO_LARGE else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    text = as_text(value)
    match = None if text is None else _WHOLE_NUMBER.fullmatch(text.strip())
    return None if match is None else int(match[1])


def _read_http_status(value: object) -> int | None:
    number = value if type(value) is int else _read_number(value)
    return number if number is not None and limits.HTTP_STATUS_MIN <= number <= limits.HTTP_STATUS_MAX else None


def _write_integer(value: int) -> Scalar | None:
    """Write as text what OTLP has no room for; not at all what Python may not convert to text."""
    if value in _OTLP_INTEGERS:
        return value
    return str(value) if -_TOO_LARGE < value < _TOO_LARGE else None


def _read_flag(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    text = as_text(value)
    return None if text is None else _FLAGS.get(text.strip().lower())


def _choice(members: type[Enum]) -> Codec:
    known = {str(member.value): member for member in members}

    def read(value: object) -> Enum | None:
        return known.get(value if type(value) is str else as_text(value) or "")

    # `_value_` is the documented field behind `value`, whose descriptor is many times slower.
    return Codec(attrgetter("_value_"), read, members)


FLAG: Final = Codec(bool, _read_flag, bool)
_ID: Final = _id(least=1, writer=wire_id)
_LABEL: Final = _id(least=0, writer=clean)
_NAME: Final = _text(limits.NAME_LENGTH)
_TYPE_NAME: Final = _text(limits.TYPE_NAME_LENGTH)
_REASON: Final = _text(limits.REASON_LENGTH)
_HTTP_STATUS: Final = Codec(
    int, _read_http_status, Annotated[int, Bounds(ge=limits.HTTP_STATUS_MIN, le=limits.HTTP_STATUS_MAX)]
)
_INTEGER: Final = Codec(_write_integer, _read_number, int)

CONTEXT: Final = (
    Field("failure_reason", semconv.FAILURE_REASON, _REASON, absent=""),
    Field("operation", semconv.FAILURE_OPERATION, _NAME),
    Field("operation_id", semconv.FAILURE_OPERATION_ID, _LABEL),
    Field("attempt_id", semconv.FAILURE_ATTEMPT_ID, _LABEL),
    Field("stage", semconv.FAILURE_STAGE, _choice(FailureStage)),
    Field("exception_type", semconv.EXCEPTION_TYPE, _TYPE_NAME),
    Field("http_status", semconv.HTTP_RESPONSE_STATUS_CODE, _HTTP_STATUS),
)
"""What an event may say of itself, in the order of its attributes."""

FOREIGN_ERROR: Final = (
    Field("exception_type", semconv.FOREIGN_ERROR_TYPE, _text(limits.TYPE_NAME_LENGTH, least=1)),
    Field("message", semconv.FOREIGN_ERROR_MESSAGE, _REASON),
    Field("http_status", semconv.FOREIGN_ERROR_HTTP_STATUS, _HTTP_STATUS),
)

DETAILS: Final[Mapping[FailureBoundary, tuple[Field, ...]]] = {
    FailureBoundary.SANDBOX: (
        Field("provider", semconv.SANDBOX_PROVIDER, _NAME),
        Field("sandbox_id", semconv.SANDBOX_ID, _NAME),
        Field("execution_id", semconv.SANDBOX_EXECUTION_ID, _NAME),
        Field("exit_code", semconv.SANDBOX_EXIT_CODE, _INTEGER),
        Field("provider_status_reason", semconv.SANDBOX_STATUS_REASON, _REASON),
    ),
    FailureBoundary.MODEL: (
        Field("provider_request_id", semconv.MODEL_PROVIDER_REQUEST_ID, _NAME),
        Field("request_upload_complete", semconv.MODEL_UPLOAD_COMPLETE, FLAG),
    ),
}
"""The details of an event, by the boundary that chooses their schema."""

CAUSE_ID: Final = Field("cause_id", semconv.FAILURE_CAUSE_ID, _ID)
BOUNDARY: Final = Field("boundary", semconv.FAILURE_BOUNDARY, _choice(FailureBoundary))
KIND: Final = Field("failure_kind", semconv.FAILURE_KIND, _ID)
EVENT_ID: Final = Field("event_id", semconv.FAILURE_ID, _ID)


def rows(fields: tuple[Field, ...], *, keyed: bool) -> tuple[Row, ...]:
    """Return the writing side of `fields`, to write each under its attribute key if `keyed`, else under its name."""
    return tuple((field.name, field.key if keyed else field.name, field.codec.write, field.absent) for field in fields)


def write(record: BaseModel, table: tuple[Row, ...], into: dict[str, Scalar]) -> None:
    """Put into `into` what is present in `record`, made fit to leave the process."""
    values = record.__dict__
    short = limits.WIRE_ID_LENGTH
    for name, key, writer, absent in table:
        value = values[name]
        if value is None:
            continue
        # What nearly always comes; every writer of text would leave it as it is.
        if type(value) is str and value.isascii() and 0 < len(value) <= short:
            into[key] = value
        elif value != absent and (scalar := writer(value)) is not None:
            into[key] = scalar


def assemble(event: Values, foreign_error: Values | None, details: Values | None) -> FailureEvent:
    """Return the event of values that readers have checked; it needs id, kind and boundary.

    A foreign error without a type is left out, and so are details where the boundary has none; None is none.
    """
    if foreign_error is not None and "exception_type" in foreign_error:
        foreign_error.setdefault("message", "")
        event["foreign_error"] = unchecked(SdkErrorDetails, foreign_error)
    if details is not None and (schema := _DETAILS_RECORD.get(event["boundary"])) is not None:
        event["details"] = unchecked(schema, details)
    return unchecked(FailureEvent, event)


def unchecked(record: type[_Record], values: Values) -> _Record:
    """Return a record of values that are known to be legal; what is absent gets its default.

    Validating them again would cost as much as all the rest of reading a header, and would log an unregistered kind,
    which is text from outside. `model_construct` costs eight times as much as this. What is set are the slots that
    pydantic documents for `BaseModel`, past the lock of frozen records.
    """
    made = record.__new__(record)
    _set_values(made, _DEFAULTS[record] | values)
    _set_names(made, set(values))
    _set_extra(made, None)
    _set_private(made, None)
    return made


_set_values: Final = vars(BaseModel)["__dict__"].__set__
_set_names: Final = vars(BaseModel)["__pydantic_fields_set__"].__set__
_set_extra: Final = vars(BaseModel)["__pydantic_extra__"].__set__
_set_private: Final = vars(BaseModel)["__pydantic_private__"].__set__
_DETAILS_RECORD: Final[Mapping[FailureBoundary, type[SandboxFailureDetails | ModelFailureDetails]]] = {
    FailureBoundary.SANDBOX: SandboxFailureDetails,
    FailureBoundary.MODEL: ModelFailureDetails,
}
_DEFAULTS: Final[Mapping[type[BaseModel], Values]] = {
    record: {name: field.default for name, field in record.model_fields.items() if not field.is_required()}
    for record in (FailureReport, FailureEvent, SdkErrorDetails, SandboxFailureDetails, ModelFailureDetails)
}
