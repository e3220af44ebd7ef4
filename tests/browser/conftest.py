"""A real browser, and pages to open in it."""

import shutil

import pytest
from playwright.sync_api import sync_playwright

from gym_failures.cli.page import contents, document
from gym_failures.reading import rebuild
from gym_failures.reading.census import Requests
from tests.conftest import go_without

PATIENCE = 100_000
"""Longest time that the browser may take for a step, in milliseconds; many times what is seen."""
NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    """Run one Chromium for all tests; refuse to pass over a missing one in the gate, elsewhere skip."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        go_without(f"none of {', '.join(NAMES)} is installed; `make browser` installs one")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=PATIENCE)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Give what writes the page of spans and opens it, without a network; ends the test at an error of its program."""
    faults = []
    contexts = []

    def opened(spans, *, jaeger=None, room=None, **context):
        reports = rebuild(spans, by="rollout")
        limits = {} if room is None else {"room": room}
        requests = {"agent": Requests(200, 3), "model": Requests(8, 3)}
        made = contents(reports, spans=len(spans), skipped=0, requests=requests, **limits)
        path = tmp_path / "page.html"
        path.write_text(document(made, title="A run <b>of</b> mine", made="today", jaeger=jaeger), "utf-8")
        contexts.append(browser.new_context(offline=True, **context))
        contexts[-1].set_default_timeout(PATIENCE)
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: said.type == "error" and faults.append(said.text))
        page.on("request", lambda asked: asked.url.startswith("file:") or faults.append(asked.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for one in contexts:
        one.close()
    assert not faults
