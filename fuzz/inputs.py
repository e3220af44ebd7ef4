"""Inputs for the targets: well-formed ones, and endless mutations of them that a seed repeats."""

import gzip
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random

from gym_failures import limits, packing
from gym_failures.attributes import to_attributes
from gym_failures.header import encode_report
from gym_failures.records import (
    FailureBoundary,
    FailureEvent,
    FailureReport,
    FailureStage,
    ModelFailureDetails,
    SandboxFailureDetails,
    SdkErrorDetails,
)
from gym_failures.rows import with_failures

MODEL = FailureEvent(
    event_id="018f0000000070008000000000000001",
    boundary=FailureBoundary.MODEL,
    failure_kind="provider_quota_exhausted",
    failure_reason="用完了 \u2028 %+\r\n 🔥",
    http_status=429,
    foreign_error=SdkErrorDetails(exception_type="openai.RateLimitError", message="slow down", http_status=429),
    details=ModelFailureDetails(provider_request_id="req", request_upload_complete=True),
)
SANDBOX = FailureEvent(
    event_id="s",
    boundary=FailureBoundary.SANDBOX,
    failure_kind="gpu:ecc_error",
    stage=FailureStage.VERIFICATION,
    exception_type="OSError",
    details=SandboxFailureDetails(
        provider="daytona", sandbox_id="s1", execution_id="x", exit_code=-9, provider_status_reason="OOMKilled"
    ),
)
AGENT = FailureEvent(
    event_id="018f0000000070008000000000000002",
    boundary=FailureBoundary.AGENT,
    failure_kind="agent_run_error",
    operation="simple_agent POST /run",
    operation_id="op",
    attempt_id="op.1",
    cause_id=MODEL.event_id,
)
EVENTS = (MODEL, SANDBOX, AGENT)
REPORTS = (
    FailureReport(),
    FailureReport(events={AGENT.cause_id: MODEL, AGENT.event_id: AGENT}, failure_id=AGENT.event_id),
    FailureReport(events={event.event_id: event for event in EVENTS}, omitted=True),
)
VALUES = [encode_report(report, budget=limits.HEADER_HARD_LIMIT) for report in REPORTS]
BODIES = [packing.unpack(value) for value in VALUES]


def _any_value(value: object) -> dict[str, object]:
    names = {str: "stringValue", bool: "boolValue", int: "intValue"}
    return {names[type(value)]: str(value) if type(value) is int else value}


def _span(number: int, parent: int | None, *events: FailureEvent) -> dict[str, object]:
    own = [{"key": "failure.id", "value": {"stringValue": events[-1].event_id}}] if events else []
    return {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": f"{number:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent:016x}"}),
        "name": "POST /run",
        "kind": 2,
        "startTimeUnixNano": str(number),
        "endTimeUnixNano": str(number + 9),
        "attributes": [*own, {"key": "nemo.gym.rollout.id", "value": {"stringValue": "r"}}],
        "droppedEventsCount": number % 2,
        "status": {"code": 2},
        "events": [
            {
                "timeUnixNano": "5",
                "name": "gym.failure",
                "attributes": [
                    {"key": key, "value": _any_value(value)} for key, value in to_attributes(event, root=False).items()
                ],
            }
            for event in events
        ],
    }


def _line(*spans: dict[str, object]) -> bytes:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "agent"}}]}
    return json.dumps(
        {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "x"}, "spans": spans}]}]}
    ).encode()


def _jaeger(*events: FailureEvent) -> bytes:
    fields = [
        [
            {"key": "event", "value": "gym.failure"},
            *({"key": k, "value": str(v)} for k, v in to_attributes(one).items()),
        ]
        for one in events
    ]
    span = {
        "traceID": "0af7651916cd43dd8448eb211c80319c",
        "spanID": "0000000000000001",
        "operationName": "POST /run",
        "references": [],
        "startTime": 5,
        "duration": 9,
        "tags": [{"key": "span.kind", "value": "server"}, {"key": "failure.id", "value": events[-1].event_id}],
        "logs": [{"timestamp": 5, "fields": pairs} for pairs in fields],
        "processID": "p1",
    }
    processes = {"p1": {"serviceName": "agent", "tags": []}}
    return json.dumps({"data": [{"traceID": span["traceID"], "spans": [span], "processes": processes}]}).encode()


def _framed(*records: bytes) -> bytes:
    return b"".join(len(record).to_bytes(4) + record for record in records)


def _row(report: FailureReport) -> bytes:
    return json.dumps(with_failures({"_ng_task_index": 1, "_ng_rollout_index": 2}, report)).encode()


