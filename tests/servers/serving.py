"""A uvicorn server in a thread of its own, and a client that shows every byte of what it answers."""

import queue
import socket
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self

import uvicorn

HOST = "127.0.0.1"
PATIENCE = 60.0  # seconds until a server or a peer that does not answer is taken for hung


class _Server(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.listening.set()


class Serving:
    """Serve an app on a free loopback port within a `with` block."""

    def __init__(self, app: Any, *, lifespan: str = "auto", grace: int | None = None) -> None:
        """Serve `app`; `grace` is how many seconds the end waits for requests before it cancels them, None for ever."""
        self._socket = socket.create_server((HOST, 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}"
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            loop="asyncio",
            lifespan=lifespan,
            log_config=None,
            access_log=False,
            date_header=False,
            timeout_graceful_shutdown=grace,
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        assert self._server.listening.wait(PATIENCE), "the server does not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop, when every request has ended or its grace is over."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the server does not stop"


class Switch:
    """An ASGI app that hands each request to the app of the moment, and tells how that ended."""

    def __init__(self) -> None:
        self._app: Any = None
        self._left: queue.Queue[BaseException | None] = queue.Queue()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one scope."""
        left = self._left
        try:
            await self._app(scope, receive, send)
        except BaseException as error:
            left.put(error)
            raise
        left.put(None)

    def serve(self, app: Any) -> None:
        """Hand what comes from now on to `app`."""
        self._app = app
        self._left = queue.Queue()

    def left(self) -> BaseException | None:
        """Wait for the end of a request, and return the exception that left the app for the server."""
        return self._left.get(timeout=PATIENCE)


class Reply(NamedTuple):
    """What came back over the socket."""

    status: int
    headers: list[tuple[str, str]]
    """In their order, each as often as it was sent."""
    body: bytes
    """As it was sent, the frames of a chunked body included."""

    def values(self, name: str) -> list[str]:
        """Return every value of a header, whose name is in lower case."""
        return [value for key, value in self.headers if key == name]

    def without(self, name: str) -> "Reply":
        """Return the reply without a header."""
        return self._replace(headers=[(key, value) for key, value in self.headers if key != name])

    @property
    def content(self) -> bytes:
        """The body without the frames of its chunks."""
        return b"".join(self.chunks) if ("transfer-encoding", "chunked") in self.headers else self.body

    @property
    def chunks(self) -> list[bytes]:
        """The chunks of a chunked body, each as it was sent; the last one of a whole body is empty."""
        found, rest = [], self.body
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            found.append(rest[:length])
            rest = rest[length + 2 :]
        return found


def request(method: str = "GET", path: str = "/", headers: Iterable[tuple[str, str]] = (), body: bytes = b"") -> bytes:
    """Return a request after which the server closes the connection."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {HOST}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def ask(port: int, message: bytes) -> Reply:
    """Send a request and return all that comes back until the server closes the connection."""
    with socket.create_connection((HOST, port), timeout=PATIENCE) as connection:
        connection.sendall(message)
        received = b"".join(iter(lambda: connection.recv(65_536), b""))
    return parse(received)


def parse(received: bytes) -> Reply:
    """Return a reply as it was received; replies of status 1xx before it are passed over."""
    head, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    status = int(status_line.split(" ")[1])
    if status < 200:
        return parse(body)
    pairs = (line.partition(": ") for line in lines)
    return Reply(status, [(name.lower(), value) for name, _, value in pairs], body)
