"""How many requests each service had, and how many of them failed: the only thing that needs spans of good traces."""

from collections import Counter
from typing import NamedTuple

from gym_failures import semconv
from gym_failures.reading.model import Span, SpanKind, SpanRecord


class Requests(NamedTuple):
    """The requests of one service."""

    all: int
    failed: int
    """Those with a failure of their own."""


class Census:
    """Counts the requests of every span that it sees; copies of one span count once each."""

    def __init__(self) -> None:
        """Start from nothing."""
        self._all: Counter[str | None] = Counter()
        self._failed: Counter[str | None] = Counter()

    def see(self, span: Span) -> None:
        """Count a span if it is a server's."""
        if span.kind is not SpanKind.SERVER:
            return
        service = span.service
        self._all[service] += 1
        if isinstance(span, SpanRecord) and semconv.FAILURE_ID in span.attributes:
            self._failed[service] += 1

    def add(self, other: "Census") -> None:
        """Count what another has counted."""
        for service, number in other.requests().items():
            self._all[service] += number.all
            self._failed[service] += number.failed

    def requests(self) -> dict[str | None, Requests]:
        """Return what was counted, by service; None is that of spans which name none."""
        return {service: Requests(number, self._failed[service]) for service, number in self._all.items()}
