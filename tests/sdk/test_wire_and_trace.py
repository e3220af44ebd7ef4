"""What a server sent and what its spans tell is the same report."""

from hypothesis import given, settings

from gym_failures.testing import Telemetry
from tests import calltrees
from tests.agreement import assert_wire_and_trace_agree
from tests.strategies import server_trees


@settings(max_examples=300)
@given(server_trees())
def test_report_rebuilt_from_spans_is_the_one_that_was_sent(tree: calltrees.Server) -> None:
    """For any call tree, each server's report rebuilt from the spans beneath its own agrees with the one it sent."""
    with Telemetry() as telemetry:
        done = calltrees.run(tree, telemetry.tracer_provider, telemetry.recorder)
        assert_wire_and_trace_agree(done.sent, telemetry.reports(by="request"))


@settings(max_examples=50)
@given(server_trees())
def test_every_local_failure_is_counted_once(tree: calltrees.Server) -> None:
    """For any call tree, the counter has as many failures as there are different local events on the spans."""
    with Telemetry() as telemetry:
        calltrees.run(tree, telemetry.tracer_provider, telemetry.recorder)
        local = [event["failure.id"] for event in telemetry.events() if event["failure.origin"] == "local"]
        assert len(local) == len(set(local)) == telemetry.count()
        assert telemetry.count(failure_root=True) == sum(
            event.get("failure.root", False) for event in telemetry.events()
        )
