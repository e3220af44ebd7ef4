"""The reference of the metrics names what there is."""

import re
from pathlib import Path

from gym_failures import limits, semconv

REFERENCE = Path(__file__).parents[1] / "docs" / "reference" / "metrics.md"


def test_the_reference_names_every_metric_and_no_other():
    """The metric names of the page are those of `semconv`."""
    named = set(re.findall(r"`(gym\.[a-z_.]+)`", REFERENCE.read_text()))
    assert named == {value for name, value in vars(semconv).items() if name.startswith("METRIC_") and "." in value}


def test_the_reference_tells_the_cap_in_force():
    """The number of namespaced kinds that get a series of their own is the one in `limits`."""
    assert f"the first {limits.NAMESPACED_KINDS_COUNTED}\n" in REFERENCE.read_text()