LINE = _line(_span(1, None, MODEL, AGENT), _span(2, 1, MODEL))
STORED = Path(__file__).parents[1] / "tests" / "data"

SEEDS = {
    "decoder": [*(value.encode() for value in VALUES), ",".join(VALUES).encode(), b"2.eJw", b""],
    "body": BODIES,
    "attributes": [json.dumps(to_attributes(event, root=True, late=True)).encode() for event in EVENTS],
    "reader": [
        LINE,
        _line(_span(1, None, SANDBOX)) + b"\n" + _line(_span(3, 1), _span(1, None)),
        _jaeger(MODEL, AGENT),
        json.dumps({"result": json.loads(LINE)}).encode(),
        b"\n".join(map(_row, REPORTS)),
    ],
    "packed": [
        gzip.compress(LINE + b"\n" + LINE),
        _framed(LINE, LINE),
        (STORED / "collector.pb").read_bytes()[:4_000],
        (STORED / "collector.json.zst").read_bytes()[:4_000],
        (STORED / "collector.pb.zst").read_bytes()[:4_000],
    ],
}
TOKENS = [
    token.encode()
    for token in (
        "null", "true", "false", "NaN", "-Infinity", "0", "-1", "429", "1e999", "9" * 700, "0.5", '""', "[]", "{}",
        "{", "}", "[", "]", ",", ":", '"', "\\", "\\ud800", "\\u0000", "\ufffd", "é", "🔥", "\0", "\n", "1.", ".",
        '"failure_id":"x",', '"events":{', '"omitted":true,', '"cause_id":"s",', '"boundary":"model",', '"details":{},',
    )
]  # fmt: skip
TOKENS += [b"\xff", b"\xed\xa0\x80", b"x" * 130, b"[" * 200]
SCALARS = [
    None, True, False, 0, -1, 429, 2**70, 0.5, 1e300, "", "x", "429", "true", "agent", "model", "sandbox", "s",
    "\ud800", "模" * 2_100, [], {}, [1], {"a": {"b": {"c": [{}]}}},
]  # fmt: skip

EITHER = (True, False)
NO_JSON = frozenset({"decoder", "packed"})
"""Targets whose inputs are no JSON, so that only bytes of them can be changed."""


def mutated(target: str, random: Random) -> Iterator[bytes]:
    """Yield inputs for `target` without end: half keep their JSON well formed, half have bytes changed anywhere."""
    seeds = SEEDS[target]
    while True:
        data = random.choice(seeds)
        if target not in NO_JSON and random.choice(EITHER):
            yield _with_changed_members(data, random)
        else:
            yield _with_changed_bytes(data, seeds, random)


def _with_changed_bytes(data: bytes, seeds: list[bytes], random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4, 8))):
        start = random.randrange(len(changed) + 1)
        end = min(len(changed), start + random.choice((0, 1, 1, 4, 16, 64)))
        match random.randrange(5):
            case 0:
                changed[start:end] = random.randbytes(end - start)
            case 1:
                changed[start:end] = random.choice(TOKENS)
            case 2:
                del changed[start:end]
            case 3:
                changed[start:start] = changed[start:end] * random.choice((1, 2, 50))
            case _:
                other = random.choice(seeds)
                at = random.randrange(len(other) + 1)
                changed[start:end] = other[at : at + random.choice((8, 64, 512))]
    return bytes(changed)


def _with_changed_members(data: bytes, random: Random) -> bytes:
    lines = [json.loads(line) for line in data.splitlines()]
    for _ in range(random.choice((1, 1, 2, 4))):
        _change(random.choice(lines), random)
    return b"\n".join(
        json.dumps(line, ensure_ascii=random.choice(EITHER)).encode("utf-8", "surrogatepass") for line in lines
    )


def _change(node: object, random: Random) -> None:
    """Go down from `node` to a random place and put something else there."""
    while True:
        if isinstance(node, dict) and node:
            place = random.choice(list(node))
        elif isinstance(node, list) and node:
            place = random.randrange(len(node))
        else:
            return
        if isinstance(node[place], dict | list) and node[place] and random.randrange(5):
            node = node[place]
            continue
        match random.randrange(4):
            case 0 | 1:
                node[place] = deepcopy(random.choice(SCALARS))
            case 2:
                del node[place]
            case _ if isinstance(node, dict):
                node[random.choice((*node, "events", "details", "cause_id", "foreign_error", "new"))] = node.pop(place)
            case _:
                node.insert(place, deepcopy(node[place]))
        return
