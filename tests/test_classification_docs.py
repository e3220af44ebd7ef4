"""The documented table of exceptions is the one in the code."""

import errno
import re
from pathlib import Path

import pytest

from gym_failures.classify import default_kind, kind_for_status
from gym_failures.kinds import FailureBoundary, FailureStage
from gym_failures.rules import DEFAULT_RULES, Rule

PAGE = (Path(__file__).parent.parent / "docs" / "reference" / "classification.md").read_text()


LIKE_HTTPX = ("httpcore.", "httpx2.", "httpcore2.")
"""The page says once that their classes are those of httpx."""


def code(*names):
    """Write names as code, separated by commas."""
    return ", ".join(f"`{name}`" for name in names if not name.startswith(LIKE_HTTPX))


def said_of(function):
    """Return what the first sentence of a function's docstring says, without its verb."""
    first = function.__doc__.partition("\n")[0].partition(";")[0].rstrip(".")
    return re.sub(r"^(Tell whether|Return|Say) ", "", first)


def row(rule: Rule):
    """Write one rule as a row of the table."""
    conditions = [
        *([f"errno {', '.join(sorted(errno.errorcode[number] for number in rule.errnos))}"] if rule.errnos else []),
        *([f"at {' or '.join(boundary.value for boundary in rule.boundaries)}"] if rule.boundaries else []),
        *([f"when {said_of(rule.when)}"] if rule.when else []),
    ]
    kind = code(rule.kind) if rule.kind else "by its status" if rule.status else "by boundary"
    if rule.message is None:
        text = f"`str()`: {said_of(rule.text)}" if rule.text else "`str()`"
    elif callable(rule.message):
        text = said_of(rule.message)
    else:
        text = code(*rule.message) or "none"
    cells = [code(*rule.types), "; ".join(conditions), kind, code(*rule.inside), code(*rule.status), text]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


def table(heading):
    """Return the rows of the table below a heading of the page."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


def test_every_rule_has_its_row():
    """The table of exceptions has one row a rule, in the order in which they are tried, and says the same."""
    assert table("Exceptions") == [row(rule) for rule in DEFAULT_RULES]


def test_every_boundary_has_its_row():
    """The table of boundaries names the kind of each, and that of verification."""
    expected = {boundary.value: default_kind(boundary) for boundary in FailureBoundary}
    expected["resources_server, stage verification"] = default_kind(
        FailureBoundary.RESOURCES_SERVER, FailureStage.VERIFICATION
    )
    assert dict(line.strip("| ").replace("`", "").split(" | ") for line in table("Boundaries")) == expected


@pytest.mark.parametrize("line", table("Statuses"))
def test_every_status_is_told_right(line):
    """The table of statuses agrees with the code for each status and range that it names."""
    told, kind, *_ = line.strip("| ").replace("`", "").split(" | ")
    for numbers in told.split(", "):
        first, _, last = numbers.partition(" to ")
        for status in range(int(first), int(last or first) + 1):
            assert kind_for_status(status) == kind


def test_the_statuses_are_all_told():
    """Each status that is an error is in exactly one row."""
    told = []
    for line in table("Statuses"):
        for numbers in line.strip("| ").split(" | ")[0].split(", "):
            first, _, last = numbers.partition(" to ")
            told.extend(range(int(first), int(last or first) + 1))
    assert sorted(told) == list(range(400, 600))


def test_the_example_works():
    """The rules that the page shows can be made as it says."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "classification.md", "exec"), {})  # noqa: S102 - our own page
