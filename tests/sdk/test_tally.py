"""Counting failures in stored spans gives the numbers of the metric."""

from collections import Counter

from hypothesis import given, settings

from gym_failures import semconv
from gym_failures.cli.tally import tally
from gym_failures.testing import Telemetry
from tests import calltrees
from tests.strategies import server_trees


@settings(max_examples=100)
@given(server_trees())
def test_tally_of_spans_is_what_the_counter_counted(tree: calltrees.Server) -> None:
    """For any call tree, failures and root causes by kind and boundary are as many as the metric says."""
    with Telemetry() as telemetry:
        calltrees.run(tree, telemetry.tracer_provider, telemetry.recorder)
        counted = tally(telemetry.reports())
        cells: Counter[tuple[str, str]] = Counter()
        roots: Counter[tuple[str, str]] = Counter()
        for attributes, number in telemetry.counts().items():
            of = dict(attributes)
            key = of[semconv.FAILURE_KIND], of[semconv.FAILURE_BOUNDARY]
            cells[key] += number
            roots[key] += number * of[semconv.FAILURE_ROOT]
    named = {"unheard_of": semconv.KIND_OTHER}
    assert Counter({(named.get(kind, kind), at): n for (kind, at), n in counted.cells.items()}) == +cells
    assert +Counter({(named.get(kind, kind), at): n for (kind, at), n in counted.roots.items()}) == +roots
    assert counted.total == telemetry.count()
    assert counted.remote == counted.missing_causes == 0


@settings(max_examples=50)
@given(server_trees())
def test_tally_does_not_hang_on_how_reports_are_cut(tree: calltrees.Server) -> None:
    """By trace, by request or by rollout, the same failures are counted, each once."""
    with Telemetry() as telemetry:
        calltrees.run(tree, telemetry.tracer_provider, telemetry.recorder)
        by_trace, by_request = tally(telemetry.reports()), tally(telemetry.reports(by="request"))
    assert by_trace.cells == by_request.cells
