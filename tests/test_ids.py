"""Identifiers: unique, in order of time, and not repeated after a fork."""

import subprocess
import sys
import uuid

import pytest

from gym_failures import ids
from gym_failures.ids import id_source, new_id, uuid7

FORK = """
import os
from gym_failures.ids import new_id
new_id()
reader, writer = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.write(writer, "".join(f"{new_id()}\\n" for _ in range(100)).encode())
        os._exit(0)
for _ in range(4):
    os.wait()
os.close(writer)
print(os.read(reader, 100_000).decode(), end="")
print("\\n".join(new_id() for _ in range(100)))
"""


def test_is_a_version_7_uuid():
    """An id is a UUIDv7 as 32 lower-case hex digits (RFC 9562, section 5.7)."""
    made = uuid7()
    read = uuid.UUID(hex=made)
    assert (read.hex, read.version, read.variant) == (made, 7, uuid.RFC_4122)


def test_holds_the_time_in_its_first_48_bits(monkeypatch):
    """Ids sort by the millisecond in which they were made, up to the last that 48 bits hold."""
    for milliseconds in (0, 1, 1_700_000_000_000, 2**48 - 1):
        monkeypatch.setattr(ids.time, "time_ns", lambda now=milliseconds: now * 1_000_000 + 999_999)
        assert int(uuid7()[:12], 16) == milliseconds


def test_uses_all_its_random_bits(monkeypatch):
    """The 74 random bits all come from the operating system; version and variant stand between them."""
    monkeypatch.setattr(ids.time, "time_ns", lambda: 0)
    monkeypatch.setattr(ids.os, "urandom", lambda size: b"\xff" * size)
    assert uuid7() == "0000000000007fffbfffffffffffffff"


def test_ids_do_not_repeat_after_a_fork():
    """Workers forked from one process make different ids (opentelemetry-python#3307)."""
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    made = done.stdout.split()
    assert len(made) == len(set(made)) == 500


def test_a_source_can_be_replaced_for_a_test():
    """Within the block ids come from the given source; afterwards, also after an error, from the one before."""
    with id_source(lambda: "outer"):
        with id_source(iter(["first", "second"]).__next__):
            assert [new_id(), new_id()] == ["first", "second"]
        with pytest.raises(ZeroDivisionError), id_source(lambda: "inner"):
            raise ZeroDivisionError
        assert new_id() == "outer"
    assert len(new_id()) == 32
