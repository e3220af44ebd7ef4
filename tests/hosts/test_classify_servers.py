"""What the exceptions of server frameworks and of parsers mean; each is really raised."""

import re

import fastapi
import msgspec
import orjson
import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request

from gym_failures import kinds
from gym_failures.classify import DEFAULT_RULES, _rule_for, classify
from gym_failures.kinds import FailureBoundary
from tests.failing import Case, caught, caught_async
from tests.hosts import test_classify_clients
from tests.test_classify_python import CASES as PYTHON_CASES

SECRET = "s3cr3t"  # noqa: S105 - what must not get out


class Message(BaseModel):
    """What a caller has to send, or a server to answer."""

    n: int


def within_fastapi(answer):
    """Return what a FastAPI server raises or handles when it is sent a secret and would give `answer`."""
    app = fastapi.FastAPI()
    seen = []

    @app.exception_handler(fastapi.exceptions.RequestValidationError)
    def _(_request, error):
        seen.append(error)
        return fastapi.Response(status_code=422)

    @app.post("/run")
    def run(message: Message) -> Message:
        return answer if answer is not None else message

    with TestClient(app) as client:
        raised = caught(lambda: seen.append(None) or client.post("/run", json={"n": SECRET if answer is None else 1}).x)
    return seen[-1] or raised


def caller_gone():
    """Read the body of a request whose caller goes away."""

    async def receive():
        return {"type": "http.disconnect"}

    return caught_async(lambda: Request({"type": "http"}, receive).body())


def sent_to_nobody():
    """Send on a connection that uvicorn knows to be closed."""
    from uvicorn.protocols.utils import ClientDisconnected  # noqa: PLC0415 - newer than the oldest uvicorn supported

    return ClientDisconnected()


CASES = {
    "an answer with a status": Case(
        lambda: fastapi.HTTPException(503, "try later"),
        kinds.AGENT_RUN_ERROR,
        http_status=503,
        reason="503: try later",
    ),
    "an invalid request": Case(
        lambda: within_fastapi(None),
        kinds.PROTOCOL_VIOLATION,
        foreign="fastapi.exceptions.RequestValidationError",
        reason="int_parsing at body.n",
    ),
    "an invalid answer": Case(
        lambda: within_fastapi({"n": SECRET}),
        kinds.PROTOCOL_VIOLATION,
        foreign="fastapi.exceptions.ResponseValidationError",
        reason="int_parsing at response.n",
    ),
    "the caller is gone": Case(caller_gone, kinds.CANCELLED),
    "the caller is gone before the answer": Case(sent_to_nobody, kinds.CANCELLED),
    "no JSON for orjson": Case(
        lambda: caught(lambda: orjson.loads(SECRET)),
        kinds.PROTOCOL_VIOLATION,
        foreign=f"{orjson.JSONDecodeError.__module__}.JSONDecodeError",
        reason=re.compile("unexpected character.*"),
    ),
    "no JSON for msgspec": Case(
        lambda: caught(lambda: msgspec.json.decode(SECRET)),
        kinds.PROTOCOL_VIOLATION,
        reason=re.compile("JSON is malformed.*"),
    ),
    "an invalid message for msgspec": Case(
        lambda: caught(lambda: msgspec.json.decode(f'["{SECRET}"]', type=list[int])),
        kinds.PROTOCOL_VIOLATION,
        reason="Expected `int`, got `str` - at `$[0]`",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_real_exception_means(case):
    """Kind, status, text and foreign error of an exception are those of the documented table."""
    case.check()


@pytest.mark.parametrize("name", [name for name in CASES if "invalid" in name or "JSON" in name])
def test_no_input_is_kept(name):
    """What a request or an answer held is not in what is kept of the error about it."""
    assert SECRET not in repr(classify(CASES[name].make(), boundary=FailureBoundary.AGENT))


def test_no_key_of_the_input_is_kept():
    """A location names keys of the input too, of a mapping and of what is one too many; only names are shown of it."""

    class Strict(BaseModel):
        model_config = ConfigDict(extra="forbid")
        scores: dict[str, int]

    error = caught(lambda: Strict.model_validate({"scores": {"Jane Doe, 1970": "x"}, "my private text": 1}))
    reason = classify(error, boundary=FailureBoundary.AGENT).reason
    assert reason == "int_parsing at scores.*; extra_forbidden at *"


IN_A_GYM = {("nemo_gym.judge.JudgeError",)}
"""Rows that tests/gym meets, because only an environment of NeMo Gym has these exceptions."""


def test_every_row_of_the_table_is_met_by_a_real_exception():
    """No row of the table is there on hearsay: each is the one that some real exception of these tests is known by."""
    cases = {**PYTHON_CASES, **test_classify_clients.CASES, **CASES}
    met = set()
    for name, case in cases.items():
        if " at the agent" in name and re.search(r"\d{3}", name):
            continue  # the same exception as at the model
        error = case.make()
        node = error
        while node is not None:
            met.add(_rule_for(node, None, case.boundary if node is error else None))
            node = node.__cause__ or node.__context__
    assert {rule.types for rule in DEFAULT_RULES if rule not in met} == IN_A_GYM
