"""What takes OTLP over HTTP in place of a Collector, and answers as it is told."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gym_failures.reading.otlp_json import parse


class Receiver:
    """What a receiver got, and how it answers."""

    def __init__(self):
        """Answer that all is well."""
        self.requests = []
        self.answers = []
        """Statuses and bodies to answer with first."""
        self.url = ""

    @property
    def spans(self):
        """The spans of all requests, as records."""
        return [span for _, _, body in self.requests for span in parse(body).spans]


@contextmanager
def receiving():
    """Run a receiver within the block."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = receiver.answers.pop(0) if receiver.answers else (200, b"{}")
            receiver.requests.append((self.path, self.headers, body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        receiver.url = f"http://127.0.0.1:{running.server_port}"
        try:
            yield receiver
        finally:
            running.shutdown()
            thread.join()
