"""Raise what a reply reports: for code that calls another server and wants its failure, not only its status."""

from typing import Any

from gym_failures.config import Config
from gym_failures.errors import error_from
from gym_failures.header import decode_reports
from gym_failures.log import current_log
from gym_failures.propagation import header_values
from gym_failures.recorder import default_recorder
from gym_failures.records import FailureReport


def report_of(response: Any, *, config: Config | None = None) -> FailureReport | None:  # noqa: ANN401 - by its shape
    """Return the report in the headers of a reply; None when there is none, or its peer is not believed.

    `response` is one of aiohttp, httpx or requests, or anything with `headers` and `url`. `config` says whose reports
    are believed, and whether any is read at all (`enabled`); None takes that of the process.
    """
    values = header_values(response.headers)
    chosen = default_recorder().config if config is None else config
    if not (values and chosen.enabled):
        return None
    if chosen.accepts(str(response.url)):
        return decode_reports(values)
    log = current_log()
    if log is not None:
        log.refuse(values)
    return None


def raise_for_failure(response: Any, *, config: Config | None = None) -> None:  # noqa: ANN401 - by its shape
    """Raise the own failure that a reply reports as a FailureError, raised from its causes; else do nothing.

    Do so before `raise_for_status`, which knows the status alone. A report of failures that were recovered from raises
    nothing, nor does any where the package is switched off. The arguments are those of `report_of`.
    """
    report = report_of(response, config=config)
    error = None if report is None else error_from(report)
    if error is not None:
        raise error
