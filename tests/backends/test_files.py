"""Every file of `collector-config/` is accepted by its program, and speaks of nothing that does not exist."""

import json
import re
import subprocess
import sys

import pytest
import yaml
from opentelemetry.semconv.attributes import exception_attributes, service_attributes

from backends.programs import COLLECTOR, CONFIG, JAEGER, PROMTOOL
from gym_failures import kinds, semconv

COLLECTOR_FILES = ("agent.yaml", "gateway.yaml", "all-in-one.yaml")
DOCS = CONFIG.parent / "docs" / "how-to"
PAGES = (DOCS / "view-failures-in-jaeger.md", DOCS / "query-metrics-by-failure-kind.md")
NAMING = (*PAGES, DOCS / "respond-to-alerts.md")
TEXT_FILES = [
    path
    for path in sorted(CONFIG.rglob("*"))
    if path.suffix in {".yaml", ".yml", ".json", ".py", ".md"} and path.name != "builder.yaml"
]


def run(*command, cwd=CONFIG):
    """Run a program to its end and return what it said, failing the test with that when it fails."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("file", COLLECTOR_FILES)
def test_the_collector_accepts_its_files(file):
    """`otelcol validate` accepts each file as it is, with no variable set, also with TLS laid over it."""
    run(COLLECTOR.find(), "validate", f"--config={file}")
    run(COLLECTOR.find(), "validate", f"--config={file}", "--config=tls.yaml")


def test_the_collector_has_what_its_files_use():
    """The distribution that is built holds each part that a file uses, and no other that would have to be kept safe."""
    built = yaml.safe_load(run(COLLECTOR.find(), "components"))
    for section in ("receivers", "processors", "exporters", "connectors", "extensions"):
        used = {name.partition("/")[0] for file in COLLECTOR_FILES for name in load(file).get(section, ())}
        assert {part["name"] for part in built[section]} == used


def test_jaeger_accepts_its_file():
    """`jaeger validate` accepts the file as it is, with no variable set, also with TLS laid over it."""
    run(JAEGER.find(), "validate", "--config=jaeger.yaml")
    run(JAEGER.find(), "validate", "--config=jaeger.yaml", "--config=tls.yaml")


def test_prometheus_accepts_its_files():
    """`promtool check` accepts the configuration and the rules that it names."""
    run(PROMTOOL.find(), "check", "config", "prometheus/prometheus.yml")


RULE_TESTS = ("tests.yml", "tests-pipeline.yml")


@pytest.mark.parametrize("file", RULE_TESTS)
def test_the_rules_do_what_their_tests_say(file):
    """`promtool test` passes: the first failure of a kind, restarts, gaps, and each alert."""
    run(PROMTOOL.find(), "test", "rules", file, cwd=CONFIG / "prometheus")


def test_every_alert_has_a_unit_test():
    """No alert is shipped that was never seen to fire."""
    alerts = {rule["alert"] for group in load("prometheus/alerts.yml")["groups"] for rule in group["rules"]}
    fired = {
        case["alertname"]
        for file in RULE_TESTS
        for group in load(f"prometheus/{file}")["tests"]
        for case in group.get("alert_rule_test", ())
        if case["exp_alerts"]
    }
    assert alerts == fired


def test_the_dashboard_is_current():
    """The committed dashboard is what its generator makes."""
    run(sys.executable, CONFIG / "grafana" / "dashboard.py", "--check")


def load(name):
    """Return a YAML file of `collector-config/`."""
    return yaml.safe_load((CONFIG / name).read_text())


SMALLER_ON_A_LAPTOP = {"memory_limiter", "otlp_grpc/jaeger", "prometheus_remote_write"}


def test_files_that_are_copied_apart_say_the_same():
    """What two files have in common is equal in both, because a Collector's file cannot include another."""
    agent, gateway, laptop = (load(name) for name in COLLECTOR_FILES)
    for section in ("processors", "connectors", "exporters"):
        for one, other in ((agent, laptop), (gateway, laptop), (agent, gateway)):
            common = one.get(section, {}).keys() & other.get(section, {}).keys()
            for name in common - SMALLER_ON_A_LAPTOP:
                assert one[section][name] == other[section][name], name


def test_what_prometheus_would_refuse_is_not_sent():
    """Between the oldest and the newest sample that pass lies less than Prometheus accepts."""
    ((behind, ahead),) = load("gateway.yaml")["processors"]["filter/too_old"]["metrics"].values()
    minutes = [int(re.search(r'Duration\("(\d+)m"\)', condition)[1]) for condition in (behind, ahead)]
    window = load("prometheus/prometheus.yml")["storage"]["tsdb"]["out_of_order_time_window"]
    assert (minutes, window) == ([55, 4], "1h")


