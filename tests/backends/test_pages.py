"""What the how-to pages, the dashboard and the alerts ask of Prometheus and Jaeger is answered."""

import json
import re

import pytest

from backends.programs import CONFIG
from backends.stack import Collector, Prometheus
from gym_failures import kinds
from gym_failures.ids import new_id
from gym_failures.records import FailureEvent
from tests.backends.fleet import failing, retried, running
from tests.backends.test_files import PAGES
from tests.backends.test_search import trace_ids

IN_JAEGER, IN_PROMETHEUS = (page.read_text() for page in PAGES)
QUERIES = dict(re.findall(r"^## \d+\. (.+?)\n\n```promql\n(.*?)```", IN_PROMETHEUS, re.DOTALL | re.MULTILINE))
SEARCHES = re.findall(r"^\| `(\w+)` \| `([^`]+=[^`]+)` \|", IN_JAEGER, re.MULTILINE)

QUOTA, DOWN, OWN, HEALTHY, RECOVERED = 12, 8, 4, 16, 3
FAILED = QUOTA + DOWN + OWN
ROOTS = {kinds.PROVIDER_QUOTA_EXHAUSTED: QUOTA, kinds.PROVIDER_UNAVAILABLE: DOWN, "_OTHER": OWN}
UPPER = {"agent_run_error": FAILED, "agent_request_failed": FAILED}
DROPS = {kinds.TRANSPORT_PEER_DROP: RECOVERED + DOWN}
ALL = {**ROOTS, **UPPER, **DROPS}
BY_NAME = {("Own kind" if kind == "_OTHER" else kind): count for kind, count in ALL.items()}

ANSWERS = {
    "What failed, and how often?": ("failure_kind", ALL),
    "What were the root causes?": ("failure_kind", {**ROOTS, **DROPS}),
    "What failed within the last hour?": ("failure_kind", ALL),
    "What failed in a run that is over?": ("failure_kind", ALL),
    "Which servers fail most?": (
        "service_name",
        {"model": FAILED + DOWN + RECOVERED, "agent": FAILED, "collection": FAILED},
    ),
    "In which part of an episode does it fail?": ("failure_stage", {"verification": RECOVERED}),
    "How many requests ended in a failure, and in which?": (
        "failure_kind",
        {**ROOTS, **UPPER},
    ),
    "What share of its requests did each server fail within the last hour?": (
        "service_name",
        dict.fromkeys(("model", "agent", "collection"), FAILED / (FAILED + HEALTHY + RECOVERED)),
    ),
    "Does a server report kinds that nobody registered?": ("service_name", {"model": OWN}),
    "Do the spans tell the same story as the counters?": ("failure_kind", dict.fromkeys(ALL, 0)),
}


def recovered(log):
    """Observe a failed attempt while verifying, and answer well all the same."""
    log.observe_failure(
        FailureEvent(event_id=new_id(), boundary="model", failure_kind=kinds.TRANSPORT_PEER_DROP, stage="verification")
    )


@pytest.fixture(scope="module")
def prometheus_of_one_run(tmp_path_factory, jaeger, agent, gateway):
    """Run a Prometheus that knows one run of one fleet, and scrapes every program that the tests run."""
    folder = tmp_path_factory.mktemp("pages")
    with (
        Prometheus(folder) as alone,
        Collector("all-in-one.yaml", folder, to={"JAEGER": jaeger.grpc, "PROMETHEUS": alone.write_url}) as laptop,
        running(laptop.http, None) as fleet,
    ):
        alone.scrape(collectors=[agent.telemetry, gateway.telemetry, laptop.telemetry], jaeger=jaeger.targets)
        for fail, times in (
            (failing(kinds.PROVIDER_QUOTA_EXHAUSTED, http_status=429), QUOTA),
            (retried, DOWN),
            (failing("Own kind"), OWN),
            (recovered, RECOVERED),
            (None, HEALTHY),
        ):
            for number in range(times):
                fleet.rollout(fail, rollout_id=f"r{number:02}")
        fleet.flush()
        yield alone


def test_there_are_ten_questions_and_each_has_its_answer_here():
    """The page asks ten questions, and no answer below is of a question that the page does not ask."""
    assert list(QUERIES) == list(ANSWERS)
    assert len(QUERIES) == 10


