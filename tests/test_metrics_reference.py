"""The reference of the metrics names what there is."""

import re
from pathlib import Path

from gym_failures import limits, selfmetrics, semconv

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference" / "metrics.md"


def test_the_reference_names_every_metric_and_no_other():
    """The metric names of the page are those of `semconv`."""
    named = set(re.findall(r"`(gym\.[a-z_.]+)`", REFERENCE.read_text()))
    assert named == {value for name, value in vars(semconv).items() if name.startswith("METRIC_") and "." in value}


def test_the_reference_tells_the_cap_in_force():
    """The number of namespaced kinds that get a series of their own is the one in `limits`."""
    assert f"the first {limits.NAMESPACED_KINDS_COUNTED}\n" in REFERENCE.read_text()


def test_the_reference_explains_every_reason_and_no_other():
    """The rows of the table are the members of `Loss`, in their order, and one for the errors of our own."""
    table = REFERENCE.read_text().partition("\n| reason |")[2].partition("\n\n")[0]
    first_cells = [line.split(" | ")[0].strip("| ") for line in table.splitlines()[2:]]
    assert first_cells == [*(f"`{loss}`" for loss in selfmetrics.Loss), "any other"]


def test_a_loss_is_told_from_an_error_of_ours():
    """No guard has the name of a loss, since one label holds either, and those that the page names are guards."""
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    guards = set(re.findall(r'Guard\("([^"]*)"\)', source))
    assert guards.isdisjoint(selfmetrics.Loss)
    assert {"scrubber", "reply_to", "accept_from", "log_line"} <= guards
