"""TLS from host to host: with `tls.yaml` nothing is taken in clear text, nor from whom the gateway does not know."""

import shutil
import ssl
import subprocess
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from backends.processes import LOOPBACK, ProcessError
from backends.stack import Collector, Jaeger
from gym_failures import kinds
from gym_failures.reading.sources.jaeger_grpc import JaegerGrpc
from gym_failures.reading.sources.jaeger_search import JaegerError
from tests.backends.fleet import failing, running
from tests.backends.test_search import trace_ids


class Authority:
    """A certificate authority of one test, in a folder of its own."""

    def __init__(self, folder, name):
        """Make its certificate."""
        self.folder = folder
        self._name = name
        self.file = folder / f"{name}.crt"
        self._openssl(*self._request(name), "-addext", "basicConstraints=critical,CA:TRUE")

    def issue(self, name):
        """Return the files of a certificate for this machine, and of its key."""
        issuer = ("-CA", str(self.file), "-CAkey", f"{self._name}.key")
        self._openssl(*self._request(name), *issuer, "-addext", f"subjectAltName=IP:{LOOPBACK}")
        return str(self.folder / f"{name}.crt"), str(self.folder / f"{name}.key")

    def _request(self, name):
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-keyout", f"{name}.key")
        return ("req", "-x509", *key, "-out", f"{name}.crt", "-subj", f"/CN={name}", "-days", "1")

    def _openssl(self, *words):
        subprocess.run([shutil.which("openssl") or "openssl", *words], cwd=self.folder, check=True, capture_output=True)


@pytest.fixture
def authority(tmp_path):
    """Make an authority that issues the certificates of both ends."""
    return Authority(tmp_path, "ca")


@pytest.fixture
def receiver(authority):
    """Give the variables of a program that receives by TLS, from its authority's clients only."""
    certificate, key = authority.issue("receiver")
    return {"GYM_TLS_CERT": certificate, "GYM_TLS_KEY": key, "GYM_TLS_CLIENT_CA": str(authority.file)}


def sender(authority, *, shown_by=None):
    """Return the settings of a Collector that sends by TLS, with a certificate of `shown_by` or without any."""
    settings = {"INSECURE": "false", "CA": str(authority.file)}
    if shown_by is not None:
        settings["CLIENT_CERT"], settings["CLIENT_KEY"] = shown_by.issue("sender")
    return settings


def test_every_hop_by_tls(tmp_path, authority, receiver, prometheus, eventually):
    """A failure goes from agent to gateway and on to Jaeger by TLS, each of which asks the sender for a certificate."""
    settings = sender(authority, shown_by=authority)
    with (
        Jaeger(tmp_path, storage="ephemeral", tls=receiver) as jaeger,
        Collector(
            "gateway.yaml",
            tmp_path,
            to={"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url},
            settings=settings,
            tls=receiver,
        ) as gateway,
        Collector("agent.yaml", tmp_path, to={"GATEWAY": gateway.grpc}, settings=settings) as agent,
        running(agent.http, "tls") as fleet,
    ):
        failed = {fleet.rollout(failing(kinds.CANCELLED)).trace_id}
        fleet.flush()
        eventually(lambda: trace_ids(jaeger.find("model-tls", failure_kind=kinds.CANCELLED)), failed)


def test_a_search_by_tls(tmp_path, authority, monkeypatch):
    """A Jaeger is asked by TLS where an authority vouches for it that `SSL_CERT_FILE` names, and else not at all."""
    certificate, key = authority.issue("query")
    other = Authority(tmp_path, "other")
    with Jaeger(tmp_path, storage="memory", query_tls={"cert_file": certificate, "key_file": key}) as jaeger:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        assert JaegerGrpc(f"grpcs://{jaeger.query_grpc}").services() == []
        with pytest.raises(JaegerError, match="did not answer"):
            JaegerGrpc(f"grpc://{jaeger.query_grpc}").services()
        monkeypatch.setenv("SSL_CERT_FILE", str(other.file))
        with pytest.raises(JaegerError, match=r"did not answer: .*CERTIFICATE_VERIFY_FAILED"):
            JaegerGrpc(f"grpcs://{jaeger.query_grpc}").services()


SAID = "Basic Z3ltOmd5bQ=="
"""What the gateway says of itself to the proxy."""


def test_prometheus_behind_a_proxy(tmp_path, authority, eventually):
    """A proxy with a certificate of a private authority gets the gateway's counts, certificate and password."""
    asked = []

    class Proxy(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append((self.headers["Authorization"], self.connection.getpeercert()["subject"][0][0][1]))
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()

        def log_message(self, *_):
            pass

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*authority.issue("proxy"))
    with ThreadingHTTPServer((LOOPBACK, 0), Proxy) as proxy:
        proxy.socket = context.wrap_socket(proxy.socket, server_side=True)
        threading.Thread(target=proxy.serve_forever).start()
        try:
            to = {"JAEGER": "127.0.0.1:9", "PROMETHEUS": f"https://{LOOPBACK}:{proxy.server_port}/api/v1/write"}
            settings = {**sender(authority, shown_by=authority), "PROMETHEUS_AUTHORIZATION": SAID}
            with (
                Collector("gateway.yaml", tmp_path, to=to, settings=settings) as gateway,
                running(gateway.http, "proxy") as fleet,
            ):
                fleet.rollout(failing(kinds.CANCELLED))
                fleet.flush()
                eventually(lambda: set(asked), {(SAID, "sender")})
        finally:
            proxy.shutdown()


STRANGERS = {
    "in clear text": lambda _: {"INSECURE": "true"},
    "without a certificate": sender,
    "with a certificate of another authority": lambda own: sender(own, shown_by=Authority(own.folder, "other")),
    "that trusts another authority": lambda own: sender(Authority(own.folder, "other"), shown_by=own),
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_stranger_gets_nothing_through(stranger, tmp_path, authority, receiver, eventually):
    """An agent that the gateway does not know, or that does not know the gateway, keeps its failures to itself."""
    with (
        Collector("gateway.yaml", tmp_path, to={}, tls=receiver) as gateway,
        Collector(
            "agent.yaml", tmp_path, to={"GATEWAY": gateway.grpc}, settings=STRANGERS[stranger](authority)
        ) as agent,
        running(agent.http, "stranger") as fleet,
    ):
        fleet.rollout(failing(kinds.CANCELLED))
        fleet.flush()
        eventually(lambda: "Exporting failed. Will retry" in agent.log.read_text(), expected=True)
        assert agent.metrics()["otelcol_exporter_queue_size"] > 0
        assert not any(
            gateway.metrics().get(f"otelcol_receiver_{fate}_spans_total") for fate in ("accepted", "refused")
        )


def test_no_start_without_a_certificate(tmp_path):
    """A gateway that was to receive by TLS and has no certificate ends, rather than receive in clear text."""
    nowhere = {"GYM_TLS_CERT": str(tmp_path / "none.crt"), "GYM_TLS_KEY": str(tmp_path / "none.key")}
    gateway = Collector("gateway.yaml", tmp_path, to={}, tls=nowhere)
    with pytest.raises(ProcessError, match=r"none\.crt"), gateway:
        pass
