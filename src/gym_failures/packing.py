"""A JSON object as one header value, and back: ``<version>.<base64url of zlib of JSON>``, in visible ASCII.

Unpacking takes any text in bounded time and memory, and refuses by a closed list of reasons. What the object means is
not known here.
"""

import base64
import binascii
import json
import re
import zlib
from enum import StrEnum
from typing import Any, Final, NoReturn

from gym_failures import limits

VERSION: Final = 1
"""Version of the format that is written; those from 1 to this one are read."""

Tree = dict[str, Any]
"""A JSON object."""

_VALUE: Final = re.compile(r"([1-9][0-9]{0,8})\.([A-Za-z0-9_-]+)")
_PREFIX: Final = f"{VERSION}."


class Refusal(StrEnum):
    """Why a header value is refused; what counts them uses no other reasons."""

    NOT_TEXT = "not_text"
    TOO_MANY_VALUES = "too_many_values"
    TOO_LONG = "too_long"
    FORMAT = "format"
    VERSION = "version"
    COMPRESSION = "compression"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    TOO_MANY_MEMBERS = "too_many_members"
    JSON = "json"
    SHAPE = "shape"
    TOO_MANY_EVENTS = "too_many_events"


class RefusedError(Exception):
    """End the reading of one header value."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason)
        self.reason: Final = reason


def pack(tree: Tree, budget: int) -> str | None:
    """Return the value that carries `tree`, or None when that takes more than `budget` bytes or cannot be unpacked.

    A tree of the table in `fields` is never too deep, and never has too many members for its size.
    """
    body = _to_json(tree).encode()
    if len(body) > limits.DECODE_INFLATED:
        return None
    payload = base64.urlsafe_b64encode(zlib.compress(body)).rstrip(b"=").decode()
    return _PREFIX + payload if len(_PREFIX) + len(payload) <= budget else None


def unpack(value: str) -> bytes:
    """Return the JSON text that `value` carries; raises RefusedError when it carries none."""
    if len(value) > limits.DECODE_LENGTH:
        raise RefusedError(Refusal.TOO_LONG)
    match = _VALUE.fullmatch(value)
    if match is None:
        raise RefusedError(Refusal.FORMAT)
    if int(match[1]) > VERSION:
        raise RefusedError(Refusal.VERSION)
    return _inflate(match[2])


def parse(body: bytes) -> object:
    """Return what JSON text says; raises RefusedError when it is no JSON, or more than a report needs.

    Numbers stay text, as which they cost less and are understood as well.
    """
    fault = _fault_of_shape(body)
    if fault is not None:
        raise RefusedError(fault)
    try:
        return _from_json(body.decode())
    except (ValueError, RecursionError):
        raise RefusedError(Refusal.JSON) from None


def _inflate(payload: str) -> bytes:
    inflater = zlib.decompressobj()
    try:
        # The pattern has checked the alphabet, which this function would not.
        packed = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        body = inflater.decompress(packed, limits.DECODE_INFLATED + 1)
    except (binascii.Error, zlib.error):
        raise RefusedError(Refusal.COMPRESSION) from None
    if len(body) > limits.DECODE_INFLATED:
        raise RefusedError(Refusal.TOO_LARGE)
    if not inflater.eof or inflater.unused_data:
        raise RefusedError(Refusal.COMPRESSION)
    return body


_BRACES: Final = bytes.maketrans(b"[]", b"{}")
_NOT_STRUCTURE: Final = bytes(set(range(256)).difference(b'[]{}",'))


def _fault_of_shape(body: bytes) -> Refusal | None:
    """Find what the parser must not get: nesting too deep, for it recurses, or too many members, for each costs time.

    Works on what is outside of text, in a few passes that are not Python's. Of JSON that is not well formed it may say
    any of these, or nothing.
    """
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = body.translate(_BRACES, _NOT_STRUCTURE)
    # Two quotes side by side open and close, or close and open: without them the rest is inside or outside as before.
    structure = b"".join(structure.replace(b'""', b"").split(b'"')[::2])
    if structure.count(b",") > limits.DECODE_MEMBERS or structure.count(b"{") > limits.DECODE_OBJECTS:
        return Refusal.TOO_MANY_MEMBERS
    structure = structure.replace(b",", b"")
    for _ in range(limits.DECODE_DEPTH):  # each round takes away the innermost level, wherever it is
        structure = structure.replace(b"{}", b"")
    if not structure:
        return None
    return Refusal.TOO_DEEP if structure.count(b"{") == structure.count(b"}") else Refusal.JSON


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_to_json: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_from_json: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=str, parse_int=str).decode
