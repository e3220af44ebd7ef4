"""What is taken out of a failure before it leaves the process: broken text, secrets, and reasons that are too long."""

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from gym_failures import limits
from gym_failures.config import Config, reason_length
from gym_failures.guard import Guard
from gym_failures.records import FailureEvent, SandboxFailureDetails
from gym_failures.text import clean, cut, wire_id

HIDDEN: Final = "***"
"""What stands where a secret was."""

_SCRUBBER: Final = Guard("scrubber")

# Every pattern starts at a literal and reads each character a bounded number of times, so that hostile text costs
# linear time. To hide a word too many is a smaller fault than to pass a secret on, so the patterns are generous.
# A password that nobody quoted may hold what ends a host (the second kind of user); what looks like a port is none.
_URL: Final = re.compile(
    r"""://([^\s/?#"'<>]*@|[^\s/?#@:"'<>]{0,128}:(?!\d{1,5}[/?#])[^\s,;"<>]{1,256}@)?([^\s?#"'<>]*)(\?[^\s#"'<>]*)?"""
)
_QUERY: Final = re.compile(r"""\?(?=[\w.%\[\]-]{1,64}=)[^\s#"'<>]+""")
_BEARER: Final = re.compile(r"(?i:\bbearer)\s{1,8}[\w.~+/=-]{6,}")
_BASIC: Final = re.compile(r"(?i:\bbasic)\s{1,8}(?=[a-z]{0,200}[A-Z0-9+/=])[\w+/=-]{6,}")
_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9])"
    r"([srp]k-|[srp]k_(?:live|test)_|hf_|nvapi-|gsk_|xai-|pplx-|r8_|e2b_|npm_|pypi-"
    r"|gh[opsur]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|ASIA|AIza|eyJ|SG\.|ya29\.)"
    r"[\w.-]{8,}"
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL
)
_PAIR: Final = re.compile(
    r"(?i)((?:pass(?:word|wd|phrase)|pwd|secret|token|credentials?|authorization|cookie|[_-]key|(?:api|access|account)key"
    r"|\bsig(?:nature)?)"
    r"[\\\"']{0,4}\s{0,8}[:=]\s{0,8})"
    r"((?:basic|bearer|digest|token)\s{1,8})?"
    r"(?:(?:\\?\"[^\"]*\"?|\\?'[^']*'?)[^\s\"',;&)}\]]*|[^\s\"',;&)}\]]+)"
)
# As an option of a command, and as a pair of which each part is quoted: how Python shows the headers of a request.
_OPTION: Final = re.compile(
    r"(?i)(--(?:[a-z]{1,20}-){0,3}(?:password|passwd|secret|token|key|credentials?)\s{1,8})(?!-)[^\s\"',;]+"
)
_QUOTED_PAIR: Final = re.compile(
    r"(?i)([\"'](?:[a-z]{1,20}-){0,3}(?:password|secret|token|credentials?|authorization|cookie|key)[\"']"
    r"\s{0,8},\s{0,8}b?)(?:\"[^\"]*\"?|'[^']*'?)"
)
# Of these headers all is secret: schemes have any name, and values several parts (RFC 9110, 11.4; RFC 6265, 4.2.1).
_PART: Final = r"(?:=\"[^\"]*\"|[^\s\"',;&)}\]])+"
_HEADER: Final = re.compile(
    r"(?i)((?:authorization|cookie)\s{0,8}[:=]\s{0,8})"
    r"(?:((?:basic|bearer|digest|token)\s{1,8})|[a-z][\w-]{0,40}:?\s{1,8}(?=[^\s\"',;&)}\]]))?"
    rf"{_PART}(?:\s{{0,8}}[;,]\s{{0,8}}(?=[\w.-]{{1,64}}=){_PART})*"
)


def scrub(text: str) -> str:
    """Return `text` with ``***`` in place of what looks like a secret.

    Hidden are bearer and basic credentials, keys with well-known beginnings, private keys, values named like secrets,
    and user information and query strings of URLs. Takes linear time.
    """
    # The looks at the text before each pattern are what makes text without secrets cheap.
    if "-" in text or "_" in text or _begins_a_key(text):
        text = _PRIVATE_KEY.sub(HIDDEN, text)
        text = _KEY.sub(rf"\1{HIDDEN}", text)
    lower = text.lower()
    if "bearer" in lower:
        text = _BEARER.sub(f"Bearer {HIDDEN}", text)
    if "basic" in lower:
        text = _BASIC.sub(f"Basic {HIDDEN}", text)
    if _names_a_secret(lower):
        text = _without_named_secrets(text, lower)
    # Last, because what the others hide is no more part of a URL.
    if "://" in text:
        text = _URL.sub(_without_secrets, text)
    if "?" in text and "=" in text:
        text = _QUERY.sub(f"?{HIDDEN}", text)
    return text


