"""The table of cases: an app, a request to it, and what the reply reports."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from gym_failures.errors import FailureError
from gym_failures.recording import record_failure

App = Any


class BrokenError(RuntimeError):
    """What the handlers below raise."""


@dataclass
class Seen:
    """What the app did and saw, for the comparison with and without the package."""

    calls: list[str] = field(default_factory=list)
    """Every call of a handler, a background task or a piece of middleware."""

    def call(self, name: str) -> None:
        """Note a call."""
        self.calls.append(name)

    def catch(self, error: BaseException) -> None:
        """Note an exception that the app's own middleware or handler saw."""
        self.calls.append(f"{type(error).__qualname__}({error}) from {error.__cause__!r}")


@dataclass(frozen=True)
class Case:
    """An app, the request to it, and the own failure that its reply reports."""

    build: Callable[[Seen], App]
    method: str = "GET"
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    own: Mapping[str, Any] | None = None
    """Fields of the own failure; None where the request did not fail."""
    others: tuple[str, ...] = ()
    """Kinds of the other failures that are reported."""
    comment: bool = False
    """Whether the report comes as the stream's last comment and not in the header."""
    silent: bool = False
    """Whether no report can reach the caller, because the server itself answers."""


CASES: dict[str, Case] = {}


def plays(modes: Iterable[str], native: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return every case in every mode, those of FastAPI in the native ones too."""
    return [
        (name, mode)
        for name, one in CASES.items()
        for mode in (*modes, *(native if isinstance(one.build(Seen()), FastAPI) else ()))
    ]


def case(**fields: Any) -> Callable[[Callable[[Seen], App]], Callable[[Seen], App]]:
    """Put an app into the table of cases under the name of the function that builds it."""

    def keep(build: Callable[[Seen], App]) -> Callable[[Seen], App]:
        CASES[build.__name__.strip("_")] = Case(build, **fields)
        return build

    return keep


def broken(**fields: Any) -> dict[str, Any]:
    """Return the fields of the failure of a handler that raised `BrokenError`."""
    return {"failure_kind": "agent_run_error", "exception_type": "tests.servers.cases.table.BrokenError", **fields}


def status(code: int) -> dict[str, Any]:
    """Return the fields of a failure that is known by its status alone."""
    return {"failure_kind": "agent_run_error", "http_status": code, "exception_type": None}


def judge(seen: Seen) -> dict[str, int]:
    """Record a failure of the judge and answer all the same."""
    seen.call("judge")
    record_failure(FailureError("judge_failed", boundary="agent", reason="no verdict"))
    return {"reward": 0}
