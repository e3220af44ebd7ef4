"""What the exceptions of Python, of its standard library, of pydantic and jsonschema mean; each is really raised."""

import asyncio
import concurrent.futures
import errno
import http.client
import json
import multiprocessing
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import anyio.lowlevel
import jsonschema
import pydantic
import pytest

from gym_failures import kinds, limits
from gym_failures.classify import classify
from gym_failures.kinds import FailureBoundary
from tests.failing import (
    LOOPBACK,
    Case,
    answers,
    at_no_name,
    at_nobody,
    at_peer,
    caught,
    caught_async,
    drops,
    is_silent,
    nobody,
    peer,
    reply,
    resets,
)

SECRET = "s3cr3t"  # noqa: S105 - what must not get out


def failing_urlopen(url):
    """Call `url` with urllib."""
    return caught(lambda: urllib.request.urlopen(url, timeout=30).read())  # noqa: S310 - loopback


def exchanged(act, seconds=30.0):
    """Exchange a request and an answer with a peer over a bare socket, a second request too."""

    def call():
        with peer(act) as port, socket.create_connection((LOOPBACK, port), timeout=30) as connection:
            connection.settimeout(seconds)
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while connection.recv(100):
                pass
            for _ in range(10):
                connection.sendall(b"x" * 1_000_000)

    return caught(call)


def refused():
    """Connect to a port that nobody listens on."""
    with nobody() as port:
        return caught(lambda: socket.create_connection((LOOPBACK, port)))


def shaken_hands():
    """Speak TLS to a peer that does not."""

    def call():
        with peer(answers(b"not TLS")) as port, socket.create_connection((LOOPBACK, port)) as connection:
            ssl.create_default_context().wrap_socket(connection, server_hostname="localhost")

    return caught(call)


def read_unconnected():
    """Read from a socket that is connected to nobody."""
    with socket.socket() as unconnected:
        return caught(lambda: unconnected.recv(1))


async def cancelled():
    """Await a task that is cancelled."""
    task = asyncio.ensure_future(asyncio.sleep(10))
    asyncio.get_running_loop().call_soon(task.cancel)
    await task


async def left():
    """Wait in a scope of anyio's that is cancelled."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except asyncio.CancelledError as error:
            kept = error
            raise
    raise kept


async def timed_out():
    """Await longer than allowed."""
    async with asyncio.timeout(0):
        await asyncio.sleep(10)


async def cut_stream():
    """Read more than a stream has."""
    reader = asyncio.StreamReader()
    reader.feed_data(b"ab")
    reader.feed_eof()
    await reader.readexactly(3)


def cancelled_future():
    """Ask a cancelled future for its result."""
    future = concurrent.futures.Future()
    future.cancel()
    return caught(future.result)


def lost_worker():
    """Let a worker process of a pool end in the middle of its work."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return caught(pool.submit(os._exit, 1).result)


def ended(code):
    """Run a program that ends as `code` says, with a secret on its command line."""
    return lambda: caught(lambda: subprocess.run([sys.executable, "-c", code, SECRET], check=True))


def ran_too_long():
    """Run a program longer than allowed, with a secret on its command line."""
    program = [sys.executable, "-c", "import time; time.sleep(60)", SECRET]
    return caught(lambda: subprocess.run(program, check=True, timeout=0.01))


class Message(pydantic.BaseModel):
    """What a model would have to answer."""

    role: str
    tokens: dict[str, int]


def invalid(**fields):
    """Validate `fields` as a message."""
    return lambda: caught(lambda: Message(**fields))


def off_schema():
    """Validate a secret against a JSON schema."""
    schema = {"properties": {"n": {"type": "integer"}}}
    return caught(lambda: jsonschema.validate({"n": SECRET}, schema))


def of_errno(number):
    """Make an OSError as the operating system does; Python chooses the class."""
    return lambda: OSError(number, os.strerror(number))


def raised(error):
    """Give an exception that was raised."""

    def call():
        raise error

    return lambda: caught(call)


AGENT, HARNESS, MODEL, SANDBOX = (FailureBoundary(name) for name in ("agent", "harness", "model", "sandbox"))

