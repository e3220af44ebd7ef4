"""Which process this is, and what OpenTelemetry's variables say of where to export."""

import pytest

from gym_failures.enabling.exporters import _protocol, chosen, made, receivers
from gym_failures.enabling.process import Process

CONFIGURATION = """\
head_server:
  host: 127.0.0.1
ng:
  - policy_model:
policy_model:
  responses_api_models:
    openai_model:
      entrypoint: app.py
      model_server:
        name: resources_servers
'1e3':
  resources_servers:
    flaky: {}
agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
environment:
  environment_servers: {}
odd:
  something_else:
    responses_api_models: {}
scalar: responses_api_models
"""
SERVERS = {
    "policy_model": ("responses_api_models", "model"),
    "1e3": ("resources_servers", "resources_server"),
    "agent": ("responses_api_agents", "agent"),
    "environment": ("environment_servers", "environment"),
    "odd": (None, None),
    "scalar": (None, None),
    "missing": (None, None),
}


@pytest.mark.parametrize("name", SERVERS)
def test_the_type_of_a_server(name):
    """A server's type is the first key of its part of the configuration, and says where it observes failures."""
    process = Process.of({"NEMO_GYM_CONFIG_PATH": name, "NEMO_GYM_CONFIG_DICT": CONFIGURATION})
    boundary = process.boundary and process.boundary.value
    assert (process.name, process.type, boundary) == (name, *SERVERS[name])


@pytest.mark.parametrize("environ", [{}, {"NEMO_GYM_CONFIG_PATH": ""}, {"NEMO_GYM_CONFIG_DICT": CONFIGURATION}])
def test_a_process_that_is_no_server(environ):
    """A process that no launcher has named is none of the servers."""
    assert Process.of(environ) == Process()


CHOICES = {
    "nothing": ({}, None, None),
    "an endpoint": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, ["otlp"], ["otlp"]),
    "an endpoint for traces": ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://j:4318"}, ["otlp"], None),
    "an empty endpoint": ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, None, None),
    "none": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, ["otlp"], []),
    "several": ({"OTEL_TRACES_EXPORTER": "console, otlp"}, ["console", "otlp"], None),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_exporters_that_are_chosen(name):
    """The variables name the exporters; an endpoint alone means OTLP; None is when they say nothing."""
    environ, traces, metrics = CHOICES[name]
    assert (chosen("traces", environ), chosen("metrics", environ)) == (traces, metrics)


HTTP, GRPC = "otlp_proto_http", "otlp_proto_grpc"
PROTOCOLS = {
    "the default": ({}, HTTP),
    "of all signals": ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, HTTP),
    "of traces": ({"OTEL_EXPORTER_OTLP_PROTOCOL": "x", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, GRPC),
    "by the port for gRPC": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, GRPC),
    "by that port without a scheme": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4317"}, GRPC),
    "by the port of traces": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4317"},
        GRPC,
    ),
    "by the port of traces, not of all": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318"},
        HTTP,
    ),
    "said, at that port": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        HTTP,
    ),
    "one that is not known": ({"OTEL_EXPORTER_OTLP_PROTOCOL": "pigeon"}, "pigeon"),
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_protocol_of_otlp(name):
    """OTLP is sent over HTTP unless a variable, or the port that is gRPC's, says otherwise."""
    environ, exporter = PROTOCOLS[name]
    assert _protocol("traces", environ) == exporter


def test_an_exporter_is_made():
    """The exporter of a name is made by the entry point of that name."""
    (exporter,) = made("traces", ["otlp"], {})
    assert type(exporter).__module__ == "opentelemetry.exporter.otlp.proto.http.trace_exporter"


ENDPOINTS = {
    "none": ({}, set()),
    "with a port": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, {("collector", 4318)}),
    "without a port": ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c.example/otlp"}, {("c.example", 443)}),
    "an address": ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://[::1]/v1/metrics"}, {("::1", 80)}),
    "without a scheme": ({"OTEL_EXPORTER_OTLP_ENDPOINT": " collector:4317 "}, {("collector", 4317)}),
    "an address without a scheme": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "[::1]:4317"}, {("::1", 4317)}),
    "a host alone": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}, set()),
    "a wrong port": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:x"}, set()),
}


@pytest.mark.parametrize("name", ENDPOINTS)
def test_who_may_listen(name):
    """The hosts and ports of all endpoints are known, and what names no port is nobody's."""
    environ, expected = ENDPOINTS[name]
    assert receivers(environ) == expected
