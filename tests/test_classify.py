"""How exceptions are told apart: by boundary, status, shape and rules, however hostile they are.

What the exceptions of each library mean is in test_classify_python.py and, for clients and SDKs, in tests/hosts.
"""

import http
import urllib.error

import pytest

from gym_failures import kinds
from gym_failures.classify import DEFAULT_RULES, Rule, classify, default_kind, kind_for_status, kind_of_reply
from gym_failures.kinds import FailureBoundary, FailureStage
from tests.failing import caught

SECRET = "s3cr3t"  # noqa: S105 - what must not get out
AGENT, MODEL = FailureBoundary.AGENT, FailureBoundary.MODEL


BY_BOUNDARY = {
    ("agent", None): "agent_run_error",
    ("collection", None): "agent_request_failed",
    ("environment", None): "environment_server_failed",
    ("harness", None): "agent_run_error",
    ("model", None): "provider_unavailable",
    ("resources_server", None): "resources_server:tool_error",
    ("resources_server", "seed"): "resources_server:tool_error",
    ("resources_server", "verification"): "verifier_error",
    ("agent", "verification"): "agent_run_error",
    ("sandbox", None): "provider_unavailable",
}


@pytest.mark.parametrize(("boundary", "stage"), BY_BOUNDARY, ids=str)
def test_an_unknown_exception_means_what_its_boundary_says(boundary, stage):
    """Of an exception that no rule knows, only the place is known; at verification it is the verifier's error."""
    at = FailureStage(stage) if stage else None
    found = classify(LookupError("x"), boundary=FailureBoundary(boundary), stage=at)
    assert found == (BY_BOUNDARY[boundary, stage], None, None, "x", False)
    assert default_kind(FailureBoundary(boundary), at) == BY_BOUNDARY[boundary, stage]


def test_every_boundary_has_a_registered_or_namespaced_kind():
    """No boundary is forgotten, and none gives a kind outside of the vocabulary."""
    for boundary in FailureBoundary:
        kind = default_kind(boundary)
        assert kinds.is_registered(kind) or kinds.is_namespaced(kind)


STATUSES = {
    (None, None): None,
    (200, None): None,
    (302, None): None,
    (399, None): None,
    (400, None): "protocol_violation",
    (401, None): "provider_unavailable",
    (403, None): "provider_unavailable",
    (404, None): "protocol_violation",
    (408, None): "transport_timeout",
    (409, None): "protocol_violation",
    (422, None): "protocol_violation",
    (429, None): "provider_quota_exhausted",
    (500, None): "provider_unavailable",
    (502, None): "provider_unavailable",
    (503, None): "provider_unavailable",
    (504, None): "transport_timeout",
    (599, None): "provider_unavailable",
    (600, None): None,
    (400, "insufficient_quota"): "provider_quota_exhausted",
    (403, "RESOURCE_EXHAUSTED"): "provider_quota_exhausted",
    (None, "insufficient_quota"): "provider_quota_exhausted",
    (400, "invalid_request"): "protocol_violation",
}


@pytest.mark.parametrize(("status", "code"), STATUSES, ids=str)
def test_what_a_providers_status_means(status, code):
    """A status, or before it a quota code, names the kind; a status that is no error names none."""
    assert kind_for_status(status, code=code) == STATUSES[status, code]


@pytest.mark.parametrize(
    ("status", "boundary", "expected"),
    [
        (500, "model", "provider_unavailable"),
        (500, "agent", "agent_run_error"),
        (500, "collection", "agent_request_failed"),
        (422, "environment", "environment_server_failed"),
        (422, "sandbox", "protocol_violation"),
        (429, "agent", "provider_quota_exhausted"),
        (504, "collection", "transport_timeout"),
        (200, "agent", "agent_run_error"),
    ],
)
def test_a_status_speaks_of_a_provider_only_where_the_peer_is_one(status, boundary, expected):
    """A server of Gym that answers 500 is no unavailable provider to its caller; 429, 408 and 504 mean one thing."""
    assert kind_of_reply(status, boundary=FailureBoundary(boundary)) == expected


