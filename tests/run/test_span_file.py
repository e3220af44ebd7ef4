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
CUT = """
fail()
(file,) = os.listdir(sys.argv[1])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(os.path.join(sys.argv[1], file)) + 99, most))
fail()
"""
DELETED = """
import shutil
fail()
for delete in (lambda path: os.unlink(os.path.join(path, *os.listdir(path))), shutil.rmtree):
    delete(sys.argv[1])
    fail()
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


def test_a_line_that_is_cut(tmp_path):
    """A line of which a part is written is lost, and that is said though nothing is written after it."""
    (file,), said = run(tmp_path, CUT)
    assert read_files([file], by="trace").skips == 1
    assert said.count("spans are lost: cannot write to") == 1


def test_a_file_that_is_deleted_while_it_is_written(tmp_path):
    """What is written after a file, or its folder, has been deleted is in a new one."""
    (file,), said = run(tmp_path, DELETED)
    assert len(read_files([file], by="trace")) == 2
    assert not said