CASES = {
    "a cancelled task": Case(lambda: caught_async(cancelled), kinds.CANCELLED),
    "a scope of anyio's": Case(lambda: caught_async(left), kinds.CANCELLED, reason=""),
    "a scope of anyio's, with a reason": Case(
        raised(asyncio.CancelledError("Cancelled via cancel scope 7f2d by <Task pending>; reason: enough")),
        kinds.CANCELLED,
        reason="enough",
    ),
    "a reason of the program's": Case(raised(asyncio.CancelledError("enough")), kinds.CANCELLED, reason="enough"),
    "a cancelled future": Case(cancelled_future, kinds.CANCELLED),
    "interrupt": Case(raised(KeyboardInterrupt()), kinds.SHUTDOWN),
    "exit": Case(lambda: caught(lambda: sys.exit("done")), kinds.SHUTDOWN, reason="done"),
    "killed process": Case(
        ended(f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})"),
        kinds.KILL_SHAPED,
        foreign="subprocess.CalledProcessError",
        reason="exit status -9",
    ),
    "process killed below a shell": Case(
        ended("raise SystemExit(143)"),
        kinds.KILL_SHAPED,
        foreign="subprocess.CalledProcessError",
        reason="exit status 143",
    ),
    "failed process": Case(
        ended("raise SystemExit(3)"),
        kinds.AGENT_RUN_ERROR,
        foreign="subprocess.CalledProcessError",
        reason="exit status 3",
    ),
    "lost worker": Case(lost_worker, kinds.KILL_SHAPED, reason=re.compile("A process in the process pool.*")),
    "process out of time at the agent": Case(
        ran_too_long,
        kinds.AGENT_TIMEOUT,
        foreign="subprocess.TimeoutExpired",
        reason="not finished after 0.01 seconds",
    ),
    "process out of time at the sandbox": Case(
        ran_too_long,
        kinds.PROVIDER_UNAVAILABLE,
        boundary=SANDBOX,
        foreign="subprocess.TimeoutExpired",
        reason="not finished after 0.01 seconds",
    ),
    "asyncio time-out at the agent": Case(lambda: caught_async(timed_out), kinds.AGENT_TIMEOUT),
    "asyncio time-out at the harness": Case(lambda: caught_async(timed_out), kinds.AGENT_TIMEOUT, boundary=HARNESS),
    "asyncio time-out at the model": Case(lambda: caught_async(timed_out), kinds.TRANSPORT_TIMEOUT, boundary=MODEL),
    "socket time-out": Case(
        lambda: exchanged(is_silent, 0.1), kinds.TRANSPORT_TIMEOUT, boundary=MODEL, reason="timed out"
    ),
    "the system's time-out": Case(
        of_errno(errno.ETIMEDOUT), kinds.TRANSPORT_TIMEOUT, reason=re.compile(r"\[Errno \d+\] .*timed out")
    ),
    "no memory": Case(raised(MemoryError()), kinds.TRANSPORT_LOCAL_RESOURCE),
    **{
        f"no resource: {errno.errorcode[number]}": Case(
            of_errno(number), kinds.TRANSPORT_LOCAL_RESOURCE, reason=f"[Errno {number}] {os.strerror(number)}"
        )
        for number in (
            errno.EMFILE,
            errno.ENFILE,
            errno.ENOMEM,
            errno.ENOBUFS,
            errno.EADDRINUSE,
            errno.EADDRNOTAVAIL,
        )
    },
    "refused": Case(
        refused,
        kinds.TRANSPORT_UNREACHABLE,
        reason=re.compile(r"\[Errno \d+\] Connection refused"),
    ),
    "refused, without a number": Case(raised(ConnectionRefusedError("no")), kinds.TRANSPORT_UNREACHABLE, reason="no"),
    **{
        f"unreachable: {errno.errorcode[number]}": Case(
            of_errno(number), kinds.TRANSPORT_UNREACHABLE, reason=f"[Errno {number}] {os.strerror(number)}"
        )
        for number in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)
    },
    "name not resolved": Case(
        lambda: caught(lambda: socket.getaddrinfo("name.invalid", 80)),
        kinds.TRANSPORT_UNREACHABLE,
        reason=re.compile(r"\[Errno -\d+\] .*"),
    ),
    "address not resolved": Case(
        raised(socket.herror(1, "host")), kinds.TRANSPORT_UNREACHABLE, reason="[Errno 1] host"
    ),
    "reset": Case(
        lambda: exchanged(resets), kinds.TRANSPORT_PEER_DROP, reason=re.compile(r"\[Errno \d+\] Connection reset.*")
    ),
    "closed": Case(
        lambda: exchanged(drops),
        kinds.TRANSPORT_PEER_DROP,
        reason=re.compile(r"\[Errno \d+\] (Broken pipe|Connection reset.*)"),
    ),
    "not connected": Case(read_unconnected, kinds.TRANSPORT_PEER_DROP, reason=re.compile(r"\[Errno \d+\].*")),
    "a connection error of the application": Case(
        raised(ConnectionError("gone")), kinds.TRANSPORT_PEER_DROP, reason="gone"
    ),
    "TLS refused": Case(shaken_hands, kinds.TRANSPORT_UNREACHABLE, reason=re.compile(r"\[SSL: .*")),
    "certificate refused": Case(
        raised(ssl.SSLCertVerificationError(1, "self-signed")),
        kinds.TRANSPORT_UNREACHABLE,
        reason=re.compile(".*self-signed.*"),
    ),
    "TLS broken off": Case(
        raised(ssl.SSLEOFError(8, "EOF occurred")), kinds.TRANSPORT_PEER_DROP, reason=re.compile(".*EOF occurred.*")
    ),
    "stream cut": Case(
        lambda: caught_async(cut_stream),
        kinds.TRANSPORT_PEER_DROP,
        reason="2 bytes read on a total of 3 expected bytes",
    ),
    "urllib: refused": Case(
        at_nobody(failing_urlopen),
        kinds.TRANSPORT_UNREACHABLE,
        foreign="urllib.error.URLError",
        reason=re.compile(r"\[Errno \d+\] Connection refused"),
    ),
    "urllib: name not resolved": Case(
        at_no_name(failing_urlopen),
        kinds.TRANSPORT_UNREACHABLE,
        foreign="urllib.error.URLError",
        reason=re.compile(r"\[Errno -\d+\] .*"),
    ),
    "urllib: no file descriptor": Case(
        raised(urllib.error.URLError(OSError(errno.EMFILE, "Too many open files"))),
        kinds.TRANSPORT_LOCAL_RESOURCE,
        foreign="urllib.error.URLError",
        reason=f"[Errno {errno.EMFILE}] Too many open files",
    ),
    "urllib: closed": Case(
        at_peer(failing_urlopen, drops),
        kinds.TRANSPORT_PEER_DROP,
        reason="Remote end closed connection without response",
    ),
    "urllib: cut": Case(
        at_peer(failing_urlopen, answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")),
        kinds.TRANSPORT_PEER_DROP,
        reason="IncompleteRead(2 bytes read, 7 more expected)",
    ),
    "urllib: no HTTP": Case(
        at_peer(failing_urlopen, answers(f"{SECRET}\r\n\r\n".encode())),
        kinds.PROTOCOL_VIOLATION,
        foreign="http.client.BadStatusLine",
    ),
    "urllib: 503 at the agent": Case(
        at_peer(failing_urlopen, reply(503, "Busy", SECRET)),
        kinds.AGENT_RUN_ERROR,
        http_status=503,
        foreign="urllib.error.HTTPError",
        reason="Busy",
    ),
    "urllib: 503 at the model": Case(
        at_peer(failing_urlopen, reply(503, "Busy", SECRET)),
        kinds.PROVIDER_UNAVAILABLE,
        boundary=MODEL,
        http_status=503,
        foreign="urllib.error.HTTPError",
        reason="Busy",
    ),
    "no JSON": Case(
        lambda: caught(lambda: json.loads(SECRET)),
        kinds.PROTOCOL_VIOLATION,
        foreign="json.decoder.JSONDecodeError",
        reason="Expecting value",
    ),
    "invalid": Case(
        invalid(role=5, tokens={"a": SECRET}),
        kinds.PROTOCOL_VIOLATION,
        foreign="pydantic_core._pydantic_core.ValidationError",
        reason="string_type at role; int_parsing at tokens.a",
    ),
    "invalid as a whole": Case(
        lambda: caught(lambda: pydantic.TypeAdapter(int).validate_python(SECRET)),
        kinds.PROTOCOL_VIOLATION,
        foreign="pydantic_core._pydantic_core.ValidationError",
        reason="int_parsing at the whole",
    ),
    "invalid in many places": Case(
        invalid(role="user", tokens={f"{index:02}": SECRET for index in range(20)}),
        kinds.PROTOCOL_VIOLATION,
        foreign="pydantic_core._pydantic_core.ValidationError",
        reason="".join(f"int_parsing at tokens.{index:02}; " for index in range(limits.VALIDATION_ERRORS))
        + "and 12 more",
    ),
    "invalid in too many places to look": Case(
        invalid(role="user", tokens={f"{index}": SECRET for index in range(limits.VALIDATION_ERRORS_READ + 1)}),
        kinds.PROTOCOL_VIOLATION,
        foreign="pydantic_core._pydantic_core.ValidationError",
        reason=f"{limits.VALIDATION_ERRORS_READ + 1} validation errors",
    ),
    "invalid under a long name": Case(
        invalid(role="user", tokens={"x" * 100: SECRET}),
        kinds.PROTOCOL_VIOLATION,
        foreign="pydantic_core._pydantic_core.ValidationError",
        reason="int_parsing at tokens." + "x" * limits.VALIDATION_NAME_LENGTH,
    ),
    "off its JSON schema": Case(
        off_schema,
        kinds.PROTOCOL_VIOLATION,
        foreign="jsonschema.exceptions.ValidationError",
        reason="type at $.n",
    ),
    "an error of the application": Case(raised(ValueError("no")), kinds.AGENT_RUN_ERROR, reason="no"),
    "no such file": Case(
        lambda: caught(Path("/nonexistent").read_text),
        kinds.AGENT_RUN_ERROR,
        reason=re.compile(r"\[Errno 2\] No such file or directory: '/nonexistent'"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_real_exception_means(case):
    """Kind, status, text and foreign error of an exception are those of the documented table."""
    case.check()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.foreign])
def test_no_input_and_no_command_line_is_kept(name):
    """What could hold request data or secrets is nowhere in what is kept of another library's error."""
    error = CASES[name].make()
    assert SECRET not in repr(classify(error, boundary=AGENT))
    if isinstance(error, urllib.error.HTTPError):
        error.close()


def test_http_errors_of_the_standard_library_are_listed():
    """`http.client`'s own errors are known by their base, so a new one of a later Python is, too."""
    assert classify(http.client.UnknownProtocol("x"), boundary=AGENT).kind == kinds.PROTOCOL_VIOLATION
