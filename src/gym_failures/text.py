"""Text that can leave the process: valid Unicode, bounded, and marked where it was cut."""

import hashlib
import re
from typing import Final

from gym_failures import limits
from gym_failures.looking import is_really, look

_MARK: Final = re.compile(r"…\[\+(\d{1,9})\]\Z")
_STAND_IN: Final = "<no text: {error} in {method}>"


def clean(text: str) -> str:
    """Return `text` with every lone surrogate replaced by U+FFFD; text without one is returned as it is.

    OpenTelemetry's exporters lose the attribute, or a whole batch, over a surrogate (mlflow#24123).
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, so that a pair of surrogates becomes the character it stands for.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def cut(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text`, ending in ``…[+N]`` when N characters were taken away.

    Text that was cut before keeps one mark with the sum. A limit too small for the mark leaves a bare prefix.
    """
    if len(text) <= limit:
        return text
    before = _MARK.search(text)
    body = text[: before.start()] if before else text
    missing = int(before[1]) if before else 0
    keep = limit
    while True:
        mark = f"…[+{missing + len(body) - keep}]"
        room = limit - len(mark)
        if room < 0:
            return text[: max(limit, 0)]
        if keep <= room:
            return body[:keep] + mark
        keep = room


def was_cut(text: str) -> bool:
    """Return whether `text` ends in the mark of `cut`."""
    return text.endswith("]") and _MARK.search(text) is not None


def is_cut_of(short: str, whole: str) -> bool:
    """Return whether `short` is what `cut` could have made of `whole` (or equals it)."""
    if short == whole:
        return True
    mark = _MARK.search(short)
    if mark is None:
        return len(short) < limits.CUT_MARK_LENGTH and whole.startswith(short)
    return whole.startswith(short[: mark.start()])


def wire_id(value: str) -> str:
    """Return `value` as an identifier or kind of 1 to 128 characters, the same for the same value everywhere.

    Legal values are returned as they are. A longer one keeps its start and gains a digest, so that two references to it
    still agree; an empty one becomes a stand-in.
    """
    text = value if value.isascii() else clean(value)
    if 0 < len(text) <= limits.WIRE_ID_LENGTH:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return f"{text[: limits.WIRE_ID_LENGTH - 33]}~{digest}"


def text_of(value: object) -> str:
    """Return ``str(value)``, or a stand-in that names what went wrong when that raises (ray#44878)."""
    try:
        text = str(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - as in `look`: a foreign __str__ may raise anything
        return _STAND_IN.format(error=type(error).__name__, method=f"{type(value).__name__}.__str__")
    return clean(text) if type(text) is str else clean(str.__str__(text))


def type_name(error: BaseException | type[BaseException]) -> str:
    """Return the qualified name of an exception's class, without ``builtins``, in 1 to 256 characters.

    Of a longer one the end is kept, which tells classes apart; a class without a name is ``?``.
    """
    kind = error if is_really(error, type) else type(error)
    name, module = kind.__qualname__, _module_of(kind)
    full = name if module in {"", "builtins"} else f"{module}.{name}"
    return clean(full)[-limits.TYPE_NAME_LENGTH :] or "?"


def _module_of(kind: type) -> str:
    """Return the name of a class's module; nothing when the class says something else than a name."""
    module: object = look(getattr, kind, "__module__")  # A metaclass may make a property of it.
    return str.__str__(module) if is_really(module, str) else ""
