"""What takes OTLP over HTTP in place of a Collector, and answers as it is told."""

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from gym_failures.reading.otlp_json import parse
from tests.answering import answering


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

    with answering(Handler) as receiver.url:
        yield receiver
