"""Answers of Jaeger's API of version 3 to lines of OTLP JSON, which they are in a wrapping: one `result` or several."""

import json
import re
from collections.abc import Iterator
from typing import Final

_ANSWER: Final = re.compile(rb'\s*\{\s*"result"\s*:')
_SPACE: Final = re.compile(r"\s*")


def is_answer(start: bytes) -> bool:
    """Tell whether a text that starts like this is such an answer."""
    return _ANSWER.match(start) is not None


def lines(text: bytes) -> Iterator[bytes]:
    """Yield what each result holds as a line, and what is damaged as it is, for whoever reads lines to tell of."""
    told = text.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    at = 0
    while (at := _end_of_space(told, at)) < len(told):
        try:
            answer, at = decoder.raw_decode(told, at)
        except (ValueError, RecursionError):
            rest = told[at:].replace("\n", " ").encode()
            yield _ANSWER.sub(b"", rest, count=1).lstrip() + b"\n"
            return
        result = answer.get("result") if isinstance(answer, dict) else None
        yield json.dumps(result if isinstance(result, dict) else answer).encode() + b"\n"


def _end_of_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
