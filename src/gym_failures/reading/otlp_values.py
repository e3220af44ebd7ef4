"""The small values of OTLP JSON, as its many writers spell them.

A 64-bit integer comes as a string or a number, an enum by name or number, an id in hex or base64, a key in camelCase or
snake_case (collector#8720, jaeger#5293). What cannot be read is counted by whoever asked, and nothing here raises.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from math import isfinite
from typing import Final, TypeVar

from gym_failures import limits
from gym_failures.reading.model import SpanKind, SpanStatus
from gym_failures.text import clean

_E = TypeVar("_E", bound=IntEnum)

_HEX: Final = b"0123456789ABCDEFabcdef"

TRACE_ID_SIZE: Final = 16
"""Bytes of a trace id."""

SPAN_ID_SIZE: Final = 8
"""Bytes of a span id."""

OVERLONG: Final = b"(too long)"
"""What is given instead of a line over `limits.STORED_RECORD`, or a document over `limits.STORED_DOCUMENT`."""

TOO_LONG: Final = "too long to be read"
"""What is said of it."""

_RENAMED: Final = {"instrumentationLibrarySpans": "scopeSpans", "batches": "resourceSpans"}
"""Former names in OTLP, and those of Tempo's API, of what is the same today."""


class _Unreadable(Exception):  # noqa: N818 - says why a value was left out, and leaves this module never
    pass


def plain_json(text: bytes) -> object:
    """Return the document in `text` with today's camelCase keys; slow and tolerant.

    Invalid UTF-8 becomes U+FFFD. A number that Python would refuse or make infinite, and a NaN literal, stay text, as
    OTLP allows of any number. Raises ValueError for what is no JSON, RecursionError for JSON that is nested too deeply.
    """
    return json.loads(
        text.decode("utf-8-sig", "replace"),
        object_pairs_hook=_with_todays_keys,
        parse_int=lambda digits: digits if (number := integer(digits)) is None else number,
        parse_float=lambda digits: number if isfinite(number := float(digits)) else digits,
        parse_constant=str,
    )


def _with_todays_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return {_todays_key(key): value for key, value in pairs}


def _todays_key(key: str) -> str:
    if "_" in key:
        first, *rest = key.split("_")
        key = first + "".join(word[:1].upper() + word[1:] for word in rest)
    return _RENAMED.get(key, key)


