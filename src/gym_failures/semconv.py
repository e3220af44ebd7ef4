"""Names that leave the process: event, attributes, metrics, header.

The mission's metric label is ``failure_kind``, so the failure's own attributes live under ``failure.*``; ``gym.*`` and
``nemo.gym.*`` name what belongs to Gym itself. Names that OpenTelemetry already defines (``exception.type``,
``http.response.status_code``) are used as they are. Standard library only.
"""

from typing import Final

SCOPE: Final = "gym_failures"
"""Instrumentation scope of every span and metric that this package makes."""

EVENT_NAME: Final = "gym.failure"
"""Name of the span event. Constant, because a name that changes, or is not UTF-8, can lose a whole export batch."""

# Attributes of the event, in the order of design (see attributes.py for the table).
FAILURE_REASON: Final = "failure.reason"
FAILURE_OPERATION: Final = "failure.operation"
FAILURE_OPERATION_ID: Final = "failure.operation_id"
FAILURE_ATTEMPT_ID: Final = "failure.attempt_id"
FAILURE_STAGE: Final = "failure.stage"
EXCEPTION_TYPE: Final = "exception.type"
HTTP_RESPONSE_STATUS_CODE: Final = "http.response.status_code"
FOREIGN_ERROR_TYPE: Final = "failure.foreign_error.type"
FOREIGN_ERROR_MESSAGE: Final = "failure.foreign_error.message"
FOREIGN_ERROR_HTTP_STATUS: Final = "failure.foreign_error.http_status"
SANDBOX_PROVIDER: Final = "failure.sandbox.provider"
SANDBOX_ID: Final = "failure.sandbox.sandbox_id"
SANDBOX_EXECUTION_ID: Final = "failure.sandbox.execution_id"
SANDBOX_EXIT_CODE: Final = "failure.sandbox.exit_code"
SANDBOX_STATUS_REASON: Final = "failure.sandbox.provider_status_reason"
MODEL_PROVIDER_REQUEST_ID: Final = "failure.model.provider_request_id"
MODEL_UPLOAD_COMPLETE: Final = "failure.model.request_upload_complete"
FAILURE_ORIGIN: Final = "failure.origin"
FAILURE_ROOT: Final = "failure.root"
FAILURE_LATE: Final = "failure.late"
FAILURE_CAUSE_ID: Final = "failure.cause_id"
FAILURE_BOUNDARY: Final = "failure.boundary"
FAILURE_KIND: Final = "failure.kind"
FAILURE_ID: Final = "failure.id"

ORIGIN_LOCAL: Final = "local"
"""This process was the first to observe the failure."""
ORIGIN_REMOTE: Final = "remote"
"""The failure is known from somewhere else: a reply, or another request of this process."""

# Attributes of the span, beside FAILURE_ID, FAILURE_KIND and FAILURE_BOUNDARY of its own failure.
FAILURE_OMITTED: Final = "failure.omitted"
ERROR_TYPE: Final = "error.type"
"""The kind of the own failure as it is counted, on spans of ours only: on others it is for who opened them."""
NEMO_GYM_ROLLOUT_ID: Final = "nemo.gym.rollout.id"
NEMO_GYM_TASK_INDEX: Final = "nemo.gym.task_index"
NEMO_GYM_ROLLOUT_INDEX: Final = "nemo.gym.rollout_index"
NEMO_GYM_ATTEMPT_INDEX: Final = "nemo.gym.attempt_index"

NEMO_RUN_ID: Final = "nemo.run.id"
"""Attribute of a process, as NeMo Gym names it: the run that it was started for."""

OVERFLOW_SPAN_NAME: Final = "gym.failure"
"""Short span that carries a failure which its own span can no longer take."""

ROLLOUT_SPAN_NAME: Final = "gym.rollout"
"""Span of one rollout in the collection client. NeMo Gym's own telemetry calls that of an agent's request so too."""
NEMO_GYM_SERVER_NAME: Final = "nemo.gym.server.name"
"""Attribute of a process; NeMo Gym's own telemetry has it on the spans of a server's requests as well."""

WAITING_SPAN_NAME: Final = "gym.waiting"
"""Short span that tells of a request which still runs, with copies of what it has observed so far."""
WAITING_DURATION: Final = "gym.waiting.duration"
"""Age of the request, in seconds."""
WAITING_FAILURES: Final = "gym.waiting.failures"
"""Failures that it has observed so far, those that a bound left out included."""
WAITING_OPERATION: Final = "gym.waiting.operation"

# Metrics.
METRIC_FAILURES: Final = "gym.failures"
METRIC_REQUESTS_FAILED: Final = "gym.requests.failed"
METRIC_DROPPED: Final = "gym.failures.dropped"
METRIC_DECODE_ERRORS: Final = "gym.failures.header.decode_errors"
METRIC_HEADER_SIZE: Final = "gym.failures.header.size"
METRIC_HEADER_CUT: Final = "gym.failures.header.cut"
METRIC_REASON: Final = "reason"
"""The one attribute of our own health counters: why something was dropped (`selfmetrics.Loss`, or the cause of a guard
that met an error of ours) or refused (`packing.Refusal`). A constant of ours, never text from outside."""

# What the shipped configurations count out of span events; `events` is their connector's own word.
METRIC_SPAN_EVENTS: Final = "gym.failures.span.events"
"""Failure events that came to the gateway, before any sampling there."""
METRIC_STORED_EVENTS: Final = "gym.failures.stored.events"
"""Failure events that Jaeger was given to store."""

KIND_OTHER: Final = "_OTHER"
"""What a kind outside the vocabulary counts under, as OpenTelemetry names unknown values of ``error.type``."""

HEADER_NAME: Final = "gym-failure-report"
STREAM_COMMENT_PREFIX: Final = ": gym-failure-report "
"""Start of the last server-sent-event comment of a stream that broke after its reply had begun."""

ROW_FAILURE_EVENTS: Final = "_ng_failure_events"
ROW_FAILURE_ID: Final = "_ng_failure_id"
ROW_FAILURE_TRACE_ID: Final = "_ng_failure_trace_id"
ROW_FAILURE_OMITTED: Final = "_ng_failure_omitted"

LOGGER_FAILURES: Final = "gym_failures.failures"
"""The ``logging`` logger whose every record is one failure as one line of JSON."""

EXCEPTION_MARK: Final = "_gym_failure"
"""The one attribute left on an exception: a `marks.Mark`, with its own failure and that one's causes."""
