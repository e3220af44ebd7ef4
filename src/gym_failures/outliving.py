"""What stands for a request in a context that outlives it, such as that of a connection which a client keeps."""

from typing import Any, Final
from weakref import ref

from opentelemetry import trace
from opentelemetry.trace import Span

from gym_failures.log import FailureLog, log_of
from gym_failures.recorder import FailureRecorder, default_recorder
from gym_failures.recording import CurrentLog, current, record_failure
from gym_failures.records import FailureEvent


class Outliving:
    """A request for as long as something else holds it; afterwards, nothing: what fails then is nobody's."""

    __slots__ = ("_holder",)

    def __init__(self, holder: CurrentLog) -> None:
        """Stand for `holder`, without keeping it."""
        self._holder: Final = ref(holder)

    @property
    def log(self) -> FailureLog | None:
        """The log of the request; None when that is gone."""
        return log_of(self._holder())

    @property
    def span(self) -> Span:
        """The span that stands for the request; the current one when that is gone."""
        holder = self._holder()
        return trace.get_current_span() if holder is None else holder.span

    @property
    def recorder(self) -> FailureRecorder:
        """What the request's log writes with; the process's own when that is gone."""
        holder = self._holder()
        return default_recorder() if holder is None else holder.recorder

    def observe_failure(self, failure: BaseException | FailureEvent, **context: Any) -> FailureEvent | None:  # noqa: ANN401 - passed on
        """Record a failure, see `FailureLog.observe_failure` and, for one of no request, `record_failure`."""
        holder = self._holder()
        if holder is not None:
            return holder.observe_failure(failure, **context)
        token = current.set(None)
        try:
            return record_failure(failure, **context)
        finally:
            current.reset(token)
