"""The one check that the wire and the trace say the same."""

from collections.abc import Iterable

from gym_failures.reading import RebuiltReport
from gym_failures.records import FailureEvent
from gym_failures.text import is_cut_of
from tests.calltrees import Sent


def assert_wire_and_trace_agree(sent: Iterable[Sent], rebuilt: Iterable[RebuiltReport]) -> int:
    """Compare every report that was sent with the one rebuilt under its server's span; returns how many were compared.

    The rebuilt one has the same own failure and every event of the sent one, field by field up to marked cuts, and no
    others than those that came late, whose reply was lost, or that the sent one says it has left out.
    """
    by_span = {report.key: report for report in rebuilt}
    compared = 0
    for one in sent:
        found = by_span.get(one.span_id)
        wire = one.report
        if wire is None or (found is None and not wire.events):
            if found is not None:
                assert found.report.failure_id is None
                assert set(found.report.events) <= {*found.late, *found.unseen}
            continue
        assert found is not None
        compared += 1
        assert found.report.failure_id == wire.failure_id
        for event_id, event in wire.events.items():
            _assert_same(event, found.report.events[event_id], links_may_be_cut=wire.omitted or found.report.omitted)
        others = set(found.report.events) - set(wire.events) - set(found.late) - set(found.unseen)
        assert not others or wire.omitted, (others, one)
        assert wire.omitted or not found.missing_causes
    return compared


def _assert_same(wire: FailureEvent, trace: FailureEvent, *, links_may_be_cut: bool) -> None:
    sent, told = wire.model_dump(mode="json"), trace.model_dump(mode="json")
    assert is_cut_of(sent.pop("failure_reason"), told.pop("failure_reason"))
    for each in (sent, told):
        each.setdefault("foreign_error", {})
    assert is_cut_of(sent["foreign_error"].pop("message", ""), told["foreign_error"].pop("message", ""))
    if links_may_be_cut:
        sent.pop("cause_id", None)
        told.pop("cause_id", None)
    assert sent == told
