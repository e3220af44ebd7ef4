"""Where spans and metrics go, and that the last of them get there before a process ends."""

import asyncio
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExporter, MetricExportResult
from opentelemetry.sdk.trace.export import SpanExportResult

from gym_failures import guard, limits
from gym_failures.enabling import meters
from gym_failures.enabling.ending import end
from gym_failures.enabling.flushing import Answers, Flush
from gym_failures.header import decode_report
from gym_failures.reading import read_files
from gym_failures.semconv import HEADER_NAME, METRIC_FAILURES
from tests.file.processes import PATIENCE, Gate, running
from tests.run.collecting import collecting
from tests.run.programs import PROGRAMS, files, hooked, ran
from tests.run.test_enable import SERVER
from tests.servers.serving import ask, request

ROUND_TRIP = PROGRAMS / "round_trip.py"
WORKERS = 2
PATIENT = """
from gym_failures import limits
limits.FLUSH_SECONDS = 60
limits.FLUSH_REQUESTS_SECONDS = limits.FLUSH_UNANSWERED_SECONDS = 30
"""
"""What has a process wait at its end for as long as it takes: a busy machine can miss the time of earnest."""
UVICORN = ("uvicorn", "held:app", "--app-dir", str(PROGRAMS), "--port", "0", "--workers", str(WORKERS))


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Have this process wait as long."""
    monkeypatch.setattr(limits, "FLUSH_SECONDS", 60)
    monkeypatch.setattr(limits, "FLUSH_REQUESTS_SECONDS", 30)
    monkeypatch.setattr(limits, "FLUSH_UNANSWERED_SECONDS", 30)


def patiently(folder, **variables):
    """Return the variables of a server that is traced, and in no hurry at its end."""
    (folder / "sitecustomize.py").write_text(PATIENT)
    return hooked(folder, PYTHONPATH=str(folder), **variables, **SERVER)


def fail_in_every_worker(folder, **variables):
    """Serve with several workers, let each fail once, end them by SIGTERM, and return the reports of their replies."""
    with running(folder, *UVICORN, servers=WORKERS, **variables) as server, ThreadPoolExecutor() as callers:
        with Gate() as gate:
            replies, workers = [], set()
            for _ in range(WORKERS):  # Each worker that is held leaves the next request to the others.
                replies.append(callers.submit(ask, server.port, request("POST", f"/fail?gate={gate.port}")))
                workers.add(gate.arrival())
        told = [decode_report(value) for reply in replies for value in reply.result().values(HEADER_NAME)]
    assert len(workers) == len(told) == WORKERS
    return workers, told


@pytest.mark.timeout(120)
def test_every_worker_writes_its_own_file(tmp_path):
    """Workers, which import the app anew, are traced like their parent would be (opentelemetry-python#3307)."""
    workers, told = fail_in_every_worker(tmp_path, **hooked(tmp_path, **SERVER))
    assert {int(file.name.split("-")[1]) for file in files(tmp_path)} == workers
    assert {one.report.failure_id for one in read_files(files(tmp_path))} == {report.failure_id for report in told}


@pytest.mark.timeout(120)
def test_a_server_that_is_told_to_end_has_sent_everything(tmp_path):
    """What workers have not sent when a signal ends them is sent before they do, spans and counts."""
    with collecting() as taken:
        env = patiently(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=taken.endpoint, OTEL_BSP_SCHEDULE_DELAY="3600000")
        fail_in_every_worker(tmp_path, **env)
    assert taken.spans == ["POST /fail"] * WORKERS
    assert METRIC_FAILURES in taken.metrics
    assert not files(tmp_path)


HUNG = 3


def hang_until(number, folder, **variables):
    """Serve requests that hang, tell the server to end by a signal, and wait until it has."""
    server = ("uvicorn", "hanging:app", "--app-dir", str(PROGRAMS), "--port", "0", "--timeout-graceful-shutdown", "0")
    with running(folder, *server, **variables) as program, ExitStack() as held, Gate() as gate:
        for _ in range(HUNG):
            caller = held.enter_context(socket.create_connection(("127.0.0.1", program.port)))
            caller.sendall(request("GET", f"/hang?gate={gate.port}"))
        for _ in range(HUNG):
            gate.arrival()
        program.process.send_signal(number)
        program.process.wait(PATIENCE)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_that_a_server_cancels_at_its_end_are_sent(tmp_path, number):
    """A server does not wait for the requests that it cancels; their spans are sent all the same."""
    with collecting() as taken:
        env = patiently(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=taken.endpoint, OTEL_BSP_SCHEDULE_DELAY="3600000")
        hang_until(number, tmp_path, **env)
    assert taken.spans == ["GET /hang"] * HUNG


@pytest.mark.timeout(120)
def test_requests_that_a_server_cancels_at_its_end_are_written(tmp_path):
    """So they are to files."""
    hang_until(signal.SIGTERM, tmp_path, **patiently(tmp_path))
    assert [file.read_text().count('"name":"GET /hang"') for file in files(tmp_path)] == [HUNG]


@pytest.mark.anyio
async def test_the_event_loop_runs_on_while_the_rest_is_sent():
    """Requests end and the rest is sent in turns of the loop, the rest last."""
    loop, done, sent = asyncio.get_running_loop(), [], threading.Event()

    def send():
        done.append("sending")
        loop.call_soon_threadsafe(sent.set)  # only a loop that runs lets it go on
        done.append(sent.wait(30))

    loop.call_later(0.02, done.append, "request")
    await end(Flush([send], answers=Answers()), lambda: not done)
    assert done == ["request", "sending", True]


def test_an_end_without_a_loop_of_asyncio():
    """In a loop of another library the rest is sent too."""
    sent = []
    with pytest.raises(StopIteration):
        end(Flush([lambda: sent.append("spans")], answers=Answers()), lambda: True).send(None)
    assert sent == ["spans"]


def test_a_client_that_ends_has_sent_everything(tmp_path):
    """A program without a server's end sends the rest when it exits."""
    with collecting() as taken:
        env = patiently(tmp_path, LIFESPAN="off", OTEL_EXPORTER_OTLP_ENDPOINT=taken.endpoint)
        ended = ran(sys.executable, ROUND_TRIP, env=env)
    assert ended.told()["status"] == 500
    assert "GET" in taken.spans


class Noting(MetricExporter):
    """An exporter that says when it has been given something."""

    def __init__(self):
        super().__init__()
        self.given = threading.Event()

    def export(self, *_, **__):
        """Take note."""
        self.given.set()
        return MetricExportResult.SUCCESS

    def force_flush(self, *_, **__):
        """Nothing waits."""
        return True

    def shutdown(self, *_, **__):
        """Nothing is left."""


def test_counts_are_sent_as_often_as_the_variable_says(monkeypatch):
    """Counts are sent every 15 s, which a variable of OpenTelemetry's changes."""
    monkeypatch.setattr(limits, "METRICS_DELAY", 1)
    hour = str(3_600_000)
    for said, waited in (("", 60.0), (hour, 0.1)):
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", said)
        noting = Noting()
        provider = MeterProvider([meters._reader(noting)], shutdown_on_exit=False)
        provider.get_meter("t").create_counter("n").add(1)
        assert noting.given.wait(waited) is (said != hour)
        provider.shutdown()


def test_a_collector_that_is_away_changes_nothing(tmp_path):
    """Nothing takes the spans, and the program ends as ever (opentelemetry-python#3309)."""
    env = hooked(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", **SERVER)
    ended = ran(sys.executable, ROUND_TRIP, env=env)
    assert (ended.status, ended.told()["status"]) == (0, 500)


def test_an_exporter_that_is_not_installed(tmp_path):
    """An exporter that no package brings is named, and the program runs."""
    ended = ran(sys.executable, ROUND_TRIP, env=hooked(tmp_path, OTEL_TRACES_EXPORTER="carrier_pigeon", **SERVER))
    assert ended.told()["status"] == 500
    assert "no package with the exporter carrier_pigeon is installed; traces do not go there" in ended.errors


def test_a_folder_that_cannot_be_written(tmp_path):
    """Spans that cannot be written are lost with one line, and the program runs."""
    (tmp_path / "traces").write_text("a file")
    ended = ran(sys.executable, ROUND_TRIP, env=hooked(tmp_path, **SERVER))
    assert ended.told()["status"] == 500
    assert ended.errors.count("spans are lost: cannot write to") == 1


@pytest.fixture
def said(monkeypatch):
    """Forget which warnings have been said, for the test only."""
    monkeypatch.setattr(guard, "_said", {})


class Exporter:
    """What exports as OpenTelemetry's exporters do."""

    def __init__(self, *results):
        self._results = iter(results)

    def export(self, batch, timeout=None):
        """Return the next result."""
        assert (batch, timeout) == ("batch", 1)
        return next(self._results)


def test_who_has_answered():
    """A receiver has answered if it took the last batch of any signal."""
    answers = Answers()
    spans = answers.watch(Exporter(SpanExportResult.SUCCESS, SpanExportResult.FAILURE))
    counts = answers.watch(Exporter(MetricExportResult.FAILURE, MetricExportResult.SUCCESS))
    seen = [bool(answers)]
    for exporter in (spans, counts, spans, counts):
        exporter.export("batch", timeout=1)
        seen.append(bool(answers))
    assert seen == [False, True, True, False, True]


def test_a_reader_that_is_asked_for_its_counts():
    """What exports nothing by itself, such as a reader for Prometheus, answers nothing and is left as it is."""
    answers, reader = Answers(), InMemoryMetricReader()
    assert answers.watch(reader) is reader
    assert not answers


@pytest.mark.usefixtures("said")
def test_the_end_waits_for_what_is_sent_in_time(caplog):
    """All parts are sent when the flush returns, and nothing is said."""
    sent = []
    Flush([lambda: sent.append("spans"), lambda: sent.append("counts")], answers=Answers())()
    assert sorted(sent) == ["counts", "spans"]
    assert not caplog.messages


@pytest.fixture
def listening():
    """Give the address of one who takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@pytest.fixture
def closed():
    """Give an address at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # Held, so that nobody else comes to listen there.
        yield held.getsockname()


@pytest.mark.usefixtures("said")
@pytest.mark.parametrize("receiver", ["listening", "closed"])
def test_the_end_does_not_wait_for_ever(caplog, monkeypatch, request, receiver):
    """A receiver that takes nothing holds up an end for a moment only, and what may be lost is said once."""
    monkeypatch.setattr(limits, "FLUSH_SECONDS", 0.1)
    begun, taken = threading.Event(), threading.Event()

    def send():
        begun.set()
        taken.wait()

    flush = Flush([send], answers=Answers(), receivers=[request.getfixturevalue(receiver)])
    flush()
    flush()
    assert begun.wait(PATIENCE if receiver == "listening" else 0) is (receiver == "listening")
    taken.set()
    assert len(caplog.messages) == 1


@pytest.mark.usefixtures("said")
def test_an_app_and_its_process_have_one_end(monkeypatch, caplog, listening):
    """What the end of an app has waited, the exit of its process does not wait again."""
    monkeypatch.setattr(limits, "FLUSH_SECONDS", 3600)
    now, never = [0.0], threading.Event()
    works = [never.wait, lambda: now.__setitem__(0, 3599.9)]

    def send():
        works.pop()()

    flush = Flush([send], answers=Answers(), receivers=[listening], clock=lambda: now[0])
    flush()
    assert not caplog.messages
    flush.at_exit()  # A whole hour would be too long for a test.
    never.set()
    assert len(caplog.messages) == 1


@pytest.mark.usefixtures("said")
def test_what_has_been_waited_for_requests_is_part_of_an_end(caplog, listening):
    """Where all the time is spent nothing is waited for any more, and that is said."""
    sent = []
    Flush([lambda: sent.append("spans")], answers=Answers(), receivers=[listening])(limits.FLUSH_SECONDS)
    assert (sent, len(caplog.messages)) == ([], 1)


def test_how_long_an_end_waits(monkeypatch, listening, closed):
    """It waits for one who has answered, or who listens, and not where nobody does; hardly for one who is unknown."""
    monkeypatch.setattr(limits, "FLUSH_SECONDS", 30)
    monkeypatch.setattr(limits, "FLUSH_UNANSWERED_SECONDS", 10)
    answers = Answers()
    assert Flush([], answers=answers)._patience() == 10
    assert Flush([], answers=answers, receivers=[closed])._patience() == 0
    assert Flush([], answers=answers, receivers=[closed, listening])._patience() == 30
    answers.watch(Exporter(SpanExportResult.SUCCESS)).export("batch", 1)
    assert Flush([], answers=answers, receivers=[closed])._patience() == 30


@pytest.mark.usefixtures("said")
def test_an_exporter_that_fails_at_the_end(caplog):
    """An error of an exporter stays within the flush."""

    def fail():
        raise OSError("away")

    Flush([fail], answers=Answers())()
    assert [message.split(";")[0] for message in caplog.messages] == ["internal error in flush (OSError)"]
