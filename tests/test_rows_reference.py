"""The reference of rows shows a program that runs."""

import json
import re
from pathlib import Path

from gym_failures.kinds import FailureBoundary
from gym_failures.records import FailureEvent, FailureReport
from gym_failures.rows import with_failures

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "rows.md"


def test_the_example_works(tmp_path, monkeypatch, capsys):
    """The page's loop prints the kind of each rollout that failed."""
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    event = FailureEvent(event_id="m", failure_kind="agent_timeout", boundary=FailureBoundary.AGENT)
    rows = [
        {"reward": 1.0},
        with_failures({"reward": 0.0}, FailureReport(events={"m": event}, failure_id="m")),
        with_failures({"reward": 1.0}, FailureReport(events={"m": event})),
    ]
    (tmp_path / "rollouts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "rows.md", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == "agent_timeout\n"
