"""Real failures for tests: peers that misbehave on a loopback port, and the exceptions that calls to them raise."""

import asyncio
import contextlib
import re
import socket
import struct
import threading
import urllib.error
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from gym_failures.classify import classify
from gym_failures.kinds import FailureBoundary, FailureStage

LOOPBACK = "127.0.0.1"

Act = Callable[[socket.socket], None]


@dataclass(frozen=True)
class Case:
    """An exception, made by a real call where there is one, and what an observer at a boundary makes of it."""

    make: Callable[[], BaseException]
    kind: str
    boundary: FailureBoundary = FailureBoundary.AGENT
    stage: FailureStage | None = None
    http_status: int | None = None
    reason: str | re.Pattern[str] = ""
    foreign: str | None = None
    """Type of the foreign error that is kept; None where the exception is the application's own."""

    def check(self) -> None:
        """Compare all that is told of the exception."""
        error = self.make()
        found = classify(error, boundary=self.boundary, stage=self.stage)
        told = (found.kind, found.http_status, found.foreign_error and found.foreign_error.exception_type)
        assert told == (self.kind, self.http_status, self.foreign), f"{told} of {error!r}"
        as_expected = re.fullmatch(self.reason, found.reason) if isinstance(self.reason, re.Pattern) else None
        assert as_expected or found.reason == self.reason, f"{found.reason!r} of {error!r}"
        if found.foreign_error is not None:
            kept = (found.foreign_error.message, found.foreign_error.http_status)
            assert kept == (found.reason, found.http_status)
        if isinstance(error, urllib.error.HTTPError):
            error.close()


def caught(call: Callable[[], object]) -> BaseException:
    """Return what `call` raises."""
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - cancellation and exit too
        return error
    raise AssertionError("the call did not fail")


def caught_async(call: Callable[[], Awaitable[object]]) -> BaseException:
    """Return what the coroutine that `call` returns raises."""

    async def run() -> BaseException:
        try:
            await call()
        except BaseException as error:  # noqa: BLE001 - cancellation too
            return error
        raise AssertionError("the call did not fail")

    return asyncio.run(run())


def answers(data: bytes) -> Act:
    """Read a request, send `data` and close the connection."""

    def act(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(data)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):
            pass

    return act


def reply(status: int, reason: str = "", body: str = "", *, content_type: str = "text/plain", headers: str = "") -> Act:
    """Answer a request over HTTP; `headers` are whole lines."""
    head = f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: {content_type}\r\n{headers}"
    return answers(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())


def _read_request(connection: socket.socket) -> None:
    """Read a whole request: what is left unread turns the close of a connection into a reset."""
    read = b""
    while b"\r\n\r\n" not in read and (more := connection.recv(65_536)):
        read += more
    head, _, body = read.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    left = int(length[1]) - len(body) if length else 0
    while left > 0 and (more := connection.recv(65_536)):
        left -= len(more)


def drops(connection: socket.socket) -> None:
    """Read a request and close the connection without a word."""
    _read_request(connection)


def resets(connection: socket.socket) -> None:
    """Read a request and reset the connection."""
    _read_request(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def is_silent(connection: socket.socket) -> None:
    """Keep the connection and say nothing, until the other side gives up."""
    while connection.recv(65_536):
        pass


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def peer(act: Act) -> Iterator[int]:
    """Serve every connection with `act`, and cut all of them at the end; gives the port."""

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            act(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connections.append(connection)
                threads.append(threading.Thread(target=serve, args=(connection,), daemon=True))
                threads[-1].start()

    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []
    with socket.create_server((LOOPBACK, 0)) as listener:
        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        try:
            yield listener.getsockname()[1]
        finally:
            _cut(listener)
            acceptor.join()  # no connection is added from here on
            for connection in connections:
                _cut(connection)
            for thread in threads:
                thread.join()


def at_peer(call: Callable[[str], BaseException], act: Act, scheme: str = "http") -> Callable[[], BaseException]:
    """Return a function that makes `call` to a peer that does `act`."""

    def make() -> BaseException:
        with peer(act) as port:
            return call(f"{scheme}://{LOOPBACK}:{port}/path")

    return make


def at_nobody(call: Callable[[str], BaseException]) -> Callable[[], BaseException]:
    """Return a function that makes `call` to a port that nobody listens on."""

    def make() -> BaseException:
        with nobody() as port:
            return call(f"http://{LOOPBACK}:{port}/path")

    return make


def at_no_name(call: Callable[[str], BaseException]) -> Callable[[], BaseException]:
    """Return a function that makes `call` to a name that does not resolve (RFC 6761, section 6.4)."""
    return lambda: call("http://name.invalid/path")


@contextlib.contextmanager
def nobody() -> Iterator[int]:
    """Give a port that nobody listens on, and that nobody else can take meanwhile."""
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        yield bound.getsockname()[1]
