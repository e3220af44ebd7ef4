"""The one check that the wire and the trace say the same, over all the replies of a run."""

from collections.abc import Iterable

from gym_failures.agreement import disagreements
from gym_failures.reading import RebuiltReport
from tests.calltrees import Sent


def assert_wire_and_trace_agree(sent: Iterable[Sent], rebuilt: Iterable[RebuiltReport]) -> int:
    """Compare every report that was sent with the one rebuilt under its server's span; returns how many it were."""
    by_span = {report.key: report for report in rebuilt}
    compared = 0
    for one in sent:
        found = by_span.get(one.span_id)
        assert disagreements(one.report, found) == [], one
        compared += one.report is not None and found is not None
    return compared