def json_bytes(document: object) -> bytes:
    """Return `document` as compact JSON in valid UTF-8: a lone surrogate becomes U+FFFD (mlflow#24123)."""
    return as_bytes(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def as_bytes(text: str | bytes) -> bytes:
    """Return text as valid UTF-8, and bytes as they are."""
    return clean(text).encode() if isinstance(text, str) else text


def integer(value: object) -> int | None:
    """Return a whole number that was written as a number or as text, or None."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):  # no number, NaN, infinite, or more digits than Python converts
        return None
    return number if not isinstance(value, float) or number == value else None


def count(value: object) -> int:
    """Return a count; what is none counts as 0."""
    return 0 if value is None else max(integer(value) or 0, 0)


def nanoseconds(value: object) -> int:
    """Return a time; 0, which is none, for what is no time from 1970 on to `limits.LATEST_TIME`."""
    time_ns = integer(value) or 0
    return time_ns if 0 < time_ns <= limits.LATEST_TIME else 0


def is_hex(text: str) -> bool:
    """Tell whether there is nothing but hex digits, of either case, in `text`."""
    return not text.encode("utf-8", "replace").translate(None, _HEX)


def hex_id(value: object, size: int) -> str | None:
    """Return an id of `size` bytes as lower-case hex; None for what is no such id, and for one of zeros.

    Base64 is what protobuf's own JSON makes of an id.
    """
    if not isinstance(value, str):
        return None
    if len(value) != 2 * size:
        try:
            value = base64.b64decode(value, validate=True).hex()
        except (ValueError, binascii.Error):
            return None
    if len(value) != 2 * size or not value.strip("0") or not is_hex(value):
        return None
    return value.lower()


def span_kind(value: object) -> SpanKind:
    """Return a span's kind from its number or name; what is neither is unspecified."""
    return _SPAN_KINDS.get(value, SpanKind.UNSPECIFIED) if _is_enum(value) else SpanKind.UNSPECIFIED


def span_status(value: object) -> SpanStatus:
    """Return a span's status from its code's number or name; what is neither is unset."""
    return _SPAN_STATUSES.get(value, SpanStatus.UNSET) if _is_enum(value) else SpanStatus.UNSET


def _is_enum(value: object) -> bool:
    """Return whether `value` can stand for an enum's member, and be looked up; True, which equals 1, cannot."""
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _spellings(members: Iterable[_E], prefix: str) -> dict[object, _E]:
    return {
        spelling: member
        for member in members
        for spelling in (int(member), str(int(member)), member.name, member.name.lower(), f"{prefix}{member.name}")
    }


_SPAN_KINDS: Final[Mapping[object, SpanKind]] = _spellings(SpanKind, "SPAN_KIND_")
_SPAN_STATUSES: Final[Mapping[object, SpanStatus]] = _spellings(SpanStatus, "STATUS_CODE_")


def attributes(pairs: object) -> tuple[dict[str, object], int]:
    """Return a list of OTLP key-value pairs as a dict, and how many of them could not be read.

    A pair whose value is not set is absent, and not counted (opentelemetry-python#3213).
    """
    return _attributes(pairs, limits.ATTRIBUTE_DEPTH)


def _attributes(pairs: object, depth: int) -> tuple[dict[str, object], int]:
    if not isinstance(pairs, list):
        return {}, 0 if pairs is None else 1
    found: dict[str, object] = {}
    unreadable = 0
    for pair in pairs:
        try:
            key, value = pair["key"], pair.get("value")
            if type(value) is dict and type(text := value.get("stringValue")) is str:  # nearly always
                value = text
            else:
                value = _any_value(value, depth)
        except (TypeError, KeyError, AttributeError, _Unreadable):
            unreadable += 1
            continue
        if not isinstance(key, str):
            unreadable += 1
        elif value is not None:
            found[key] = value
    return found, unreadable


def _any_value(value: object, depth: int) -> object:
    """Return what an AnyValue holds, None when nothing is set; a bare scalar stands for itself."""
    if isinstance(value, dict):
        for name, held in value.items():
            read = _READERS.get(name)
            if read is not None and held is not None:
                return read(held, depth)
        if any(held is not None for held in value.values()):
            raise _Unreadable  # a type of a newer OTLP
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise _Unreadable


def _string(value: object, _depth: int) -> str:
    if not isinstance(value, str):
        raise _Unreadable
    return value


def _bool(value: object, _depth: int) -> bool:
    if isinstance(value, bool):
        return value
    if value in {"true", "false"}:
        return value == "true"
    raise _Unreadable


def _int(value: object, _depth: int) -> int:
    number = integer(value)
    if number is None:
        raise _Unreadable
    return number


def _double(value: object, _depth: int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _Unreadable
    try:
        return float(value)  # reads protobuf's "NaN", "Infinity" and "-Infinity" too
    except (ValueError, OverflowError):
        raise _Unreadable from None


def _bytes(value: object, _depth: int) -> bytes:
    try:
        return base64.b64decode(_string(value, 0), validate=True)
    except ValueError:
        raise _Unreadable from None


def _array(value: object, depth: int) -> list[object]:
    return [_any_value(item, depth - 1) for item in _values(value, depth)]


def _kvlist(value: object, depth: int) -> dict[str, object]:
    found, unreadable = _attributes(_values(value, depth), depth - 1)
    if unreadable:
        raise _Unreadable
    return found


def _values(value: object, depth: int) -> list[object]:
    values = value.get("values", []) if isinstance(value, dict) else None
    if not isinstance(values, list) or depth <= 0:
        raise _Unreadable
    return values


_READERS: Final[Mapping[str, Callable[[object, int], object]]] = {
    name: read
    for camel, snake, read in (
        ("stringValue", "string_value", _string),
        ("intValue", "int_value", _int),
        ("boolValue", "bool_value", _bool),
        ("doubleValue", "double_value", _double),
        ("arrayValue", "array_value", _array),
        ("kvlistValue", "kvlist_value", _kvlist),
        ("bytesValue", "bytes_value", _bytes),
    )
    for name in (camel, snake)
}
