"""The redaction switch removes what may hold secrets before it leaves the host, and nothing else."""

import json

import pytest
from opentelemetry.trace import StatusCode

from backends.stack import Collector
from gym_failures import kinds, semconv
from gym_failures.records import FailureEvent, SandboxFailureDetails, SdkErrorDetails
from tests.backends.fleet import running
from tests.backends.test_search import spans_of

WORDS = "the dog's name is Rex"
LEFT = "?dog=Rex"
"""What an instrumentation of somebody else writes, and the switch leaves."""
STARTED = {
    "service.instance.id": "one",
    "process.runtime.name": "cpython",
    "process.command_line": WORDS,
    "process.command_args": ["--name", WORDS],
}
TEXTS = {
    semconv.FAILURE_REASON,
    semconv.FOREIGN_ERROR_MESSAGE,
    semconv.SANDBOX_STATUS_REASON,
    "exception.message",
    "exception.stacktrace",
}
SWITCH = {
    "unset": {},
    "empty": {"REDACT": ""},
    "false": {"REDACT": "false"},
    "true": {"REDACT": "true"},
    "another word": {"REDACT": "yes"},
}
OFF = ("unset", "empty", "false")


def confess(log):
    """Put the secret into every text that a span can carry."""
    log.fail(
        FailureEvent(
            event_id="redact1",
            boundary="sandbox",
            failure_kind=kinds.PROVIDER_OOM_KILLED,
            failure_reason=WORDS,
            foreign_error=SdkErrorDetails(exception_type="sdk.Error", message=WORDS, http_status=500),
            details=SandboxFailureDetails(provider="local", provider_status_reason=WORDS, exit_code=137),
        )
    )
    log.span.record_exception(ValueError(WORDS))
    texts = {"exception.message": WORDS, "exception.stacktrace": WORDS}
    log.span.add_event("somebody else's", texts)
    log.span.set_attributes({**texts, "url.query": LEFT})
    log.span.set_status(StatusCode.ERROR, WORDS)


@pytest.fixture
def ways(jaeger, prometheus, gateway):
    """Say where a Collector of each file sends what it gets, so that all ends in the shared Jaeger."""
    return {
        "agent.yaml": {"GATEWAY": gateway.grpc},
        "all-in-one.yaml": {"JAEGER": jaeger.grpc, "PROMETHEUS": prometheus.write_url},
    }


@pytest.fixture(params=["agent.yaml", "all-in-one.yaml"])
def collector(request, tmp_path, switch, ways):
    """Run a Collector of either file that has the switch."""
    with Collector(request.param, tmp_path, to=ways[request.param], settings=SWITCH[switch]) as running_:
        yield running_


@pytest.mark.parametrize("switch", SWITCH)
def test_the_switch(collector, switch, jaeger, prometheus, eventually):
    """Off, texts pass; on, or at any other word, no text passes, and all else of the failure still does.

    No command line is a label at any position of it.
    """
    name = f"{collector.name}-{switch}"
    with running(collector.http, name, process=STARTED) as fleet:
        rollout = fleet.rollout(confess)
        fleet.flush()
        eventually(lambda: bool(jaeger.find(f"model-{name}", failure_id="redact1")), expected=True)
        document = jaeger.trace(rollout.trace_id)
        told = f'target_info{{job="model-{name}"}}'
        eventually(lambda: bool(prometheus.query(told)), expected=True)
        ((labels, _),) = prometheus.query(told)
    events = [
        {one["key"]: next(iter(one["value"].values())) for one in event.get("attributes", ())}
        for span in spans_of(document)
        for event in span.get("events", ())
    ]
    seen = {key for event in events for key in event}
    assert (WORDS in json.dumps(document, ensure_ascii=False)) == (switch in OFF)
    assert not {"process_command_line", "process_command_args"} & labels.keys()
    assert LEFT in json.dumps(document)
    assert (seen & TEXTS) == (TEXTS if switch in OFF else set())
    (failure, *_) = (event for event in events if event.get(semconv.FAILURE_ID) == "redact1")
    assert failure[semconv.FAILURE_KIND] == kinds.PROVIDER_OOM_KILLED
    assert failure[semconv.FOREIGN_ERROR_TYPE] == "sdk.Error"
    assert int(failure[semconv.SANDBOX_EXIT_CODE]) == 137
