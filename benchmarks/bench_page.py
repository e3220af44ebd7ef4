"""How large the page of a large run is, and how soon Chromium shows it.

A run of 100,000 failures, each of its reasons different, becomes a page in memory; its size may be 20 MB, and the
browser may take 2 s from the start of its loading until the page is drawn and can be searched. Exits with 1 when either
does not hold. Needs Chromium (`make browser`).
"""

import random
import shutil
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from playwright.sync_api import sync_playwright

from gym_failures import semconv
from gym_failures.attributes import to_attributes
from gym_failures.cli.page import contents, document
from gym_failures.kinds import FAILURE_KINDS, FailureBoundary
from gym_failures.reading import EventRecord, SpanKind, SpanRecord, rebuild
from gym_failures.records import FailureEvent

ROLLOUTS: Final = 40_000
FAILURES: Final = 100_000
SIZE_BUDGET_MB: Final = 20.0
OPEN_BUDGET_S: Final = 2.0
ROUNDS: Final = 5
START_NS: Final = 1_700_000_000_000_000_000

CHANCE: Final = random.Random(0)  # noqa: S311 - the same run each time
KINDS: Final = sorted(FAILURE_KINDS)
BOUNDARIES: Final = tuple(FailureBoundary)
WORDS: Final = ("provider", "sandbox", "judge", "answer", "timeout", "memory", "refused", "token", "parse", "tool")

# Until the first rollout is drawn, and once more until a search has looked at all of them.
OPENED: Final = "() => performance.now()"
SEARCHED: Final = """() => new Promise(done => {
    const begun = performance.now();
    const found = document.getElementById("found");
    new MutationObserver(() => done(performance.now() - begun)).observe(found, {childList: true});
    document.getElementById("search").value = "refused memory";
    document.getElementById("filter").dispatchEvent(new Event("input"));
})"""


def rollout(number: int, failures: int) -> SpanRecord:
    """Return the span of a rollout with a chain of that many failures."""
    events: list[EventRecord] = []
    cause = None
    when = START_NS + number * 50_000_000
    for place in range(failures):
        event = FailureEvent(
            event_id=f"{number:08x}{place:024x}",
            cause_id=cause,
            failure_kind=CHANCE.choice(KINDS),
            boundary=CHANCE.choice(BOUNDARIES),
            failure_reason=f"{' '.join(CHANCE.choices(WORDS, k=12))} {number}",
            operation=f"server{place} POST /run",
        )
        cause = event.event_id
        events.append(EventRecord(semconv.EVENT_NAME, when + place, to_attributes(event, root=place == 0)))
    attributes = {semconv.FAILURE_ID: cause, semconv.NEMO_GYM_ROLLOUT_ID: f"rollout-{number}"}
    return SpanRecord(
        trace_id=f"{number + 1:032x}", span_id=f"{number + 1:016x}", kind=SpanKind.SERVER, service="agent",
        start_ns=when, end_ns=when + 1, attributes=attributes, events=events,
    )  # fmt: skip


def main() -> int:
    """Print the table; return 1 when a budget does not hold."""
    per_rollout, more = divmod(FAILURES, ROLLOUTS)
    spans = [rollout(number, per_rollout + (number < more)) for number in range(ROLLOUTS)]
    reports = rebuild(spans, by="rollout")
    begun = time.perf_counter()
    made = contents(reports, spans=len(spans), skipped=0)
    text = document(made, title="A large run", made="now")
    took = time.perf_counter() - begun
    opened, searched = [], []
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        path.write_text(text, "utf-8")
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(ROUNDS):
            page = chromium.new_page()
            page.goto(path.as_uri())
            page.wait_for_selector("#rollouts details")
            opened.append(page.evaluate(OPENED) / 1e3)
            searched.append(page.evaluate(SEARCHED) / 1e3)
            page.close()
        chromium.close()
    size = len(text.encode()) / 1e6
    seconds = statistics.median(opened)
    holds = size <= SIZE_BUDGET_MB and seconds <= OPEN_BUDGET_S
    print(f"{FAILURES:,} failures in {ROLLOUTS:,} rollouts; {made['left_out']:,} rollouts left out,")
    print(f"reasons of at most {made['reason_length']} characters; made in {took:.1f} s")
    print(f"{size:6.1f} MB  budget {SIZE_BUDGET_MB:.0f} MB")
    print(f"{seconds:6.2f} s   until it is drawn, budget {OPEN_BUDGET_S:.0f} s: {'holds' if holds else 'MISSED'}")
    print(f"{statistics.median(searched):6.2f} s   for a search of everything, shown")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
