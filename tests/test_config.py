"""The configuration: every field is checked when it is made, and a wrong one is named."""

import dataclasses
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import accepted, config, guard, limits, selfmetrics
from gym_failures.config import Config, ConfigError
from gym_failures.exceptions import GymFailuresError
from gym_failures.gym_configuration import hosts_in
from gym_failures.rules import Rule


def test_the_defaults_are_safe():
    """Without a word from the user: on, reasons in headers cut, secrets scrubbed, only near hosts believed."""
    made = Config()
    assert made.enabled
    assert made.scrub
    assert (made.header_reasons, made.span_reasons) == ("truncate:256", "full")
    assert (made.reply_to, made.accept_from, made.log_lines) == ("all", "default", "auto")
    assert made.header_budget == limits.HEADER_BUDGET


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("enabled", "yes"),
        ("enabled", 1),
        ("reply_to", "some"),
        ("reply_to", None),
        ("accept_from", 5),
        ("accept_from", None),
        ("accept_from", b"host"),
        ("accept_from", ["host", 5]),
        ("accept_from", ["all"]),
        ("accept_from", "https://host/"),
        ("accept_from", "host:8000"),
        ("accept_from", ["10.0.0.1/8"]),
        ("accept_from", ["*.example"]),
        ("accept_from", ""),
        ("header_reasons", "truncate:0"),
        ("header_reasons", "truncate:2001"),
        ("header_reasons", "truncate:-1"),
        ("header_reasons", "truncate:"),
        ("header_reasons", "full\n"),
        ("header_reasons", 256),
        ("span_reasons", "on"),
        ("span_reasons", None),
        ("scrub", None),
        ("scrubber", "a name"),
        ("header_budget", limits.HEADER_BUDGET_MIN - 1),
        ("header_budget", limits.HEADER_HARD_LIMIT + 1),
        ("header_budget", "2048"),
        ("header_budget", 2048.0),
        ("header_budget", True),
        ("waiting_after", -1),
        ("waiting_after", limits.WAITING_AFTER_MAX + 1),
        ("waiting_after", 1.5),
        ("waiting_after", True),
        ("log_lines", "sometimes"),
        ("rules", [Rule(types=("a.B",))]),
        ("rules", ("a.B",)),
    ],
)
def test_a_wrong_value_is_refused_by_name(field, value):
    """The error is a ValueError of ours that names the field."""
    with pytest.raises(ConfigError, match=f"^{field} must be ") as caught:
        Config(**{field: value})
    assert isinstance(caught.value, GymFailuresError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reply_to", "none"),
        ("reply_to", bool),
        ("accept_from", ()),
        ("accept_from", ("default", "model.example", "100.64.0.0/10", "[::1]", "::1")),
        ("accept_from", "one_host.local"),
        ("header_reasons", "truncate:1"),
        ("header_reasons", "truncate:2000"),
        ("span_reasons", "off"),
        ("scrubber", str.upper),
        ("header_budget", limits.HEADER_BUDGET_MIN),
        ("header_budget", limits.HEADER_HARD_LIMIT),
        ("waiting_after", 0),
        ("waiting_after", limits.WAITING_AFTER_MAX),
        ("log_lines", "never"),
        ("rules", (Rule(types=("a.B",)),)),
    ],
)
def test_a_right_value_is_taken(field, value):
    """The edges of every range, and each form that a field may have, are accepted as they are."""
    assert getattr(Config(**{field: value}), field) == value


def test_a_configuration_can_be_derived_from_another():
    """`dataclasses.replace` works, checks again and decides by the new hosts."""
    one = Config(accept_from="none")
    other = dataclasses.replace(one, accept_from="model.example")
    assert (one.accepts("http://model.example"), other.accepts("http://model.example")) == (False, True)
    with pytest.raises(ConfigError, match="log_lines"):
        dataclasses.replace(one, log_lines="")
    assert Config() == Config()


NEAR = [
    "http://localhost:8000/run",
    "http://LOCALHOST/",
    "http://localhost./",
    "http://server.localhost/",
    "http://127.0.0.1:1/",
    "http://127.8.9.1/",
    "http://[::1]:8080/",
    "http://[::ffff:127.0.0.1]/",
    "http://10.1.2.3/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://[fd00::1]/",
    "http://user@10.1.2.3/",
]
FAR = [
    "https://api.openai.com/v1",
    "http://8.8.8.8/",
    "http://172.32.0.1/",
    "http://169.254.169.254/latest/meta-data",
    "http://100.64.0.1/",
    "http://[2001:db8::1]/",
    "http://[fe80::1]/",
    "http://localhost.example.com/",
    "http://notlocalhost/",
    "http://127.0.0.1.example.com/",
    "http://10.1.2.3@example.com/",
    "http://0/",
]
NO_URL = [
    "",
    "localhost",
    "10.1.2.3",
    "http://",
    "http://[::1",
    "http://[x]/",
    "not a url",
    "http:///path",
    "\0",
    "\ud800",
]


