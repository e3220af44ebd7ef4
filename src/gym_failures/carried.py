"""The report that a client library's exception carries in the headers of the reply it was made of.

aiohttp's ClientResponseError and httpx's HTTPStatusError keep the reply's headers, also after pickle; so each hop's
exception already holds what the server behind it reported.
"""

from collections.abc import Callable

from gym_failures.header import decode_reports
from gym_failures.propagation import header_values
from gym_failures.records import FailureReport


def report_carried_by(error: BaseException, accepts: Callable[[str], bool]) -> FailureReport | None:
    """Return the report in the headers that `error` holds, or None when there is none or its peer is not accepted.

    `accepts` is asked with the URL of the request (`Config.accepts`). Raises nothing but what `accepts` raises.
    """
    headers = _first(error, "headers") or _first(_first(error, "response"), "headers")
    if headers is None:
        return None
    report = decode_reports(header_values(headers))
    if report is None:
        return None
    request = _first(error, "request_info") or _first(error, "request") or _first(_first(error, "response"), "request")
    url = _first(request, "real_url") or _first(request, "url")
    return report if url is not None and accepts(str(url)) else None


def _first(source: object, name: str) -> object | None:
    """Return an attribute of a foreign object, or None when it has none or reading it raises."""
    try:
        return getattr(source, name, None)
    except Exception:  # noqa: BLE001 - httpx's `request` property raises RuntimeError where there is none
        return None
