"""The demo against a real Jaeger, Collector and Prometheus: `python -m backends.demo`, ended by Ctrl-C."""

import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from backends.processes import ProcessError
from backends.programs import MissingProgramError
from backends.stack import Collector, Jaeger, Prometheus

COUNTED_WITHIN: Final = 30.0
"""Longest time until Prometheus has the counts of a run that is over, in seconds."""
SETTLED_AFTER: Final = 3.0
"""Time in which counts that are still on their way would change, in seconds; three times what the Collector waits."""

SEARCHES: Final = (
    ("agent", "failure.kind", "agent_run_error", "rollouts that the agent's run failed"),
    ("model", "failure.kind", "provider_quota_exhausted", "where a provider's quota was used up"),
    ("model", "error", "true", "every failed request of the model server"),
)
QUERIES: Final = (
    ("sum by (failure_kind) (last_over_time(gym_failures_total[1h]))", "failures by kind"),
    ('sum by (failure_kind) (last_over_time(gym_failures_total{failure_root="true"}[1h]))', "root causes by kind"),
    (
        'sum by (failure_kind) (last_over_time(gym_failures_span_events_total{failure_origin="local"}[1h]))',
        "the same failures, counted by the Collector out of spans",
    ),
)


class Stack(NamedTuple):
    """What runs."""

    jaeger: Jaeger
    prometheus: Prometheus
    collector: Collector


@contextmanager
def running(folder: Path) -> Iterator[Stack]:
    """Run all three on the ports that people know, or on others where those are taken."""
    with (
        Prometheus(folder, usual_ports=True) as prometheus,
        Jaeger(folder, prometheus=prometheus, usual_ports=True) as jaeger,
        Collector(
            "all-in-one.yaml",
            folder,
            to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url},
            usual_ports=True,
        ) as collector,
    ):
        prometheus.scrape(collectors=[collector.telemetry], jaeger=jaeger.targets)
        yield Stack(jaeger, prometheus, collector)


def what_to_try(stack: Stack) -> Iterator[str]:
    """Yield the links and queries, with what Prometheus answers now."""
    yield f"Jaeger      {stack.jaeger.url}"
    # Built from its Go module Jaeger has no pages, only one that says so; its interface is complete.
    path = "api/traces" if "placeholder" in stack.jaeger.page() else "search"
    for service, tag, value, finds in SEARCHES:
        tags = urllib.parse.quote(f'{{"{tag}":"{value}"}}')
        yield f"  {finds}:"
        yield f"    {stack.jaeger.url}/{path}?lookback=1h&service={service}&tags={tags}"
    if path != "search":
        yield "  This Jaeger has no pages, so these links give JSON; with GYM_JAEGER_PAGES=<build of jaeger-ui> it has."
    yield f"Prometheus  {stack.prometheus.url}"
    for query, gives in QUERIES:
        yield f"  {gives}: {query}"
        yield f"    {stack.prometheus.url}/graph?g0.tab=1&g0.expr={urllib.parse.quote(query)}"
        for kind, count in sorted(stack.prometheus.by("failure_kind", query).items()):
            yield f"      {count:4.0f}  {kind}"
    yield f"Collector   {stack.collector.http} (OTLP over HTTP), {stack.collector.grpc} (gRPC): send your own there"


def wait_for_counts(stack: Stack) -> None:
    """Return once Prometheus has counts by both ways that grow no more, or when it is too late to wait."""
    deadline = time.monotonic() + COUNTED_WITHIN
    before: list[dict[str, float]] = []
    while time.monotonic() < deadline:
        now = [stack.prometheus.by("failure_kind", query) for query, _ in QUERIES]
        if all(now) and now == before:
            return
        before = now
        time.sleep(SETTLED_AFTER)


def main() -> None:
    """Start everything, run the demo into it, say what to try, and wait for Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    try:
        with tempfile.TemporaryDirectory(prefix="gym-failures-") as folder:
            print("starting Prometheus, Jaeger and a Collector", flush=True)
            with running(Path(folder)) as stack:
                demo = Path(sys.executable).with_name("gym-failures")
                failed = subprocess.run([demo, "demo", "--otlp", stack.collector.http], check=False).returncode
                if failed:
                    sys.exit(failed)
                wait_for_counts(stack)
                print(*what_to_try(stack), "Ctrl-C ends all of it.", sep="\n", flush=True)
                signal.pause()
    except (MissingProgramError, ProcessError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        print("ended", flush=True)


if __name__ == "__main__":
    main()
