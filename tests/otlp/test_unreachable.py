"""A Collector that is unreachable is the exporter's trouble alone."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("program.py")


def test_nothing_of_ours_waits_for_the_collector(tmp_path):
    """No thread, exit handler or open file is added that could hold up anything (opentelemetry-python#3309).

    Replies have the same statuses, shutdown raises nothing, and the only complaint is the exporter's.
    """
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sides = json.loads(done.stdout)
    without, ours = sides["without"], sides["with"]
    assert ours["statuses"] == without["statuses"]
    assert (without["reports"], ours["reports"]) == (0, len(ours["statuses"]))
    assert ours["held"] == without["held"]
    assert "gym_failures" not in done.stderr
