"""Which rollout something belongs to, by what NeMo Gym writes into the body of a run and into its saved row."""

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from gym_failures import limits, semconv
from gym_failures.text import wire_id

Attributes = dict[str, str | int]

_ROLLOUT_ID: Final = "_ng_rollout_id"
_CAPTURE_ID: Final = "capture_rollout_id"  # the field of a run request whose alias that is
_TASK_INDEX: Final = "_ng_task_index"
_ROLLOUT_INDEX: Final = "_ng_rollout_index"
_ATTEMPT_INDEX: Final = "_ng_attempt_index"
_EPISODE_ID: Final = "episode_id"


def of_run(body: object) -> Attributes:
    """Return what the body of a run, or a row, says of its rollout, as attributes of a span; it may be nothing.

    `body` is a mapping or a model: a run request, or an episode's. The id is made as NeMo Gym makes it, and bounded as
    `wire_id` does it, for a row as for a span. Numbers that no attribute can hold are left out.
    """
    attributes: Attributes = {}
    for key, name in (
        (semconv.NEMO_GYM_TASK_INDEX, _TASK_INDEX),
        (semconv.NEMO_GYM_ROLLOUT_INDEX, _ROLLOUT_INDEX),
        (semconv.NEMO_GYM_ATTEMPT_INDEX, _ATTEMPT_INDEX),
    ):
        number = value_of(body, name)
        if _is_sent(number):
            attributes[key] = number
    episode = value_of(body, _EPISODE_ID)
    rollout_id: object = value_of(episode, "rollout_id")
    attempt = value_of(episode, "attempt")
    if _is_sent(attempt):
        attributes[semconv.NEMO_GYM_ATTEMPT_INDEX] = attempt
    rollout_id = rollout_id or value_of(body, _ROLLOUT_ID) or value_of(body, _CAPTURE_ID) or _of_indices(attributes)
    if isinstance(rollout_id, str):
        again = attributes.get(semconv.NEMO_GYM_ATTEMPT_INDEX)
        attributes[semconv.NEMO_GYM_ROLLOUT_ID] = wire_id(f"{rollout_id}-a{again}" if again else rollout_id)
    return attributes


def _is_sent(number: object) -> TypeGuard[int]:
    """Tell whether `number` is a whole one that an attribute can hold."""
    return isinstance(number, int) and -(2**limits.OTLP_INTEGER_BITS) <= number < 2**limits.OTLP_INTEGER_BITS


def value_of(source: object, name: str) -> Any:  # noqa: ANN401 - whatever a program has put there
    """Return a field of a mapping or a model, None where it has none."""
    if isinstance(source, Mapping):
        return source.get(name)
    return None if source is None else getattr(source, name, None)


def _of_indices(attributes: Attributes) -> str | None:
    task, rollout = attributes.get(semconv.NEMO_GYM_TASK_INDEX), attributes.get(semconv.NEMO_GYM_ROLLOUT_INDEX)
    return None if task is None or rollout is None else f"{task}-{rollout}"
