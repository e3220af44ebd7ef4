"""Which rollout a request belongs to, as NeMo Gym says it: in the path of a request, or in the body of a run."""

import re
from typing import Final

from opentelemetry.trace import Span

from gym_failures.rollout_ids import Attributes, of_run, value_of
from gym_failures.text import wire_id

__all__ = ["Attributes", "of_run", "split_path", "value_of", "write"]

# The prefix that NeMo Gym puts before the path of a call that belongs to a rollout, with the id's own pattern
# (`nemo_gym.rollout_correlation`), and the segment that may follow it (`nemo_gym.config_types`).
_PREFIX: Final = "/ng-rollout/"
_PREFIXED: Final = re.compile(r"/ng-rollout/([A-Za-z0-9][A-Za-z0-9._-]*)(?:/training-token-capture)?(/.*)")


def split_path(path: str) -> tuple[str | None, str]:
    """Return the rollout's id out of a request's path, None without one, and the path without it.

    The id is bounded as in the rows, by `wire_id`.
    """
    if not path.startswith(_PREFIX):  # as nearly always
        return None, path
    match = _PREFIXED.fullmatch(path)
    return (None, path) if match is None else (wire_id(match[1]), match[2])


def write(span: Span, attributes: Attributes) -> None:
    """Say on `span` which rollout it belongs to."""
    if attributes and span.is_recording():
        span.set_attributes(attributes)