def _begins_a_key(text: str) -> bool:
    return "AKIA" in text or "ASIA" in text or "AIza" in text or "eyJ" in text or "SG." in text or "ya29." in text


def _names_a_secret(lower: str) -> bool:
    """Tell whether a word is there that the pattern of pairs begins with; these looks are faster than one pattern."""
    return (
        "pass" in lower
        or "pwd" in lower
        or "secret" in lower
        or "token" in lower
        or "credential" in lower
        or "authorization" in lower
        or "cookie" in lower
        or "key" in lower
        or "sig" in lower
    )


def _without_named_secrets(text: str, lower: str) -> str:
    if ":" in text or "=" in text:
        if "authorization" in lower or "cookie" in lower:
            text = _HEADER.sub(rf"\1\2{HIDDEN}", text)
        text = _PAIR.sub(rf"\1\2{HIDDEN}", text)
    if "--" in text:
        text = _OPTION.sub(rf"\1{HIDDEN}", text)
    if "," in text:
        text = _QUOTED_PAIR.sub(rf"\1{HIDDEN}", text)
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
    """Return `event` as it may leave the process: ids and kind of legal length, and no secrets in its texts.

    Returns the same object when there is nothing to change. Broken text needs no look here: the records refuse it where
    they have a bound, and ids and kind, where they have none, are made legal.
    """
    changes: dict[str, object] = {}
    for name, value in (
        ("event_id", event.event_id),
        ("failure_kind", event.failure_kind),
        ("cause_id", event.cause_id),
    ):
        # What nearly always comes is legal, and to ask first is faster than to make it so.
        if value is None or (value.isascii() and 0 < len(value) <= limits.WIRE_ID_LENGTH):
            continue
        if (legal := wire_id(value)) != value:
            changes[name] = legal
    reason = event.failure_reason
    if reason and (changed := hidden(config, reason)) != reason:
        changes["failure_reason"] = changed
    if event.foreign_error is not None or event.details is not None:
        changes |= _in_details(event, partial(hidden, config))
    return event.model_copy(update=changes) if changes else event


def shortened(event: FailureEvent, policy: Callable[[str], str]) -> FailureEvent:
    """Return `event` with `policy` applied to its reason, foreign message and provider's status reason.

    Returns the same object when there is nothing to change. `policy` must not raise or lengthen; see `reason_policy`.
    """
    changes = _in_details(event, policy)
    if (reason := policy(event.failure_reason)) != event.failure_reason:
        changes["failure_reason"] = reason
    return event.model_copy(update=changes) if changes else event


def _in_details(event: FailureEvent, change: Callable[[str], str]) -> dict[str, object]:
    """Return what `change` makes of the foreign message and of the provider's reason, where it changes them."""
    changes: dict[str, object] = {}
    foreign, details = event.foreign_error, event.details
    if foreign is not None and (changed := change(foreign.message)) != foreign.message:
        changes["foreign_error"] = foreign.model_copy(update={"message": changed})
    if isinstance(details, SandboxFailureDetails) and details.provider_status_reason:
        changed = change(details.provider_status_reason)
        if changed != details.provider_status_reason:
            changes["details"] = details.model_copy(update={"provider_status_reason": changed})
    return changes


def hidden(config: Config, text: str) -> str:
    """Return what may leave the process of `text`: valid Unicode, without secrets, at most 2,000 characters."""
    if not text.isascii():
        text = clean(text)
    if config.scrub:
        text = scrub(text)
    if config.scrubber is not None:
        text = _by_user(config.scrubber, text)
    return text if len(text) <= limits.REASON_LENGTH else cut(text, limits.REASON_LENGTH)


def _by_user(scrubber: Callable[[str], str], text: str) -> str:
    """Return what the user's scrubber leaves; nothing, when it fails, because what it would have hidden is unknown."""
    with _SCRUBBER:
        kept: object = scrubber(text)
        if isinstance(kept, str):
            return clean(kept)
        raise TypeError("a scrubber returns text")
    return ""