@pytest.mark.parametrize("url", NEAR)
def test_near_hosts_are_believed_by_default(url):
    """Loopback and private addresses, however they are written, are where Gym's own servers run."""
    assert Config().accepts(url)


@pytest.mark.parametrize("url", FAR)
def test_other_hosts_are_not_believed_by_default(url):
    """A public or link-local host is not believed, also where its name or user looks like a near one."""
    assert not Config().accepts(url)


@pytest.mark.parametrize("url", NO_URL)
@pytest.mark.parametrize("accept_from", ["default", "none", ["model.example"]])
def test_what_is_no_url_is_not_believed(accept_from, url):
    """Text without a host is refused, not an error."""
    assert not Config(accept_from=accept_from).accepts(url)


@pytest.mark.parametrize(
    ("accept_from", "url", "expected"),
    [
        ("all", "https://api.openai.com/", True),
        ("none", "http://localhost/", False),
        (["Model.Example"], "http://MODEL.example:1/", True),
        (["model.example"], "http://localhost/", False),
        (["default", "model.example"], "http://localhost/", True),
        (["default", "model.example"], "http://model.example/", True),
        ({"100.64.0.0/10"}, "http://100.64.9.9/", True),
        (["2001:db8::/32"], "http://[2001:db8::7]/", True),
        (["8.8.8.8"], "http://8.8.8.8/", True),
        (["8.8.8.8"], "http://8.8.4.4/", False),
        ([], "http://localhost/", False),
        (lambda url: "model" in url, "http://model/", True),
        (lambda url: "model" in url, "http://other/", False),
    ],
)
def test_believes_the_hosts_that_were_named(accept_from, url, expected):
    """Hosts, addresses, networks, "default" among them, or a callable that gets the URL."""
    assert Config(accept_from=accept_from).accepts(url) is expected


CONFIGURATION = """\
head_server:
  host: head.example
  port: 11000
policy_model:
  responses_api_models:
    vllm_model:
      entrypoint: app.py
      host: policy-model
      port: 8000
      base_url: http://provider.example/v1
'1e3':
  resources_servers:
    judging:
      description: a text that is so long that YAML goes on
        host: text.example
      store:
        host: store.example
      mirrors:
      - host: mirror.example
      host: 'Judge.Default.svc.cluster.local.'
agent:
  responses_api_agents:
    simple_agent:
      host: ${default_host}
      entrypoint: app.py
environment:
  environment_servers:
    legacy_agent:
      host: 34.1.2.3
elsewhere:
  environment_servers:
    legacy_agent:
      host: ${oc.env:HOST}
nowhere:
  resources_servers:
    flaky:
      host: ''
database:
  postgres:
    main:
      host: database.example
default_host: node-17
host: whole.example
"""
IN_GYM = ["head.example", "policy-model", "judge.default.svc.cluster.local", "node-17", "34.1.2.3"]
NOT_IN_GYM = [
    "provider.example",
    "text.example",
    "store.example",
    "mirror.example",
    "database.example",
    "whole.example",
    "node-18",
    "34.1.2.4",
    "policy-model.example",
]


@pytest.mark.parametrize("host", IN_GYM)
def test_the_servers_of_nemo_gym_are_believed_by_default(host, monkeypatch):
    """The hosts in the configuration that NeMo Gym has handed to this process are believed, by name too."""
    assert not Config().accepts(f"http://{host}:8000/run")
    monkeypatch.setenv("NEMO_GYM_CONFIG_DICT", CONFIGURATION)
    assert Config().accepts(f"http://{host}:8000/run")
    assert Config(accept_from=["default", "other"]).accepts(f"http://{host}.:8000/run")
    assert not Config(accept_from=["other"]).accepts(f"http://{host}:8000/run")


@pytest.mark.parametrize("host", NOT_IN_GYM)
def test_other_hosts_in_its_configuration_are_not(host, monkeypatch):
    """Only where a server is counts: not who else is named in the configuration, in a text or by a reference."""
    monkeypatch.setenv("NEMO_GYM_CONFIG_DICT", CONFIGURATION)
    assert not Config().accepts(f"http://{host}/")


@given(st.text(alphabet="a: \n-'#$" + "{}") | st.text())
def test_any_text_in_the_place_of_the_configuration_is_read(text):
    """Whatever the environment holds there, nothing is raised, and no empty host comes of it."""
    assert "" not in hosts_in(text)


def test_servers_that_nemo_gym_finds_later_are_believed_by_default(monkeypatch):
    """What NeMo Gym's own client calls is believed in every configuration with the default, and in no other."""
    monkeypatch.setattr(accepted, "_learnt", set())
    default, named = Config(), Config(accept_from=["other"])
    accepted.learn_host("http://Later.example:8000")
    accepted.learn_host("no URL")
    url = "http://later.example:8001/run"
    assert (default.accepts(url), named.accepts(url), default.accepts("")) == (True, False, False)