class SdkError(Exception):
    """An error of a provider's SDK that nobody has heard of."""

    def __init__(self, **fields):
        super().__init__(f"request was {SECRET}")
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status_code": 429, "body": {"message": "slow down"}}, ("provider_quota_exhausted", 429, "slow down")),
        ({"status_code": 401, "body": {"error": {"message": "who?"}}}, ("provider_unavailable", 401, "who?")),
        ({"status_code": 400, "response": object(), "message": "bad"}, ("protocol_violation", 400, "bad")),
        ({"status_code": 400, "body": {"code": "insufficient_quota"}}, ("provider_quota_exhausted", 400, "")),
        ({"status_code": 409, "request": object()}, ("protocol_violation", 409, "")),
        ({"status_code": http.HTTPStatus.NOT_FOUND, "body": {}}, ("protocol_violation", 404, "")),
        ({"status_code": 503, "body": b"raw"}, ("provider_unavailable", 503, "")),
    ],
)
def test_an_unknown_sdk_error_is_known_by_its_shape(fields, expected):
    """An error with an HTTP status, and the body, request or response it came with, is one of a provider's SDK."""
    found = classify(SdkError(**fields), boundary=AGENT)
    assert (found.kind, found.http_status, found.reason) == expected
    assert found.foreign_error.exception_type == "tests.test_classify.SdkError"
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    "fields",
    [
        {"status_code": 500},
        {"status_code": "500", "body": {}},
        {"status_code": True, "body": {}},
        {"status_code": 99, "body": {}},
        {"status_code": 600, "body": {}},
        {"body": {}},
    ],
)
def test_other_errors_do_not_have_that_shape(fields):
    """An application's own error with a status, and one whose status is none, are not taken for an SDK's."""
    found = classify(SdkError(**fields), boundary=AGENT)
    assert (found.kind, found.foreign_error, found.recognised) == ("agent_run_error", None, False)


class ApplicationError(LookupError):
    """An error of the application."""


class OverloadedError(TimeoutError):
    """A time-out of the application."""


@pytest.mark.parametrize(
    ("rule", "error", "expected"),
    [
        pytest.param(Rule(types=("LookupError",), kind="a:b"), ApplicationError("x"), ("a:b", "x"), id="a base class"),
        pytest.param(
            Rule(types=("builtins.LookupError",), kind="a:b"), ApplicationError("x"), ("a:b", "x"), id="with its module"
        ),
        pytest.param(
            Rule(types=("tests.test_classify.ApplicationError",), kind="a:b"),
            ApplicationError("x"),
            ("a:b", "x"),
            id="full name",
        ),
        pytest.param(
            Rule(types=("tests.ApplicationError",), kind="a:b"), ApplicationError("x"), ("a:b", "x"), id="short name"
        ),
        pytest.param(Rule(types=("Exception",), kind="a:b"), OverloadedError("x"), ("a:b", "x"), id="before ours"),
        pytest.param(
            Rule(types=("LookupError",), message=("args.0.text",)),
            ApplicationError({"text": "chosen"}),
            ("agent_run_error", "chosen"),
            id="a path for the message",
        ),
        pytest.param(
            Rule(types=("LookupError",), message=lambda error: error.args[1]),
            ApplicationError("x", "chosen"),
            ("agent_run_error", "chosen"),
            id="a function for the message",
        ),
        pytest.param(
            Rule(types=("LookupError",), kind="a:b", when=lambda error: error.args == ("other",)),
            ApplicationError("x"),
            ("agent_run_error", "x"),
            id="a condition that does not hold",
        ),
        pytest.param(
            Rule(types=("LookupError",), kind="a:b", when=lambda error: error.nothing),
            ApplicationError("x"),
            ("agent_run_error", "x"),
            id="a condition that raises",
        ),
        pytest.param(
            Rule(types=("LookupError",), kind="a:b", message=lambda error: error.nothing),
            ApplicationError("x"),
            ("a:b", ""),
            id="a function that raises",
        ),
        pytest.param(
            Rule(types=("LookupError",), kind="a:b", message=lambda _error: b"bytes"),
            ApplicationError("x"),
            ("a:b", ""),
            id="a function that gives no text",
        ),
        pytest.param(
            Rule(types=("LookupError",), kind="a:b", boundaries=(MODEL,)),
            ApplicationError("x"),
            ("agent_run_error", "x"),
            id="another boundary",
        ),
        pytest.param(
            Rule(types=("LookupError",), inside=("args.0",), message=()),
            ApplicationError(TimeoutError("inner")),
            ("transport_timeout", "inner"),
            id="an error inside, whose time-out is no agent's",
        ),
        pytest.param(
            Rule(types=("LookupError",), inside=("args.0",), message=("args.1",)),
            ApplicationError(TimeoutError("inner"), "outer"),
            ("transport_timeout", "outer"),
            id="its own text before that of the error inside",
        ),
    ],
)
def test_a_users_rule_comes_first(rule, error, expected):
    """A rule of the user's decides kind and text before ours do; one that does not hold leaves it to ours."""
    found = classify(error, boundary=AGENT, rules=(rule,))
    assert (found.kind, found.reason) == expected


