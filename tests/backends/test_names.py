"""What the package counts of itself is in Prometheus by the names that the reference of the metrics tells."""

from gym_failures import selfmetrics
from gym_failures.packing import Refusal
from gym_failures.recorder import default_recorder_replaced
from tests.backends.fleet import Service

NAMES = {
    "gym_failures_dropped_total",
    "gym_failures_header_decode_errors_total",
    "gym_failures_header_cut_total",
    "gym_failures_header_size_bytes_bucket",
    "gym_failures_header_size_bytes_count",
    "gym_failures_header_size_bytes_sum",
}


def test_counters_end_in_total_and_the_histogram_names_its_unit(agent, prometheus, eventually):
    """Dots are underscores, a counter ends in `_total`, and the histogram has its unit and three series."""
    service = Service("names", "agent", agent.http)
    try:
        with default_recorder_replaced(service.recorder):
            selfmetrics.dropped(selfmetrics.Loss.CAUSES)
            selfmetrics.decode_error(Refusal.FORMAT)
            selfmetrics.header_written(300, was_cut=True)
        service.flush()
        every = '{__name__=~"gym_failures_.+", service_name="names"}'
        eventually(lambda: {labels["__name__"] for labels, _ in prometheus.query(every)}, NAMES)
    finally:
        service.shutdown()