@pytest.mark.parametrize("question", QUERIES)
def test_the_page_of_queries(question, prometheus_of_one_run, eventually):
    """Each query of the page gives the answer that is known, because the failures were made on purpose."""
    label, expected = ANSWERS[question]

    def answer():
        sums = {}
        for labels, value in prometheus_of_one_run.query(QUERIES[question]):
            sums[labels[label]] = sums.get(labels[label], 0) + value
        return sums

    eventually(answer, pytest.approx(expected))


@pytest.mark.parametrize(("service", "tags"), SEARCHES, ids=lambda text: text)
@pytest.mark.usefixtures("prometheus_of_one_run")
def test_the_page_of_searches(service, tags, jaeger, eventually):
    """Each search of the page finds traces at the service that it names."""
    wanted = dict(tag.split("=", 1) for tag in tags.split())
    eventually(lambda: bool(trace_ids(jaeger.find(service, tags=wanted))), expected=True)


BOARD = json.loads((CONFIG / "grafana" / "gym-failures.json").read_text())
PANELS = {panel["title"]: target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())}
GRAFANA = {"$service": ".*", "$kind": ".*", "$__rate_interval": "1m", "$__range": "1h"}
"""What Grafana puts in place of its variables."""
EMPTY_WHEN_ALL_IS_WELL = {"Parts of failures dropped by servers", "Reports refused by servers"}


@pytest.mark.parametrize("panel", PANELS)
def test_the_dashboard(panel, prometheus_of_one_run, eventually):
    """Each query of the dashboard is answered with data, but for those of what went wrong on the way."""
    expression = PANELS[panel]
    for variable, value in GRAFANA.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression
    eventually(lambda: bool(prometheus_of_one_run.query(expression)), expected=panel not in EMPTY_WHEN_ALL_IS_WELL)


@pytest.mark.parametrize("name", ["service", "kind"])
def test_the_choices_of_the_dashboard(name, prometheus_of_one_run, eventually):
    """The label that a variable of the dashboard lists exists on the series that it names."""
    (variable,) = (one for one in BOARD["templating"]["list"] if one["name"] == name)
    metric, label = re.fullmatch(r"label_values\(([\w:]+), (\w+)\)", variable["query"]).groups()
    eventually(lambda: bool(prometheus_of_one_run.query(f'count({metric}{{{label}!=""}}) > 0')), expected=True)


def test_no_rule_fails_on_real_series(prometheus_of_one_run, eventually):
    """Prometheus evaluates every rule without an error, on series as the programs really write them."""

    def health():
        return {rule["health"] for group in prometheus_of_one_run.rules() for rule in group["rules"]}

    eventually(health, {"ok"})


def test_new_kinds_raise_the_alert_for_them(prometheus_of_one_run, eventually):
    """The first failures of each kind raise the alert of a new kind, by the name that an unregistered one has too."""

    def firing():
        return {
            alert["labels"]["failure_kind"]
            for group in prometheus_of_one_run.rules()
            for rule in group["rules"]
            if rule["name"] == "GymNewFailureKind"
            for alert in rule["alerts"]
        }

    # Other tests store kinds in the same Jaeger.
    eventually(lambda: BY_NAME.keys() - firing(), set())
    assert "_OTHER" not in firing()


def test_what_jaeger_stores_is_counted(prometheus_of_one_run, eventually):
    """Jaeger's own count of stored failures names each by its own kind, not by that of the span that it is on."""
    stored = (
        'sum by (failure_kind) (gym_failures_stored_events_total{service_name=~"model|agent|collection", '
        'failure_origin="local", failure_kind!="none"})'
    )
    eventually(lambda: prometheus_of_one_run.by("failure_kind", stored), BY_NAME)


def test_jaeger_takes_the_links(jaeger):
    """What `jaeger-ui.json` says of links and menus is in the page that Jaeger gives to a browser."""
    given = re.search(r"^\s*(?:const )?JAEGER_CONFIG = (\{.*\});$", jaeger.page(), re.MULTILINE)[1]
    assert json.loads(given) == json.loads((CONFIG / "jaeger-ui.json").read_text())


def test_jaegers_monitor_page_has_its_numbers(jaeger, agent, eventually):
    """Jaeger's Monitor page reads the gateway's span metrics: calls and errors by service."""
    with running(agent.http, "monitor") as fleet:
        for _ in range(3):
            fleet.rollout(failing(kinds.CANCELLED))
        fleet.flush()
        eventually(lambda: bool(jaeger.monitored("agent-monitor")), expected=True)
