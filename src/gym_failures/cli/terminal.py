"""Where the command writes to, and what a terminal may be sent; `console` is for what has colours or a form."""

import re
import sys
from io import TextIOWrapper
from typing import Final

_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
"""What moves the cursor, colours, or turns the direction of text: control characters (Unicode, category Cc), line and
paragraph separators, and the marks of Unicode Standard Annex 9."""


class NobodyReadsError(Exception):
    """Whoever read the output stopped; no OSError, of which click would make an exit with the status of a failure."""


class UnwritableError(Exception):
    """The output does not take what is written, such as a full disk; no OSError, which may be one of reading."""


def write(text: str) -> None:
    """Write lines for another program to standard output, as they are and at once."""
    never_fail_for_a_character(sys.stdout)
    try:
        print(text, flush=True)  # noqa: T201 - a console would wrap and colour it
    except BrokenPipeError:
        raise NobodyReadsError from None


def tell(text: str) -> None:
    """Write lines for people to standard error, as they are and at once; nothing where that is closed."""
    if sys.stderr is None:
        return
    never_fail_for_a_character(sys.stderr)
    try:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - a console takes long to import
    except BrokenPipeError:
        raise NobodyReadsError from None


def write_bytes(data: bytes) -> None:
    """Write `data` to standard output as it is, whatever its encoding; nothing where that is closed."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise NobodyReadsError from None
    except OSError as error:
        raise UnwritableError(error.strerror) from None


def plain(text: str) -> str:
    """Return `text` from elsewhere so that a terminal only shows it: each character that does more is written out."""
    return _UNSAFE.sub(lambda found: " " if found[0] in "\r\n\t" else ascii(found[0])[1:-1], text)


def never_fail_for_a_character(stream: object) -> None:
    """Have what the encoding of `stream` lacks written out."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
