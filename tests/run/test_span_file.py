"""The file of a process's spans: one for each process, whole lines, and no end to it but the disk's."""

import sys

from gym_failures.reading import read_files
from tests.run.programs import files, ran, surroundings

BEGIN = """
import os, resource, sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from gym_failures.enabling.span_file import SpanFile
from gym_failures.errors import FailureError
from gym_failures.recording import record_failure

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(SpanFile(sys.argv[1], "a/server")))

def fail():
    with provider.get_tracer("test").start_as_current_span("failing"):
        record_failure(FailureError("agent_timeout", boundary="agent"))
"""
FORK = """
fail()
child = os.fork()
fail()
if child == 0:
    fail()
    os._exit(0)
os.waitpid(child, 0)
"""
FULL = """
fail()
(file,) = os.listdir(sys.argv[1])
size = os.path.getsize(os.path.join(sys.argv[1], file))
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 99, most))
fail()
fail()
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
fail()
"""


def run(tmp_path, program):
    """Run a program that writes spans, and return its files and what it said."""
    ended = ran(sys.executable, "-c", BEGIN + program, tmp_path / "traces", env=surroundings())
    assert ended.status == 0, ended.errors
    return files(tmp_path), ended.errors


def test_a_fork_has_a_file_of_its_own(tmp_path):
    """Parent and child of a fork write to a file each, whose names say who they are."""
    written, said = run(tmp_path, FORK)
    assert sorted(len(file.read_text().splitlines()) for file in written) == [2, 2]
    assert all(file.name.startswith("a_server-") for file in written)
    assert not said


def test_a_full_disk(tmp_path):
    """A line that does not fit is counted when the file is read, and takes neither the next nor the program with it."""
    (file,), said = run(tmp_path, FULL)
    read = read_files([file], by="trace")
    assert (len(read), read.skips) == (2, 1)
    assert said.count("spans are lost: cannot write to") == 1