@pytest.mark.parametrize("field", ["types", "message", "status", "code", "inside", "boundaries"])
def test_a_rule_refuses_text_where_a_tuple_is_meant(field):
    """A bare text would be taken letter by letter, so it is an error at once."""
    with pytest.raises(ValueError, match=f"^{field} of a rule is a tuple"):
        Rule(**{"types": ("a.B",)} | {field: "text"})


class HostileError(Exception):
    """An exception whose every attribute raises, as those of lost connections do."""

    def __getattribute__(self, name):
        """Raise."""
        raise RuntimeError(name)

    def __str__(self):
        """Raise."""
        raise AttributeError("request_info is None")


class HostileClass(type):
    """A class that cannot be hashed."""

    __hash__ = None


def cyclic():
    """Make an error that wraps itself."""
    error = urllib.error.URLError("x")
    error.reason = error
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            HostileError(), ("agent_run_error", "<no text: AttributeError in HostileError.__str__>"), id="attributes"
        ),
        pytest.param(HostileClass("Odd", (Exception,), {})("x"), ("agent_run_error", "x"), id="class without hash"),
        pytest.param(type("Odd", (Exception,), {"__module__": 5})("x"), ("agent_run_error", "x"), id="odd module"),
        pytest.param(cyclic(), ("transport_unreachable", ""), id="wraps itself"),
        pytest.param(
            type("Odd", (OSError,), {"errno": property(lambda _: 1 / 0)})("x"), ("agent_run_error", "x"), id="errno"
        ),
        pytest.param(OSError([], "x"), ("agent_run_error", "[Errno []] x"), id="errno that is a list"),
        pytest.param(ValueError("x" * 3000), ("agent_run_error", "x" * 1992 + "…[+1008]"), id="long text"),
        pytest.param(ValueError("\ud800"), ("agent_run_error", "\ufffd"), id="no Unicode"),
    ],
)
def test_a_hostile_exception_is_classified_all_the_same(error, expected):
    """Whatever an exception's code does, it gets a kind and a text, and nothing is raised (ray#44878)."""
    found = classify(error, boundary=AGENT)
    assert (found.kind, found.reason) == expected


@pytest.mark.parametrize(("wraps", "kind"), [(8, "transport_peer_drop"), (9, "transport_unreachable")])
def test_errors_inside_errors_are_followed_to_a_bound(wraps, kind):
    """Eight wrapped errors are looked into; what is deeper does not count."""
    error = ConnectionResetError()
    for _ in range(wraps):
        error = urllib.error.URLError(error)
    assert classify(error, boundary=AGENT).kind == kind


def test_every_rule_of_ours_gives_a_registered_kind():
    """No row of the table can give a kind outside of the vocabulary."""
    assert {rule.kind for rule in DEFAULT_RULES} <= {None, *kinds.FAILURE_KINDS}


def test_no_traceback_is_formatted(monkeypatch):
    """To classify looks at no frame: formatting a traceback costs far more (opentelemetry-specification#1532)."""
    import traceback  # noqa: PLC0415 - replaced for this test only

    for name in ("format_exception", "format_tb", "TracebackException", "extract_tb"):
        monkeypatch.setattr(traceback, name, None)
    assert classify(caught(lambda: {}["x"]), boundary=AGENT).reason == "'x'"
