"""What an exception carries of the reply it was made of, found by the exception's attributes, whatever they are."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gym_failures import carried
from gym_failures.carried import carried_by, mark_for, remember, remembered
from gym_failures.header import encode_report
from gym_failures.log import FailureLog
from gym_failures.marks import REMOTE, Mark
from gym_failures.records import FailureBoundary, FailureEvent, FailureReport

ROOT = FailureEvent(event_id="root", failure_kind="provider_quota_exhausted", boundary=FailureBoundary.MODEL)
OWN = FailureEvent(event_id="own", failure_kind="agent_run_error", boundary=FailureBoundary.AGENT, cause_id="root")
REPORT = FailureReport(events={"own": OWN, "root": ROOT}, failure_id="own", omitted=True)
HEADERS = {"gym-failure-report": encode_report(REPORT)}
RECOVERED = {"gym-failure-report": encode_report(FailureReport(events={"root": ROOT}))}
URL = "http://127.0.0.1:8000/run"


class Error(Exception):
    """An exception of a client library, with the attributes that it is given."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__("broken")
        self.__dict__ |= attributes


class Closed:
    """Someone else's object that lets nobody look."""

    def __getattr__(self, name: str) -> object:
        """Refuse."""
        raise RuntimeError(name)


def anybody(url: str, values: Sequence[object]) -> bool:
    """Believe everybody, whoever that is."""
    return bool(url and values)


CARRYING = {
    "aiohttp's": Error(headers=HEADERS, request_info=SimpleNamespace(real_url=URL)),
    "httpx's": Error(response=SimpleNamespace(headers=HEADERS, url=URL)),
    "with a request": Error(headers=HEADERS, request=SimpleNamespace(url=URL)),
    "with an address of another type": Error(headers=HEADERS, request=SimpleNamespace(url=SimpleNamespace(host="x"))),
}


@pytest.mark.parametrize("error", CARRYING.values(), ids=CARRYING.keys())
def test_the_report_in_the_headers(error: Error) -> None:
    """The mark has the own failure of the report and its causes, as another process's, and says what is missing."""
    found = carried_by(error, anybody)
    assert (found.mark.events, found.mark.owner, found.omitted) == ((OWN, ROOT), REMOTE, True)


CARRYING_NOTHING = {
    "nothing": Error(),
    "no report": Error(headers={"a": "b"}, request_info=SimpleNamespace(real_url=URL)),
    "no own failure": Error(headers=RECOVERED, request_info=SimpleNamespace(real_url=URL)),
    "unreadable": Error(headers={"gym-failure-report": "1.!"}, request_info=SimpleNamespace(real_url=URL)),
    "nobody knows whose": Error(headers=HEADERS),
    "headers of another kind": Error(headers=["a", "b"]),
    "a number": Error(headers=5, response=5),
    "text": Error(headers="gym-failure-report: 1.x"),
    "closed": Error(headers=Closed(), response=Closed(), request=Closed()),
}


@pytest.mark.parametrize("error", CARRYING_NOTHING.values(), ids=CARRYING_NOTHING.keys())
def test_other_attributes_of_those_names(error: Error) -> None:
    """Attributes that hold no report, or are something else altogether, cost nothing of the failure itself."""
    assert carried_by(error, anybody) is None
    with pytest.raises(Error), FailureLog("agent") as log:
        raise error
    (event,) = log.report().events.values()
    assert event.failure_reason == "broken"


def test_a_peer_that_is_not_believed() -> None:
    """The report of a peer that was not chosen is none, and only such a peer is asked about."""
    asked: list[str] = []
    assert carried_by(CARRYING["aiohttp's"], lambda url, _: bool(asked.append(url))) is None
    assert carried_by(CARRYING_NOTHING["no report"], lambda url, _: bool(asked.append(url))) is None
    assert asked == [URL]


class Part:
    """A part of a reply, equal to every other one, as headers may be."""

    def __eq__(self, other: object) -> bool:
        """Tell parts from other things only."""
        return isinstance(other, Part)

    __hash__ = None


MARK = Mark((OWN,), "a log")


@pytest.mark.parametrize("name", ["response", "headers"])
def test_what_was_observed_of_the_reply(name: str) -> None:
    """What a client observed is found by the very part of the reply, before what its headers say."""
    part, other = Part(), Part()
    remember(part, MARK)
    assert carried_by(Error(**{name: part}), anybody).mark is MARK
    assert carried_by(Error(**{name: other}), anybody) is None


def test_it_is_forgotten_with_the_reply() -> None:
    """When the part of the reply is gone, so is what was kept for it; an object in its place is another."""
    before = dict(carried._remembered)
    part = Part()
    remember(part, MARK)
    remember(part, MARK)
    assert remembered(part) is MARK
    del part
    assert carried._remembered == before


def test_a_part_that_cannot_be_watched() -> None:
    """A part without weak references is left out, and nobody notices."""
    remember(5, MARK)
    assert remembered(5) is None


def test_a_report_without_an_own_failure_stands_for_nothing() -> None:
    """Only an own failure can be what an exception stands for."""
    assert mark_for(FailureReport(events={"root": ROOT})) is None
    assert mark_for(REPORT).events == (OWN, ROOT)
