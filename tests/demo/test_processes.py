"""The processes of the demo: what they need, how they fail, and whom they send to."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider

from gym_failures.demo import DemoError
from gym_failures.demo import run as runs
from gym_failures.demo.children import children
from gym_failures.demo.otlp import check_endpoint
from gym_failures.demo.sender import Sender
from gym_failures.demo.settings import Settings, environment, prepare
from tests.failing import nobody


class Endpoint(BaseHTTPRequestHandler):
    """Stands for a Collector."""

    def do_POST(self):
        """Keep the request and answer with the status that is set."""
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append((self.path, self.headers, body))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Keep quiet."""


@pytest.fixture
def endpoint(monkeypatch):
    """Give an endpoint that takes everything until its `status` is changed, as slowly as it may be."""
    monkeypatch.setattr("gym_failures.demo.otlp._PATIENCE", 60.0)
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        server.status, server.requests = 200, []
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever).start()
        yield server
        server.shutdown()


def settings(folder):
    """Return the settings of a run in `folder`."""
    prepare(folder)
    return Settings(str(folder), {}, 0, None)


def test_settings_go_through_a_line(tmp_path):
    """What a process reads from its first line is what was written."""
    before = Settings(str(tmp_path), {"agent": "http://127.0.0.1:1"}, 3, "http://localhost:4318")
    line = before.to_line()
    assert line.count("\n") == 1
    assert Settings.from_line(line) == before


def test_environment_is_that_of_the_demo(monkeypatch):
    """Variables that would change what is recorded stay outside; how to reach a Collector does not."""
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    monkeypatch.setenv("GYM_FAILURES_ENABLED", "false")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=secret")
    kept = environment()
    assert kept.keys().isdisjoint({"OTEL_TRACES_SAMPLER", "GYM_FAILURES_ENABLED"})
    assert kept["OTEL_EXPORTER_OTLP_HEADERS"] == "authorization=secret"


@pytest.mark.anyio
async def test_a_process_that_fails_is_shown_with_the_end_of_its_log(tmp_path):
    """Of a process that could not start, the error names it and says what its log says."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with children(settings(tmp_path), {"nobody": listening}) as started:
            nobody = started["nobody"]
            nobody.begin()
            assert await nobody.ended() == 1
            assert await nobody.line() == ""
    assert "the process nobody ended" in str(nobody.failed())
    assert "No module named 'gym_failures.demo.servers.nobody'" in str(nobody.failed())


@pytest.mark.anyio
async def test_a_process_that_was_never_told_to_begin_ends_with_the_block(tmp_path, monkeypatch):
    """A process that waits for its settings ends when they will not come, and that is no failure of it."""
    monkeypatch.setattr("gym_failures.demo.children._PATIENCE", 60.0)  # it still starts, on a machine that may be busy
    async with children(settings(tmp_path), {"agent": None}) as started:
        pass
    assert started["agent"].status == 0


def test_a_server_that_cannot_start_ends_the_demo(tmp_path, monkeypatch):
    """The demo does not wait for a server that has ended: it says which one, and why."""
    monkeypatch.setattr(runs, "SERVERS", ("nobody",))
    with pytest.raises(DemoError, match=r"(?s)the process nobody ended.*No module named"):
        runs.run(tmp_path, on_end=lambda _: None)


def test_an_endpoint_is_asked_with_the_headers_of_the_environment(endpoint, monkeypatch):
    """Whether an endpoint takes traces is asked as the exporters will send: with their path and their headers."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b")
    assert check_endpoint(f"{endpoint.url}/") == endpoint.url
    ((path, headers, _),) = endpoint.requests
    assert path == "/v1/traces"
    assert headers["x-key"] == "a b"


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://localhost", "file:///etc/passwd", ""])
def test_what_is_no_url_of_an_endpoint_is_refused(url):
    """Only HTTP is spoken; anything else is an error that shows what was expected."""
    with pytest.raises(DemoError, match="such as http://localhost:4318"):
        check_endpoint(url)


def test_an_endpoint_that_takes_no_traces_is_refused(endpoint):
    """A server that answers with an error is named with its answer, before anything is run."""
    endpoint.status = 404
    with pytest.raises(DemoError, match="answers 404"):
        check_endpoint(endpoint.url)


def test_an_endpoint_that_is_not_there_is_refused():
    """Where nobody listens, the demo says so, before anything is run."""
    with nobody() as port, pytest.raises(DemoError, match="nothing to send to at http://127") as refused:
        check_endpoint(f"http://127.0.0.1:{port}")
    assert f":{port}/" in str(refused.value)


@pytest.mark.parametrize(("status", "taken"), [(200, True), (400, False)])
def test_what_was_not_taken_is_remembered(endpoint, status, taken):
    """A sender sends its spans over OTLP, and knows afterwards whether all were taken."""
    sender = Sender(endpoint.url)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(sender.spans)
    endpoint.status = status
    provider.get_tracer("test").start_span("work").end()
    provider.shutdown()
    sender.metrics.shutdown()
    ((_, _, body),) = (request for request in endpoint.requests if request[0] == "/v1/traces")
    sent = ExportTraceServiceRequest.FromString(body)
    assert [span.name for span in sent.resource_spans[0].scope_spans[0].spans] == ["work"]
    assert sender.all_were_taken is taken