@pytest.mark.parametrize("file", ["gateway.yaml", "all-in-one.yaml"])
def test_the_counted_kinds_are_the_vocabulary(file):
    """The kinds that keep their names in the Collector's count are the registered ones, and the server's own."""
    statements = [
        statement
        for group in load(file)["processors"]["transform/labels"]["trace_statements"]
        for statement in group["statements"]
        if "_OTHER" in statement
    ]
    (statement,) = statements
    own, registered = re.findall(r'IsMatch\([^,]+, "([^"]+)"\)', statement)
    assert set(registered.removeprefix("^(").removesuffix(")$").split("|")) == kinds.FAILURE_KINDS
    assert own == f"^{kinds._NAMESPACED_PATTERN.pattern}$"


ATTRIBUTES = {value for name, value in vars(semconv).items() if name.isupper() and isinstance(value, str)}
METRICS = {value for name, value in vars(semconv).items() if name.startswith("METRIC_")} - {semconv.METRIC_REASON}
INTERNAL_MARK = "gym.collector.failing"
"""Set and removed again within the gateway; `test_the_mark_stays_inside` shows that it does not leave."""
FOREIGN_ATTRIBUTES = {
    exception_attributes.EXCEPTION_MESSAGE,
    exception_attributes.EXCEPTION_STACKTRACE,
    exception_attributes.EXCEPTION_TYPE,
    service_attributes.SERVICE_NAME,
}
NAMESPACES = {metric.removesuffix(".events") for metric in METRICS}
SPELLED = re.compile(
    r"(?<![\w./${-])(?:failure|exception|nemo\.gym|gym\.(?:failure|request|collector))s?\.[a-z_]+(?:\.[a-z_]+)*"
)
IN_PROMETHEUS = re.compile(r"(?<![\w:./-])(?:gym_(?:failures|requests)|failure)_[a-z_]+(?![\w:]*\()")


@pytest.mark.parametrize("path", [*TEXT_FILES, *NAMING], ids=lambda path: path.name)
def test_every_name_exists(path):
    """Each attribute, event, metric and label of ours that a file names is one that the package writes."""
    text = path.read_text()
    dotted = set(SPELLED.findall(text))
    connector_calls = {f"{namespace}.calls" for namespace in NAMESPACES}
    assert dotted <= ATTRIBUTES | FOREIGN_ATTRIBUTES | NAMESPACES | connector_calls | {INTERNAL_MARK}
    labels = {attribute.replace(".", "_") for attribute in ATTRIBUTES}
    series = {f"{metric.replace('.', '_')}_total" for metric in METRICS}
    assert set(IN_PROMETHEUS.findall(text)) <= labels | series


def test_the_links_of_jaegers_pages_lead_somewhere():
    """Each link of a tag is filled from that tag or from the trace, and the dashboard that it names is ours."""
    ui = json.loads((CONFIG / "jaeger-ui.json").read_text())
    board = json.loads((CONFIG / "grafana" / "gym-failures.json").read_text())
    for pattern in ui["linkPatterns"]:
        filled = set(re.findall(r"#\{([^}]+)\}", pattern["url"] + pattern["text"]))
        assert filled <= {pattern["key"], "trace.traceID"}
        assert pattern["key"] in ATTRIBUTES
        if ":3000/d/" in pattern["url"]:
            assert re.search(r"/d/([\w-]+)", pattern["url"])[1] == board["uid"]
            chosen = set(re.findall(r"var-(\w+)=", pattern["url"]))
            assert chosen <= {variable["name"] for variable in board["templating"]["list"]}


def test_every_variable_is_documented():
    """Each variable that a configuration reads stands in the README, and the README names no other."""
    read = {
        variable
        for name in (*COLLECTOR_FILES, "jaeger.yaml", "tls.yaml")
        for variable in re.findall(r"\$\{env:(\w+)", (CONFIG / name).read_text())
    }
    documented = set(re.findall(r"GYM_(?:COLLECTOR|JAEGER|TLS)_\w+", (CONFIG / "README.md").read_text()))
    assert documented == read


def test_no_file_needs_the_tree():
    """The files may be copied anywhere: none names a path of this repository."""
    for path in TEXT_FILES:
        if path.suffix in {".yaml", ".yml", ".json"}:
            assert "../" not in path.read_text()
