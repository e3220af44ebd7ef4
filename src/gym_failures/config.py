"""What a user can choose: checked when it is made, so that a wrong choice is an error at start and not in a request."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gym_failures import limits
from gym_failures.accepted import AcceptedHosts
from gym_failures.guard import Guard, warn_once
from gym_failures.kinds import FailureBoundary
from gym_failures.misuse import GymFailuresError
from gym_failures.rules import Rule

__all__ = ["Config", "ConfigError"]

ENVIRONMENT_PREFIX: Final = "GYM_FAILURES_"

_REASONS: Final = re.compile(r"full|off|truncate:([1-9][0-9]{0,3})")
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})
_LOG_LINES: Final = ("auto", "always", "never")
_REPLY_TO: Final = ("all", "none")
_RANGES: Final = {
    "header_budget": (limits.HEADER_BUDGET_MIN, limits.HEADER_HARD_LIMIT),
    "waiting_after": (0, limits.WAITING_AFTER_MAX),
}

_ASK_REPLY_TO: Final = Guard("reply_to")
_ASK_ACCEPT_FROM: Final = Guard("accept_from")


class ConfigError(GymFailuresError, ValueError):
    """Say which field or environment variable has a value that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Hold every choice of the user; raises ConfigError for a value that cannot be used."""

    enabled: bool = True
    """Whether the package does anything: with False nothing is recorded, counted, sent or read."""

    boundary: FailureBoundary | str | None = None
    """Where this process observes failures when nothing else says so; None is nowhere in particular."""

    reply_to: Literal["all", "none"] | Callable[[Mapping[str, Any]], bool] = "all"
    """Which requests are answered with a report: "all", "none", or a callable that gets the ASGI scope.

    A callable that raises says no, and is counted.
    """

    accept_from: str | Collection[str] | Callable[[str], bool] = "default"
    """Whose reports are believed.

    "all", "none", "default" (localhost, loopback and private addresses, and in a process of NeMo Gym the hosts of the
    servers in its configuration), a collection of hosts, addresses and networks such as "10.1.0.0/16" that may contain
    "default", or a callable that gets the URL. Names are compared as they are: a name that stands for a private address
    is a name. A callable that raises says no, and is counted.
    """

    header_reasons: str = f"truncate:{limits.HEADER_REASON_LENGTH}"
    """What of a reason goes into a reply: "full", "off" or "truncate:N", N in [1, 2000] characters."""

    span_reasons: str = "full"
    """What of a reason goes on spans and into lines of the log, as in `header_reasons`."""

    scrub: bool = True
    """Whether what looks like a secret is removed from every reason and message."""

    scrubber: Callable[[str], str] | None = None
    """Gets every reason and message after that and returns what to keep; None keeps all.

    When it raises, or returns anything but text, the reason is dropped and counted, never the failure.
    """

    header_budget: int = limits.HEADER_BUDGET
    """The longest report header in bytes, in [HEADER_BUDGET_MIN, HEADER_HARD_LIMIT] of `limits`."""

    log_lines: Literal["auto", "always", "never"] = "auto"
    """When a failure becomes a line of JSON: "auto" where no span carries it, "always" or "never"."""

    waiting_after: int = limits.WAITING_AFTER
    """The age at which a request of a NeMo Gym server is told of while it still runs.

    In whole seconds, in [0, WAITING_AFTER_MAX] of `limits`; 0 is never.
    """

    traces: str = "gym-failures-traces"
    """The folder in which `enable` has spans written, where OpenTelemetry's variables name nothing to send them to.

    Each process has a file of its own there.
    """

    rules: tuple[Rule, ...] = ()
    """What exceptions mean, asked before the rules that the package has for those of other libraries."""

    _accepted: AcceptedHosts | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        """Check every field."""
        for name in ("enabled", "scrub"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(name, getattr(self, name), "True or False")
        object.__setattr__(self, "boundary", _boundary(self.boundary))
        if not callable(self.reply_to) and self.reply_to not in _REPLY_TO:
            raise _wrong("reply_to", self.reply_to, '"all", "none" or a callable')
        for name in ("header_reasons", "span_reasons"):
            reason_length(getattr(self, name), name)
        if self.scrubber is not None and not callable(self.scrubber):
            raise _wrong("scrubber", self.scrubber, "a callable or None")
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise _wrong(name, value, f"a whole number in [{low}, {high}]")
        if self.log_lines not in _LOG_LINES:
            raise _wrong("log_lines", self.log_lines, '"auto", "always" or "never"')
        _check_folder("traces", self.traces)
        if not _are_rules(self.rules):
            raise _wrong("rules", self.rules, "a tuple of classify.Rule")
        object.__setattr__(self, "_accepted", _accepted(self.accept_from))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> "Config":  # noqa: ANN401 - the fields
        """Read the configuration from GYM_FAILURES_* variables; None reads those of this process.

        An empty variable counts as unset; one that the package does not know is warned about once. `overrides` are
        fields that win over the environment. Raises ConfigError that names the variable and its value.
        """
        environ = os.environ if environ is None else environ
        given: dict[str, Any] = {}
        for variable, value in environ.items():
            if not variable.startswith(ENVIRONMENT_PREFIX) or not value.strip():
                continue
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            read = _READERS.get(name)
            if read is None:
                warn_once(f"variable:{variable}", "unknown environment variable %s is ignored", variable)
                continue
            if name in overrides:
                continue
            try:
                given[name] = read(value.strip())
                cls(**{name: given[name]})
            except ValueError as error:
                raise ConfigError(f"{variable}={value!r}: {error}") from None
        return cls(**given, **overrides)

    def replies_to(self, scope: Mapping[str, Any]) -> bool:
        """Tell whether the reply to the request of this ASGI `scope` may carry a report."""
        if not callable(self.reply_to):
            return self.reply_to == "all"
        with _ASK_REPLY_TO:
            return bool(self.reply_to(scope))
        return False

    def accepts(self, url: str) -> bool:
        """Tell whether reports in replies from `url` are believed."""
        if self._accepted is not None:
            return self._accepted.has(url)
        with _ASK_ACCEPT_FROM:
            return callable(self.accept_from) and bool(self.accept_from(url))
        return False


def reason_length(setting: object, name: str = "reasons") -> int | None:
    """Return how many characters of a reason `setting` keeps; None keeps all.

    Raises ConfigError, which calls the setting `name`, unless it is "full", "off" or "truncate:N", N in [1, 2000].
    """
    match = _REASONS.fullmatch(setting) if isinstance(setting, str) else None
    length = int(match[1]) if match and match[1] else 0
    if match is None or length > limits.REASON_LENGTH:
        raise _wrong(name, setting, f'"full", "off" or "truncate:N" with N in [1, {limits.REASON_LENGTH}]')
    return None if setting == "full" else length


def _accepted(setting: object) -> AcceptedHosts | None:
    try:
        return None if callable(setting) else AcceptedHosts.of(setting)
    except ValueError as error:
        raise ConfigError(f"accept_from must be {error}") from None


def _boundary(value: object) -> FailureBoundary | None:
    try:
        return None if value is None else FailureBoundary(value)
    except ValueError:
        raise _wrong("boundary", value, f"one of {', '.join(one.value for one in FailureBoundary)}") from None


def _are_rules(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(rule, Rule) for rule in value)


def _check_folder(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise _wrong(name, value, "the path of a folder")


def _wrong(name: str, value: object, expected: str) -> ConfigError:
    return ConfigError(f"{name} must be {expected}, not {value!r}")


def _switch(value: str) -> bool:
    lower = value.lower()
    if lower not in _TRUE | _FALSE:
        raise ConfigError("must be true or false")
    return lower in _TRUE


def _hosts(value: str) -> str | tuple[str, ...]:
    hosts = tuple(part.strip() for part in value.split(",") if part.strip())
    return hosts[0] if len(hosts) == 1 else hosts


def _number(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError("must be a whole number") from None


_READERS: Final[Mapping[str, Callable[[str], object]]] = {
    "enabled": _switch,
    "boundary": str.lower,
    "reply_to": str.lower,
    "accept_from": _hosts,
    "header_reasons": str.lower,
    "span_reasons": str.lower,
    "scrub": _switch,
    "header_budget": _number,
    "log_lines": str.lower,
    "traces": str,
    "waiting_after": _number,
}
"""How each field that a variable can set is read; the variable is the prefix and the field's name in capitals."""

VARIABLES: Final = tuple(f"{ENVIRONMENT_PREFIX}{name.upper()}" for name in _READERS)
"""The variables that are read."""