@pytest.mark.parametrize(("reply_to", "expected"), [("all", True), ("none", False), (lambda scope: scope["x"], True)])
def test_replies_to_whom_it_was_told(reply_to, expected):
    """All, none, or those whose scope a callable agrees to; its answer is taken as true or false."""
    assert Config(reply_to=reply_to).replies_to({"x": "truthy"}) is expected


def test_a_callable_that_raises_says_no(monkeypatch):
    """A user's callable that breaks costs a report, never a request, and is counted."""
    reasons = []
    monkeypatch.setattr(selfmetrics, "internal_error", reasons.append)
    broken = Config(reply_to=lambda scope: scope["missing"], accept_from=lambda url: url.nothing)
    assert not broken.replies_to({})
    assert not broken.accepts("http://localhost/")
    assert reasons == ["reply_to", "accept_from"]


@pytest.mark.parametrize(
    ("variable", "value", "field", "expected"),
    [
        ("GYM_FAILURES_ENABLED", "false", "enabled", False),
        ("GYM_FAILURES_ENABLED", " 1 ", "enabled", True),
        ("GYM_FAILURES_ENABLED", "", "enabled", True),
        ("GYM_FAILURES_REPLY_TO", "NONE", "reply_to", "none"),
        ("GYM_FAILURES_ACCEPT_FROM", "all", "accept_from", "all"),
        ("GYM_FAILURES_ACCEPT_FROM", "default, a.b,10.0.0.0/8,", "accept_from", ("default", "a.b", "10.0.0.0/8")),
        ("GYM_FAILURES_HEADER_REASONS", "truncate:64", "header_reasons", "truncate:64"),
        ("GYM_FAILURES_SPAN_REASONS", "Off", "span_reasons", "off"),
        ("GYM_FAILURES_SCRUB", "no", "scrub", False),
        ("GYM_FAILURES_HEADER_BUDGET", "4096", "header_budget", 4096),
        ("GYM_FAILURES_WAITING_AFTER", "0", "waiting_after", 0),
        ("GYM_FAILURES_LOG_LINES", "always", "log_lines", "always"),
    ],
)  # fmt: skip
def test_a_variable_sets_its_field(variable, value, field, expected):
    """Each variable sets one field; an empty one counts as unset, as OpenTelemetry's do."""
    assert getattr(Config.from_env({variable: value, "OTHER": "x"}), field) == expected


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GYM_FAILURES_ENABLED", "maybe"),
        ("GYM_FAILURES_REPLY_TO", "some"),
        ("GYM_FAILURES_ACCEPT_FROM", "default,all"),
        ("GYM_FAILURES_ACCEPT_FROM", "http://host"),
        ("GYM_FAILURES_HEADER_REASONS", "truncate:9999"),
        ("GYM_FAILURES_SPAN_REASONS", "some"),
        ("GYM_FAILURES_SCRUB", "2"),
        ("GYM_FAILURES_HEADER_BUDGET", "two"),
        ("GYM_FAILURES_HEADER_BUDGET", "9000"),
        ("GYM_FAILURES_LOG_LINES", "yes"),
    ],
)
def test_a_wrong_variable_is_refused_by_name_and_value(variable, value):
    """The error names the variable and quotes its value, because nobody sees a field of it."""
    with pytest.raises(ConfigError) as caught:
        Config.from_env({variable: value})
    assert str(caught.value).startswith(f"{variable}={value!r}: ")


def test_the_environment_of_the_process_is_the_default(monkeypatch):
    """Without a mapping the variables of this process are read."""
    monkeypatch.setenv("GYM_FAILURES_LOG_LINES", "never")
    assert Config.from_env().log_lines == "never"


def test_overrides_win_over_the_environment():
    """A field given in code wins, even over a variable with a wrong value."""
    made = Config.from_env({"GYM_FAILURES_LOG_LINES": "wrong", "GYM_FAILURES_SCRUB": "false"}, log_lines="always")
    assert (made.log_lines, made.scrub) == ("always", False)


def test_a_misspelt_variable_is_warned_about_once(caplog, monkeypatch):
    """An unknown variable of ours is said once and changes nothing; those of others are none of our business."""
    monkeypatch.setattr(guard, "_said", {})
    for _ in range(3):
        assert Config.from_env({"GYM_FAILURES_LOGLINES": "always", "OTEL_X": "y"}) == Config()
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert lines == ["unknown environment variable GYM_FAILURES_LOGLINES is ignored"]


def test_every_variable_names_a_field():
    """No variable is read for a field that does not exist; what only code can give has none."""
    fields = {field.name for field in dataclasses.fields(Config) if field.init}
    assert fields - set(config._READERS) == {"rules", "scrubber"}
    assert set(config._READERS) < fields
