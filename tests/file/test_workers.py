"""Several processes that serve one app: each writes what it saw, and together that is everything once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from gym_failures.header import decode_report
from gym_failures.reading import read_files, read_reports
from gym_failures.semconv import HEADER_NAME
from tests.file.processes import ATTEMPTS, Gate, running
from tests.servers.serving import ask, request

pytestmark = pytest.mark.timeout(200)  # five interpreters start on a machine that may be busy

WORKERS = 4
PROGRAMS = {
    "workers": ("uvicorn", "tests.file.worker:app", "--port", "0", "--workers", str(WORKERS)),
    "preloading fork": ("tests.file.worker", str(WORKERS)),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_worker_is_read_back(tmp_path, program):
    """All workers are read back, and repeat no id (opentelemetry-python#3307, opentelemetry-python-contrib#385).

    All of them are in the middle of a failing request at the same time.
    """
    with running(tmp_path, *PROGRAMS[program], servers=WORKERS) as server, ThreadPoolExecutor() as callers:
        with Gate() as gate:
            replies, workers = [], []
            for _ in range(WORKERS):  # Each worker that is held leaves the next request to the others.
                replies.append(callers.submit(ask, server.port, request("POST", f"/fail?gate={gate.port}")))
                workers.append(gate.arrival())
        told = [decode_report(value) for reply in replies for value in reply.result().values(HEADER_NAME)]

    assert len(set(workers)) == len(told) == WORKERS
    files = {worker: tmp_path / f"{worker}.jsonl" for worker in workers}
    assert set(tmp_path.glob("*.jsonl")) == set(files.values())
    read = read_files(files.values(), by="request")
    assert read.skips == 0
    assert {one.report.failure_id for one in read} == {report.failure_id for report in told}
    ids = {event_id for one in read for event_id in one.report.events}
    assert len(ids) == WORKERS * (ATTEMPTS + 2)
    assert all(report.events.keys() <= ids for report in told)
    for worker, report in zip(workers, told, strict=True):
        (own,) = read_reports(files[worker], by="request")
        assert own.report.failure_id == report.failure_id
        assert len(own.report.events) == ATTEMPTS + 2
