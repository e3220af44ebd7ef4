"""Exceptions in the shapes that tests of chains need, and what is told of the failures that are made of them."""

import itertools
from typing import Any

from gym_failures.chain import Failures
from gym_failures.exceptions import FailureError


def chained(*errors: BaseException) -> BaseException:
    """Return the first of `errors`, each raised from the next."""
    for effect, cause in itertools.pairwise(errors):
        effect.__cause__ = cause
    return errors[0]


def failure(boundary: str = "model", kind: str = "provider_unavailable", **fields: Any) -> FailureError:
    """Make a failure that nobody has recorded."""
    return FailureError(kind, boundary=boundary, **fields)


def links(found: Failures) -> list[tuple[str, str, str | None, str, str | None]]:
    """Return what is told of each event: kind, boundary, type, id and cause."""
    return [
        (event.failure_kind, event.boundary.value, event.exception_type, event.event_id, event.cause_id)
        for event in found.events
    ]


def recorded_by(found: Failures, owner: str) -> Failures:
    """Do what a log does with the events that nobody has recorded."""
    for mark in found.fresh:
        mark.owner = owner
    return found
