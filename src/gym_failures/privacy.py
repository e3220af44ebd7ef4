"""What is taken out of a failure before it leaves the process: broken text, secrets, and reasons that are too long."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from pydantic import BaseModel

from gym_failures import limits
from gym_failures.config import Config, reason_length
from gym_failures.guard import Guard
from gym_failures.records import FailureEvent, ModelFailureDetails, SandboxFailureDetails
from gym_failures.text import clean, cut, wire_id

HIDDEN: Final = "***"
"""What stands where a secret was."""

_SCRUBBER: Final = Guard("scrubber")

# Every pattern starts at a literal and reads each character a bounded number of times, so that hostile text costs
# linear time. To hide a word too many is a smaller fault than to pass a secret on, so the patterns are generous.
_URL: Final = re.compile(r"""://([^\s/?#"'<>]*@)?([^\s?#"'<>]*)(\?[^\s#"'<>]*)?""")
_QUERY: Final = re.compile(r"""\?(?=[\w.%\[\]-]{1,64}=)[^\s#"'<>]+""")
_BEARER: Final = re.compile(r"(?i:\bbearer)\s{1,8}[\w.~+/=-]{6,}")
_BASIC: Final = re.compile(r"(?i:\bbasic)\s{1,8}(?=[a-z]{0,200}[A-Z0-9+/=])[\w+/=-]{6,}")
_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9])"
    r"(sk-|rk-|pk-|hf_|nvapi-|gh[opsur]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|ASIA|AIza|eyJ)"
    r"[\w.-]{8,}"
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL
)
_PAIR: Final = re.compile(
    r"(?i)((?:pass(?:word|wd|phrase)|pwd|secret|token|credentials?|authorization|cookie|[_-]key|apikey)"
    r"[\\\"']{0,4}\s{0,8}[:=]\s{0,8})"
    r"((?:basic|bearer|digest|token)\s{1,8})?"
    r"(?:(?:\\?\"[^\"]*\"?|\\?'[^']*'?)[^\s\"',;&)}\]]*|[^\s\"',;&)}\]]+)"
)
_PAIR_WORDS: Final = ("pass", "pwd", "secret", "token", "credential", "authorization", "cookie", "key")


def scrub(text: str) -> str:
    """Return `text` with ``***`` in place of what looks like a secret.

    Hidden are bearer and basic credentials, keys with well-known beginnings, private keys, values named like secrets,
    and user information and query strings of URLs. Takes linear time.
    """
    # The looks at the text before each pattern are what makes text without secrets cheap.
    if "-" in text or "_" in text or "AKIA" in text or "ASIA" in text or "AIza" in text or "eyJ" in text:
        text = _PRIVATE_KEY.sub(HIDDEN, text)
        text = _KEY.sub(rf"\1{HIDDEN}", text)
    lower = text.lower()
    if "bearer" in lower:
        text = _BEARER.sub(f"Bearer {HIDDEN}", text)
    if "basic" in lower:
        text = _BASIC.sub(f"Basic {HIDDEN}", text)
    if (":" in text or "=" in text) and any(word in lower for word in _PAIR_WORDS):
        text = _PAIR.sub(rf"\1\2{HIDDEN}", text)
    # Last, because what the others hide is no more part of a URL.
    if "://" in text:
        text = _URL.sub(_without_secrets, text)
    if "?" in text and "=" in text:
        text = _QUERY.sub(f"?{HIDDEN}", text)
    return text


def _without_secrets(url: re.Match[str]) -> str:
    user, rest, query = url.groups()
    return f"://{f'{HIDDEN}@' if user else ''}{rest}{f'?{HIDDEN}' if query else ''}"


def reason_policy(setting: str) -> Callable[[str], str]:
    """Return the function that shortens a reason as `setting` says: "full", "off" or "truncate:N".

    Raises ConfigError for any other setting.
    """
    length = reason_length(setting)
    if length is None:
        return str
    return lambda reason: cut(reason, length)


def canonical(event: FailureEvent, config: Config) -> FailureEvent:
    """Return `event` as it may leave the process: legal text, ids and kind of legal length, and no secrets.

    Returns the same object when there is nothing to change.
    """
    changes = {} if _is_plain(event) else _changes(event, _IDS, wire_id) | _changes(event, _NAMES, clean)
    return _with_texts(event, changes, clean, lambda text: _hide(text, config))


def shortened(event: FailureEvent, policy: Callable[[str], str]) -> FailureEvent:
    """Return `event` with `policy` applied to its reason, foreign message and provider's status reason.

    Returns the same object when there is nothing to change. `policy` must not raise or lengthen; see `reason_policy`.
    """
    return _with_texts(event, {}, str, policy)


_IDS: Final = ("event_id", "failure_kind", "cause_id")
_NAMES: Final = ("operation", "operation_id", "attempt_id", "exception_type")
_DETAIL_NAMES: Final[Mapping[type[BaseModel], tuple[str, ...]]] = {
    SandboxFailureDetails: ("provider", "sandbox_id", "execution_id"),
    ModelFailureDetails: ("provider_request_id",),
}


def _is_plain(event: FailureEvent) -> bool:
    """Tell, by one look at all of them together, whether no id and no name of `event` needs a change."""
    event_id, kind, cause_id = event.event_id, event.failure_kind, event.cause_id
    longest = limits.WIRE_ID_LENGTH
    link = "-" if cause_id is None else cause_id
    if not (0 < len(event_id) <= longest and 0 < len(kind) <= longest and 0 < len(link) <= longest):
        return False
    return (
        f"{event_id}{kind}{cause_id}{event.operation}{event.operation_id}{event.attempt_id}{event.exception_type}"
    ).isascii()


def _with_texts(
    event: FailureEvent, changes: dict[str, object], name: Callable[[str], str], reason: Callable[[str], str]
) -> FailureEvent:
    """Return `event` with `changes`, and with `name` and `reason` applied to the texts of those two sorts in it."""
    changes |= _changes(event, ("failure_reason",), reason)
    if event.foreign_error is not None:
        foreign = _changes(event.foreign_error, ("exception_type",), name)
        foreign |= _changes(event.foreign_error, ("message",), reason)
        if foreign:
            changes["foreign_error"] = event.foreign_error.model_copy(update=foreign)
    if event.details is not None:
        details = _changes(event.details, _DETAIL_NAMES[type(event.details)], name)
        if isinstance(event.details, SandboxFailureDetails):
            details |= _changes(event.details, ("provider_status_reason",), reason)
        if details:
            changes["details"] = event.details.model_copy(update=details)
    return event.model_copy(update=changes) if changes else event


def _changes(record: BaseModel, fields: tuple[str, ...], change: Callable[[str], str]) -> dict[str, object]:
    """Return what `change` makes of those of the `fields` that hold text and that it changes."""
    changes: dict[str, object] = {}
    values = record.__dict__
    for field in fields:
        before = values[field]
        if before is not None and (after := change(before)) is not before and after != before:
            changes[field] = after
    return changes


def _hide(text: str, config: Config) -> str:
    if not text:
        return text
    text = clean(text)
    if config.scrub:
        text = scrub(text)
    if config.scrubber is not None:
        text = _by_user(config.scrubber, text)
    return cut(text, limits.REASON_LENGTH)


def _by_user(scrubber: Callable[[str], str], text: str) -> str:
    """Return what the user's scrubber leaves; nothing, when it fails, because what it would have hidden is unknown."""
    with _SCRUBBER:
        kept: object = scrubber(text)
        if isinstance(kept, str):
            return clean(kept)
        raise TypeError("a scrubber returns text")
    return ""
