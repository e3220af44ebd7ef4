"""What is known of the reply that a client library's exception was made of.

aiohttp's ClientResponseError, httpx's HTTPStatusError and the status errors of SDKs keep the reply or its headers, also
after pickle. So each hop's exception already holds what the server behind it reported. What a client adapter observed
of a reply without a report is found by the same way.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final
from weakref import ref

from gym_failures.chain import Carried
from gym_failures.header import decode_reports
from gym_failures.looking import attribute, look
from gym_failures.marks import REMOTE, Mark
from gym_failures.propagation import header_values
from gym_failures.records import FailureReport
from gym_failures.repair import chain_ids
from gym_failures.text import text_of

# By the id of a reply's part: headers and responses may define equality, and then have no hash.
_remembered: Final[dict[int, tuple[ref[object], Mark]]] = {}


def remember(part: object, mark: Mark) -> None:
    """Keep `mark` for exceptions that hold `part`, the response or the headers of a reply, as long as that lives.

    A part whose life cannot be watched is left out, such as headers of multidict without its extension.
    """
    key = id(part)
    with suppress(TypeError):
        _remembered[key] = (ref(part, lambda _: _remembered.pop(key, None)), mark)


def remembered(part: object) -> Mark | None:
    """Return the mark that is kept for this very `part` of a reply, or None."""
    found = _remembered.get(id(part))
    return found[1] if found is not None and found[0]() is part else None


def mark_for(report: FailureReport) -> Mark | None:
    """Return the mark of an exception that stands for what `report` says; None where it has no own failure."""
    chain = chain_ids(report.events, report.failure_id)
    return Mark(tuple(report.events[event_id] for event_id in chain), REMOTE) if chain else None


def carried_by(error: BaseException, believes: Callable[[str, Sequence[object]], bool]) -> Carried | None:
    """Return what is known of the reply that `error` holds, or None when there is nothing or its peer is not believed.

    `believes` is asked with the URL of the request and the values of the header. Raises nothing but what it raises.
    """
    response, headers = attribute(error, "response"), attribute(error, "headers")
    if response is None and headers is None:
        return None
    known = remembered(response) or remembered(headers)
    if known is not None:
        return Carried(known, omitted=False)
    values = _values_in(headers) or _values_in(attribute(response, "headers"))
    if not values:
        return None
    url = _url_of(error, response)
    report = decode_reports(values) if url is not None and believes(url, values) else None
    mark = None if report is None else mark_for(report)
    return None if report is None or mark is None else Carried(mark, report.omitted)


def _values_in(headers: object) -> list[object]:
    """Return the values of the report's header; none when `headers` is something else of that name."""
    return look(header_values, headers) or []  # Any exception may have an attribute of that name, of any type.


def _url_of(error: BaseException, response: object) -> str | None:
    """Return the URL that answered, from aiohttp's `request_info`, or from the response or request of the others."""
    for holder, name in (  # httpx's `request` raises RuntimeError where there is none.
        (attribute(error, "request_info"), "real_url"),
        (response, "url"),
        (attribute(error, "request"), "url"),
    ):
        url = attribute(holder, name)
        if url is not None:
            return text_of(url)
    return None
