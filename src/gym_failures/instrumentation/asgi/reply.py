"""The messages of a reply, and the report in them: one header, or the last comment of an event stream that broke."""

from typing import Final

from gym_failures import selfmetrics
from gym_failures.header import encode
from gym_failures.instrumentation.asgi.scope import (
    HEADER,
    Headers,
    Message,
    Scope,
    header_value,
    is_report,
)
from gym_failures.log import FailureLog
from gym_failures.privacy import reason_policy, shortened
from gym_failures.records import FailureReport
from gym_failures.streams import comment_line

# The messages that can end a reply, and the key that says that more will follow.
_LAST: Final = {
    "http.response.body": "more_body",
    "http.response.zerocopysend": "more_body",
    "http.response.pathsend": "",
    "http.response.trailers": "more_trailers",
}
_EVENT_STREAM: Final = b"text/event-stream"
_IDENTITY: Final = b"identity"


def is_last(message: Message, *, trailers: bool) -> bool:
    """Tell whether a message ends the reply; `trailers` says that they were announced."""
    kind = message["type"]
    more = _LAST.get(kind)
    return more is not None and not message.get(more) and (kind == "http.response.trailers" or not trailers)


def with_readable_headers(message: Message) -> tuple[Message, Headers]:
    """Return the start of a reply, and its headers, which can be read any number of times.

    ASGI allows headers that can be read only once; in the message they still can.
    """
    headers = message.get("headers", ())
    if not isinstance(headers, (list, tuple)) and iter(headers) is headers:
        headers = list(headers)
        message = {**message, "headers": iter(headers)}
    return message, headers


def with_report(message: Message, headers: Headers, log: FailureLog) -> Message:
    """Return the start of a reply with one report header, that of `log`; the app's own message is not touched."""
    return {**message, "headers": [*_others(headers), (HEADER, _encoded(log).encode("ascii"))]}


def without_report(message: Message, headers: Headers) -> Message:
    """Return the start of a reply without a report header; the app's own message is not touched."""
    return {**message, "headers": _others(headers)}


def _others(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if not is_report(name)]


def comment(log: FailureLog, after: bytes) -> Message:
    """Return the part of an event stream's body that tells of `log`; `after` is the end of what was sent before."""
    return {"type": "http.response.body", "body": comment_line(_encoded(log), after=after), "more_body": True}


def takes_a_comment(scope: Scope, headers: Headers) -> bool:
    """Tell whether a comment can be put at the end of this reply: a plain event stream of no announced length."""
    headers = tuple(headers)
    kind = header_value(headers, b"content-type") or b""
    return (
        scope.get("method") != "HEAD"
        and kind.partition(b";")[0].strip().lower() == _EVENT_STREAM
        and (header_value(headers, b"content-encoding") or _IDENTITY).strip().lower() == _IDENTITY
        and header_value(headers, b"content-length") is None
    )


def _encoded(log: FailureLog) -> str:
    """Return the report of `log` as it may leave the process, within the budget for it."""
    config = log.recorder.config
    report = log.report()
    policy = reason_policy(config.header_reasons)
    events = {event_id: shortened(event, policy) for event_id, event in report.events.items()}
    # Of the same links as the valid report that it is made from.
    report = FailureReport.model_construct(events=events, failure_id=report.failure_id, omitted=report.omitted)
    value, was_cut = encode(report, budget=config.header_budget)
    selfmetrics.header_written(len(value), was_cut=was_cut)
    return value
