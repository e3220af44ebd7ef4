"""`make demo-jaeger`: the demo's failures in a real Jaeger and Prometheus, until Ctrl-C ends all."""

import os
import re
import signal
import subprocess
import sys
import urllib.parse

import pytest

from backends.processes import answers, get
from backends.programs import ROOT

LAST_LINE = "Ctrl-C ends all of it.\n"
FAILURES = 92
"""As many as the demo has in every run; tests/demo has them by kind and boundary."""


@pytest.fixture(scope="module")
def demo():
    """Run it until it says that it waits; give what it said, then press Ctrl-C."""
    with subprocess.Popen(
        [sys.executable, "-m", "backends.demo"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        lines = []
        for line in running.stdout:
            lines.append(line)
            if line == LAST_LINE:
                break
        said = "".join(lines)
        assert said.endswith(LAST_LINE), said
        yield said
        running.send_signal(signal.SIGINT)
        assert running.stdout.read() == "ended\n"
    assert running.returncode == 0
    assert not any(answers(url) for url in re.findall(r"^(?:Jaeger|Prometheus) +(http\S+)", said, re.MULTILINE))


def test_every_link_leads_to_a_page(demo):
    """Each link that is printed is answered by the program that it names."""
    links = re.findall(r"^ +(http://\S+)$", demo, re.MULTILINE)
    assert len(links) == 6
    for link in links:
        with get(link) as answer:
            assert answer.status == 200


def test_every_search_finds_traces(demo):
    """Each search that a link opens finds traces of the demo in Jaeger."""
    searches = re.findall(r"^ +(http://\S+)/(?:search|api/traces)\?(\S+)$", demo, re.MULTILINE)
    assert len(searches) == 3
    for jaeger, query in searches:
        with get(f"{jaeger}/api/traces?{query}") as answer:
            assert b'"traceID"' in answer.read(), urllib.parse.unquote(query)


def test_both_ways_of_counting_agree(demo):
    """What the servers counted of themselves is what the Collector counted out of their spans."""
    _, counted, _, of_spans = re.split(r"^  .*: sum by .*$", demo, flags=re.MULTILINE)
    counts = [set(re.findall(r"^ +(\d+)  (\S+)$", part, re.MULTILINE)) for part in (counted, of_spans)]
    server_counts, span_counts = counts
    assert sum(int(number) for number, _ in server_counts) == FAILURES
    assert server_counts == span_counts
