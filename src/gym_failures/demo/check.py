"""Whether what the servers of a run replied is what its spans tell."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gym_failures.agreement import disagreements
from gym_failures.demo.wire import replies
from gym_failures.reading import SpanKind, read_files


class Agreement(NamedTuple):
    """What comes of comparing every reply with the spans of its request."""

    replies: int
    """Replies that were compared."""
    reports: int
    """Those of them that brought a report; the spans of the others must tell of no failure."""
    differing: dict[str, list[str]]
    """Where replies and spans differ, by the id of the span that made the request."""

    @property
    def holds(self) -> bool:
        """Whether there were reports, and none differs."""
        return self.reports > 0 and not self.differing


def compare(folder: Path, spans: Iterable[Path]) -> Agreement:
    """Compare every reply of the run in `folder` with the report that is rebuilt from the run's files of spans."""
    # A server's span is the child of the span that called it, and that one's id is what a reply is known by.
    requests = {
        request.span.parent_id: request
        for request in read_files(spans, by="request")
        if request.span.kind is SpanKind.SERVER
    }
    sent = list(replies(folder))
    found = {reply.caller: disagreements(reply.report, requests.get(reply.caller)) for reply in sent}
    return Agreement(
        len(sent),
        sum(reply.report is not None for reply in sent),
        {caller: differences for caller, differences in found.items() if differences},
    )
