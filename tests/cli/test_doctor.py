"""What `doctor` finds in an environment."""

import json
import socket
import sys

import pytest

from gym_failures import limits, semconv
from gym_failures.attributes import KEYS, to_attributes
from gym_failures.cli.checkup.finding import Level
from gym_failures.cli.checkup.packages import packages
from gym_failures.cli.checkup.whole import checkup
from gym_failures.records import FailureEvent
from tests.cli.receiving import receiving

FREE = "http://127.0.0.1:1"
"""An address at which nobody listens."""
GROUP = "http://224.0.0.1"
"""An address at which nobody can listen: TCP connects to no group of hosts (RFC 1122, section 4.2.3.10)."""


@pytest.fixture
def receiver(monkeypatch):
    """Give what takes spans and counts, and the time that this may take on a busy machine."""
    monkeypatch.setattr(limits, "DOCTOR_SECONDS", 30.0)
    with receiving() as running:
        yield running


@pytest.fixture
def listening(receiver):
    """Give its URL."""
    return receiver.url


def found(**environ):
    """Return the levels of what is found, without what is well, by what they are about; None unsets a variable."""
    findings: dict[str, list[str]] = {}
    said = {"GYM_FAILURES_BOUNDARY": "agent", **environ}
    for finding in checkup({name: value for name, value in said.items() if value is not None}):
        assert (finding.fix is None) is (finding.level is Level.OK)
        if finding.level is not Level.OK:
            findings.setdefault(finding.about, []).append(finding.level.value)
    return findings


def test_an_environment_that_is_well(listening):
    """Where spans and counts go somewhere, and nothing is cut, there is nothing to mend."""
    assert found(OTEL_EXPORTER_OTLP_ENDPOINT=listening) == {}


def test_an_environment_without_variables():
    """Where nothing is said, spans go to files; only the metric is missing."""
    assert found() == {"OTEL_METRICS_EXPORTER": ["warning"]}


