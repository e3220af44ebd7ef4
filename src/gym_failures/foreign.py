"""What is read off other libraries' errors where an attribute's name alone does not do.

Each function takes the error of the rule that names it, and may raise on a strange one: `classify` takes that for no.
"""

# ruff: noqa: ANN401 - the errors' libraries are not imported, so their types have no name here

import re
from collections.abc import Iterable
from typing import Any, Final

from gym_failures import limits

_KILLED: Final = frozenset({9, 15})
"""SIGKILL and SIGTERM, by their numbers, because not every platform has the names (POSIX, kill)."""

_NAME: Final = re.compile(r"\d+|[A-Za-z_][\w.,\[\]()-]*")
"""A field, a position, or a type as pydantic writes it; no text that a person wrote has this form for long."""

_SHELL_SIGNAL_BASE: Final = 128
"""A shell reports a command that a signal ended as this plus the signal's number (POSIX, 2.8.2)."""


def was_killed(error: Any) -> bool:
    """Tell whether a process ended by SIGKILL or SIGTERM, itself or below a shell."""
    return -error.returncode in _KILLED or error.returncode - _SHELL_SIGNAL_BASE in _KILLED


def why_cancelled(text: str) -> str:
    """Return what the program says of a cancellation; anyio's own words, an address and a task, tell nobody why."""
    if text.startswith(("Cancelled by cancel scope ", "Cancelled via cancel scope ")):
        return text.partition("; reason: ")[2]
    return text


def exit_status(error: Any) -> str:
    """Say how a process ended; its command line, which can hold secrets, is left out."""
    return f"exit status {int(error.returncode)}"


def time_given(error: Any) -> str:
    """Say how long a process was given; its command line is left out."""
    return f"not finished after {round(float(error.timeout), 2):g} seconds"


def is_no_http_error(error: Any) -> bool:
    """Tell whether aiohttp refused an answer that the server itself did not call an error."""
    return int(error.status) < limits.CLIENT_ERROR_STATUS


def is_unreadable(error: Any) -> bool:
    """Tell whether aiohttp made up the status, because the bytes that it got were no HTTP."""
    return any(base.__name__ == "HttpProcessingError" for base in type(error.__cause__).__mro__)


def is_undecodable(error: Any) -> bool:
    """Tell whether aiohttp gave up on a body because its content encoding is wrong, and not because it broke off."""
    return type(error.__cause__).__name__ == "ContentEncodingError"


def validation_faults(error: Any) -> str:
    """Return type and location of each fault of a pydantic or FastAPI validation error, a key that is no name as *."""
    count = getattr(error, "error_count", None)
    if callable(count) and count() > limits.VALIDATION_ERRORS_READ:
        return f"{count()} validation errors"
    try:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
    except TypeError:  # FastAPI's takes no arguments
        faults = error.errors()
    named = [f"{fault['type']} at {_location(fault['loc'])}" for fault in faults[: limits.VALIDATION_ERRORS]]
    more = len(faults) - len(named)
    return "; ".join(named) + (f"; and {more} more" if more else "")


def _location(parts: Iterable[object]) -> str:
    # A location names fields, but of a mapping, and of what is one too many, it names the keys of the input.
    named = (str(part)[: limits.VALIDATION_NAME_LENGTH] for part in parts)
    return ".".join(part if _NAME.fullmatch(part) else "*" for part in named) or "the whole"


def schema_fault(error: Any) -> str:
    """Return the keyword and the place of a jsonschema error; its message quotes the instance."""
    return f"{error.validator} at {error.json_path}"
