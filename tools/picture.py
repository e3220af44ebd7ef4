"""Draw the README's picture from a run of the demo: `python tools/picture.py PICTURE`.

It shows what the command shows, with fewer trees.
"""

import io
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from gym_failures.cli.count import print_table
from gym_failures.cli.demo import verdict
from gym_failures.cli.tree import tree_of
from gym_failures.demo import plan
from gym_failures.demo.check import compare
from gym_failures.demo.run import run
from gym_failures.reading import read_files

SEED = 0
WIDTH = 120
SHOWN = (plan.PROVIDER_429, plan.STREAM_BROKEN, plan.SANDBOX_OOM, plan.GAP, plan.CONNECTION_RESET)
TITLE = "make demo"
# The fonts that rich would load from elsewhere; without them a picture shows in any font of fixed width.
FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def draw(folder: Path) -> str:
    """Return the picture of a run, as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    spans = sorted((folder / "spans").glob("*.jsonl"))
    rollouts = {rollout.key: rollout for rollout in read_files(spans, by="rollout")}
    for fault in SHOWN:
        first = next(one.rollout_id for one in plan.plan(SEED) if one.fault == fault)
        console.print(tree_of(rollouts[first], "rollout"), "")
    print_table(console, read_files(spans))
    console.print(verdict(compare(folder, spans)))
    svg = console.export_svg(title=TITLE, unique_id="demo")
    return FONT_FACE.sub("", svg)


def main(picture: str) -> None:
    """Run the demo and write the picture of it."""
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), seed=SEED, on_end=lambda rollout: print(rollout.rollout, rollout.fault))
        Path(picture).write_text(draw(Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