CASES = {
    "all is off": ({"GYM_FAILURES_ENABLED": "false"}, {"GYM_FAILURES_ENABLED": ["problem"]}),
    "a setting that cannot be used": ({"GYM_FAILURES_REPLY_TO": "some"}, {"GYM_FAILURES_REPLY_TO": ["problem"]}),
    "a setting that is misspelt": ({"GYM_FAILURES_ENABELD": "1"}, {"GYM_FAILURES_ENABELD": ["warning"]}),
    "nobody knows what the servers are": ({"GYM_FAILURES_BOUNDARY": None}, {"GYM_FAILURES_BOUNDARY": ["warning"]}),
    "NeMo Gym says what the server is": (
        {
            "GYM_FAILURES_BOUNDARY": None,
            "NEMO_GYM_CONFIG_PATH": "policy_model",
            "NEMO_GYM_CONFIG_DICT": "policy_model:\n  responses_api_models:\n    entrypoint: app.py\n",
        },
        {},
    ),
    "nobody is believed": ({"GYM_FAILURES_ACCEPT_FROM": "none"}, {"GYM_FAILURES_ACCEPT_FROM": ["warning"]}),
    "everybody is believed": ({"GYM_FAILURES_ACCEPT_FROM": "all"}, {}),
    "only others are believed": ({"GYM_FAILURES_ACCEPT_FROM": "a, b"}, {"GYM_FAILURES_ACCEPT_FROM": ["warning"]}),
    "others are believed too": ({"GYM_FAILURES_ACCEPT_FROM": "default, b"}, {}),
    "the SDK is off": ({"OTEL_SDK_DISABLED": "True"}, {"OTEL_SDK_DISABLED": ["problem"]}),
    "an instrumentation is off": (
        {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "redis, fastapi"},
        {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": ["problem"]},
    ),
    "another instrumentation is off": ({"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "redis"}, {}),
    "ids are cut": ({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "31"}, {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": ["problem"]}),
    "ids on spans are cut": (
        {"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "0"},
        {"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": ["problem"]},
    ),
    "reasons are cut": (
        {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "32"},
        {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": ["warning"]},
    ),
    "reasons are no attributes of spans": ({"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "128"}, {}),
    "kinds on spans are cut": (
        {"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "100"},
        {"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": ["warning"]},
    ),
    "nothing is cut": ({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": str(limits.REASON_LENGTH)}, {}),
    "a limit that is empty": ({"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": " "}, {}),
    "a limit that is none": (
        {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "x"},
        {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": ["problem"]},
    ),
    "fields are dropped": (
        {"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": str(len(KEYS) - 1)},
        {"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": ["warning"]},
    ),
    "ids are dropped": (
        {"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": "3"},
        {"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": ["problem"]},
    ),
    "own failures are dropped": (
        {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "2"},
        {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": ["problem"]},
    ),
    "rollouts are dropped": (
        {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "31"},
        {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": ["warning"]},
    ),
    "own failures and more are dropped": (
        {"OTEL_ATTRIBUTE_COUNT_LIMIT": "7"},
        {"OTEL_ATTRIBUTE_COUNT_LIMIT": ["problem"]},
    ),
    "something is dropped": ({"OTEL_ATTRIBUTE_COUNT_LIMIT": "8"}, {"OTEL_ATTRIBUTE_COUNT_LIMIT": ["warning"]}),
    "events have room, which is what is for all but spans": (
        {"OTEL_ATTRIBUTE_COUNT_LIMIT": str(len(KEYS)), "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "32"},
        {},
    ),
    "events have none, which is what is for all but spans": (
        {"OTEL_ATTRIBUTE_COUNT_LIMIT": "3", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "32"},
        {"OTEL_ATTRIBUTE_COUNT_LIMIT": ["problem"]},
    ),
    "spans have little, which is what is for all but events": (
        {"OTEL_ATTRIBUTE_COUNT_LIMIT": "31", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": "128"},
        {"OTEL_ATTRIBUTE_COUNT_LIMIT": ["warning"]},
    ),
    "what is for all is for none": (
        {
            "OTEL_ATTRIBUTE_COUNT_LIMIT": "5",
            "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": "unset",
            "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "128",
        },
        {},
    ),
    "a limit of too many digits": (
        {"OTEL_SPAN_EVENT_COUNT_LIMIT": "9" * 5_000},
        {"OTEL_SPAN_EVENT_COUNT_LIMIT": ["problem"]},
    ),
    "all has room": (
        {
            "OTEL_ATTRIBUTE_COUNT_LIMIT": "32",
            "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": str(len(KEYS)),
            "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "32",
        },
        {},
    ),
    "spans have no events": ({"OTEL_SPAN_EVENT_COUNT_LIMIT": "0"}, {"OTEL_SPAN_EVENT_COUNT_LIMIT": ["problem"]}),
    "nothing is sampled": ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, {"OTEL_TRACES_SAMPLER": ["problem"]}),
    "everything is sampled": ({"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, {}),
    "some is sampled": (
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"},
        {"OTEL_TRACES_SAMPLER_ARG": ["warning"]},
    ),
    "a share that is none": (
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "some"},
        {"OTEL_TRACES_SAMPLER_ARG": ["problem"]},
    ),
    "no trace goes on": ({"OTEL_PROPAGATORS": "baggage"}, {"OTEL_PROPAGATORS": ["problem"]}),
    "a propagator that is not there": (
        {"OTEL_PROPAGATORS": "tracecontext,nobodys"},
        {"OTEL_PROPAGATORS": ["problem"]},
    ),
    "ours": ({"OTEL_PROPAGATORS": "tracecontext,baggage,gym_failures"}, {}),
    "a provider that is not there": (
        {"OTEL_PYTHON_TRACER_PROVIDER": "nobodys", "OTEL_PYTHON_METER_PROVIDER": "sdk_meter_provider"},
        {"OTEL_PYTHON_TRACER_PROVIDER": ["problem"]},
    ),
    "a pattern that is none": (
        {"OTEL_PYTHON_EXCLUDED_URLS": "((", "OTEL_PYTHON_FASTAPI_EXCLUDED_URLS": "health,.*"},
        {"OTEL_PYTHON_EXCLUDED_URLS": ["problem"]},
    ),
    "spans go nowhere": ({"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_TRACES_EXPORTER": ["problem"]}),
    "counts go nowhere": ({"OTEL_METRICS_EXPORTER": "none"}, {"OTEL_METRICS_EXPORTER": ["warning"]}),
    "an exporter that is not there": ({"OTEL_TRACES_EXPORTER": "zipkin"}, {"OTEL_TRACES_EXPORTER": ["problem"]}),
    "standard output": ({"OTEL_TRACES_EXPORTER": "console"}, {}),
    "nobody listens": ({"OTEL_EXPORTER_OTLP_ENDPOINT": FREE}, {"OTEL_EXPORTER_OTLP_ENDPOINT": ["problem"]}),
    "nobody listens for spans": (
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{FREE}/v1/traces"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ["problem"]},
    ),
    "no URL": (
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "127.0.0.1:4318"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ["problem"]},
    ),
    "a port that is none": (
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:port"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ["problem"]},
    ),
    "the other protocol's port": (
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{GROUP}:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ["warning", "problem"]},
    ),
    "a folder of nobody": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "", "GYM_FAILURES_TRACES": "/dev/null/traces"},
        {"/dev/null/traces": ["problem"], "OTEL_METRICS_EXPORTER": ["warning"]},
    ),
}


@pytest.mark.parametrize(("environ", "findings"), CASES.values(), ids=CASES)
def test_findings(listening, environ, findings):
    """Each thing that loses failures is found, and named by its variable with what to do; nothing else is."""
    assert found(**{"OTEL_EXPORTER_OTLP_ENDPOINT": listening, **environ}) == findings


NOT_FOUND, DENIED, FINE = (404, b""), (401, b""), (200, b"")
JAEGER = {"OTEL_METRICS_EXPORTER": ["warning"]}

ANSWERS = {
    "a Jaeger alone": ("OTEL_EXPORTER_OTLP_ENDPOINT", "", [FINE, NOT_FOUND], JAEGER),
    "no place for spans": ("OTEL_EXPORTER_OTLP_ENDPOINT", "", [NOT_FOUND, FINE], {"OTEL_TRACES_EXPORTER": ["problem"]}),
    "a wrong path": (
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "/spans",
        [NOT_FOUND],
        {"OTEL_METRICS_EXPORTER": ["warning"], "OTEL_TRACES_EXPORTER": ["problem"]},
    ),
    "who asks has to say who they are": ("OTEL_EXPORTER_OTLP_ENDPOINT", "", [DENIED, DENIED], {}),
}


@pytest.mark.parametrize(("variable", "path", "answers", "findings"), ANSWERS.values(), ids=ANSWERS)
def test_what_a_receiver_does_not_take(receiver, variable, path, answers, findings):
    """Whoever listens is sent nothing at all, once for spans and once for counts, and says where they are not taken."""
    receiver.answers.extend(answers)
    assert found(**{variable: receiver.url + path}) == findings
    asked = [asked for asked, _, _ in receiver.requests]
    assert asked == ([path] if path else ["/v1/traces", "/v1/metrics"])
    assert {body for _, _, body in receiver.requests} == {b""}


def test_a_receiver_that_says_nothing(monkeypatch):
    """Who takes connections and answers nothing is waited for no longer than a moment, and nothing is said of it."""
    monkeypatch.setattr(limits, "DOCTOR_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert found(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{silent.getsockname()[1]}") == {}


def test_who_is_believed_by_name():
    """The hosts that are believed besides this machine and private addresses are all named."""
    environ = {
        "GYM_FAILURES_ACCEPT_FROM": "default, judge.example",
        "NEMO_GYM_CONFIG_DICT": "policy:\n  responses_api_models:\n    vllm_model:\n      host: policy-model\n",
    }
    (said,) = (one.says for one in checkup(environ) if one.about == "GYM_FAILURES_ACCEPT_FROM")
    assert said.endswith("by name of judge.example, policy-model")


def test_a_missing_package_is_found(monkeypatch):
    """Without the SDK nothing is traced; the extra that brings it is named."""
    monkeypatch.setitem(packages.__globals__, "find_spec", lambda _: None)
    missing = {finding.about: (finding.level, finding.fix) for finding in packages() if finding.fix}
    assert missing["opentelemetry.sdk"] == (Level.PROBLEM, "pip install 'gym-failures[sdk]'")
    assert missing["wrapt"] == (Level.WARNING, "pip install 'gym-failures[instrument]'")


LENS = {
    "nemo/lens/__init__.py": "NemoLensConfig = TelemetryHandle = get_meter = get_tracer = handle = setup_telemetry = 0",
    "nemo/lens/groups.py": "SpanRegistry = 0",
    "nemo/lens/semconv.py": "NV_DL_RANK = NV_DL_WORLD_SIZE = 0",
}


@pytest.mark.parametrize(
    ("installed", "environ", "said"),
    [
        (LENS, {"NEMO_GYM_OTEL_ENABLED": "1"}, {}),
        (LENS, {"NEMO_LENS_ENABLED": "true"}, {}),
        (LENS | {"nemo/lens/groups.py": ""}, {"NEMO_GYM_OTEL_ENABLED": "1"}, {"NEMO_GYM_OTEL_ENABLED": ["warning"]}),
        (LENS | {"nemo/lens/groups.py": "1 / 0"}, {"NEMO_LENS_ENABLED": "ON"}, {"NEMO_LENS_ENABLED": ["warning"]}),
        ({}, {"NEMO_GYM_OTEL_ENABLED": "1"}, {"NEMO_GYM_OTEL_ENABLED": ["warning"]}),
        ({}, {"NEMO_GYM_OTEL_ENABLED": "0", "NEMO_LENS_ENABLED": "1"}, {}),
        ({}, {}, {}),
    ],
    ids=["works", "works by lens", "a name is missing", "it breaks", "no lens", "off", "not asked for"],
)
def test_telemetry_of_nemo_gym(tmp_path, monkeypatch, installed, environ, said):
    """Telemetry that NeMo Gym is told to make, and silently makes none of, is found."""
    for path, text in (installed | {"nemo_gym/__init__.py": ""}).items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert found(OTEL_TRACES_EXPORTER="console", OTEL_METRICS_EXPORTER="console", **environ) == said
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in {"nemo", "nemo_gym"}]:
            del sys.modules[name]


def test_the_command(command, monkeypatch, listening):
    """`doctor` prints each finding with its mark, and ends with status 1 if there is a problem."""
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", listening)
    well = command("doctor")
    assert (well.status, well.errors) == (0, "")
    assert well.output.endswith("\nno problems\n")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    ill = command("doctor")
    assert (ill.status, ill.errors) == (1, "")
    assert (
        "✗ OTEL_SDK_DISABLED: switches off all spans and counts\n  to mend it: unset OTEL_SDK_DISABLED\n" in ill.output
    )
    assert ill.output.endswith("\n1 problem\n")


def test_findings_as_json(command, monkeypatch):
    """The JSON of `doctor` has every finding with its level, and how many are problems."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", FREE)
    document = json.loads(command("doctor", "--format", "json").output)
    assert document["problems"] == 2
    assert {
        "level": "problem",
        "about": "OTEL_SDK_DISABLED",
        "says": "switches off all spans and counts",
        "fix": "unset OTEL_SDK_DISABLED",
    } in document["findings"]


def test_what_is_written_last():
    """What tells a failure apart and links it is what is dropped last of an event."""
    event = FailureEvent(event_id="a", failure_kind="k", boundary="agent", cause_id="b", failure_reason="r")
    last = [*to_attributes(event, root=False)][-limits.LAST_OF_AN_EVENT :]
    assert set(last) == {semconv.FAILURE_CAUSE_ID, semconv.FAILURE_BOUNDARY, semconv.FAILURE_KIND, semconv.FAILURE_ID}


def test_keys_are_all_that_an_event_can_have():
    """The limit that is warned of counts the attributes of every boundary."""
    assert {semconv.FAILURE_ID, semconv.SANDBOX_ID, semconv.MODEL_UPLOAD_COMPLETE, semconv.FAILURE_LATE} < set(KEYS)
