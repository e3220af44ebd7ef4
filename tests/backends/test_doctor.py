"""What `doctor` says of the real receivers."""

from gym_failures.cli.checkup.destinations import destinations


def named(endpoint):
    """Return what there is to mend where spans and counts go to `endpoint`."""
    return [one.about for one in destinations({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) if one.fix]


def test_a_jaeger_alone_takes_no_counts(jaeger):
    """Jaeger takes spans and no counts, which is said before they are lost."""
    assert named(jaeger.http) == ["OTEL_METRICS_EXPORTER"]


def test_a_collector_takes_both(agent):
    """A Collector takes spans and counts: there is nothing to mend."""
    assert named(agent.http) == []
