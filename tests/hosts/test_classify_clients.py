"""What the exceptions of HTTP clients and of the openai SDK mean; each is raised by a real call to a real peer."""

import errno
import json
import os
import re
from functools import partial

import aiohttp
import httpx
import openai
import pytest

from gym_failures import kinds
from gym_failures.classify import classify
from gym_failures.kinds import FailureBoundary
from tests.failing import (
    LOOPBACK,
    Case,
    answers,
    at_no_name,
    at_nobody,
    at_peer,
    drops,
    is_silent,
    reply,
    resets,
)
from tests.hosts.clients import with_aiohttp, with_async_httpx, with_httpx, with_openai, with_requests

SECRET = "s3cr3t"  # noqa: S105 - what must not get out
SHORT = 0.1
"""How long a call waits for a peer that stays silent, in seconds."""
MODEL = FailureBoundary.MODEL

REFUSED = re.compile(r"\[Errno \d+\] Connect(ion refused| call failed .*)")
NO_NAME = re.compile(r"\[Errno -\d+\] .*")
RESET = re.compile(r"\[Errno \d+\] Connection reset by peer")
# Older releases of anyio do not pass the operating system's error on.
RESET_OR_NOTHING = re.compile(f"({RESET.pattern})?")
NO_TLS = re.compile(r"\[SSL: .*")

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CUT = answers(HEAD + b"Content-Length: 9\r\n\r\n{")
CUT_CHUNK = answers(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{")
NO_GZIP = answers(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc")
NO_HTTP = answers(f"{SECRET}\r\n\r\n".encode())
NO_JSON = reply(200, "OK", SECRET, content_type="application/json")
HTML = reply(200, "OK", SECRET, content_type="text/html")
ROUND = reply(302, "Found", headers="Location: /path\r\n")
NOT_TLS = answers(b"not TLS")


def statuses(call, foreign, **texts):
    """Return the cases of a client's error for HTTP statuses, at the model and elsewhere."""
    meant = {
        401: (kinds.PROVIDER_UNAVAILABLE, None),
        403: (kinds.PROVIDER_UNAVAILABLE, None),
        404: (kinds.PROTOCOL_VIOLATION, None),
        408: (kinds.TRANSPORT_TIMEOUT, kinds.TRANSPORT_TIMEOUT),
        409: (kinds.PROTOCOL_VIOLATION, None),
        422: (kinds.PROTOCOL_VIOLATION, None),
        429: (kinds.PROVIDER_QUOTA_EXHAUSTED, kinds.PROVIDER_QUOTA_EXHAUSTED),
        500: (kinds.PROVIDER_UNAVAILABLE, None),
        502: (kinds.PROVIDER_UNAVAILABLE, None),
        504: (kinds.TRANSPORT_TIMEOUT, kinds.TRANSPORT_TIMEOUT),
    }
    for status, (at_model, elsewhere) in meant.items():
        make = at_peer(call, reply(status, "Reason", SECRET, content_type="text/html"))
        told = {"http_status": status, "foreign": foreign, **texts}
        yield f"{status} at the model", Case(make, at_model, boundary=MODEL, **told)
        yield f"{status} at the agent", Case(make, elsewhere or kinds.AGENT_RUN_ERROR, **told)


def named(library, cases):
    """Return `cases` with the name of the library in theirs."""
    return {f"{library}: {name}": case for name, case in cases.items()}


AIOHTTP = "aiohttp.client_exceptions."
AIOHTTP_CASES = named(
    "aiohttp",
    {
        "refused": Case(
            at_nobody(with_aiohttp),
            kinds.TRANSPORT_UNREACHABLE,
            foreign=AIOHTTP + "ClientConnectorError",
            reason=REFUSED,
        ),
        "name not resolved": Case(
            at_no_name(with_aiohttp),
            kinds.TRANSPORT_UNREACHABLE,
            foreign=AIOHTTP + "ClientConnectorDNSError",
            reason=NO_NAME,
        ),
        "no TLS": Case(
            at_peer(with_aiohttp, NOT_TLS, "https"),
            kinds.TRANSPORT_UNREACHABLE,
            foreign=AIOHTTP + "ClientConnectorSSLError",
            reason=NO_TLS,
        ),
        "closed": Case(
            at_peer(with_aiohttp, drops),
            kinds.TRANSPORT_PEER_DROP,
            foreign=AIOHTTP + "ServerDisconnectedError",
            reason="Server disconnected",
        ),
        "reset": Case(
            at_peer(with_aiohttp, resets), kinds.TRANSPORT_PEER_DROP, foreign=AIOHTTP + "ClientOSError", reason=RESET
        ),
        "cut": Case(at_peer(with_aiohttp, CUT), kinds.TRANSPORT_PEER_DROP, foreign=AIOHTTP + "ClientPayloadError"),
        "cut chunk": Case(
            at_peer(with_aiohttp, CUT_CHUNK), kinds.TRANSPORT_PEER_DROP, foreign=AIOHTTP + "ClientPayloadError"
        ),
        "no gzip": Case(
            at_peer(with_aiohttp, NO_GZIP), kinds.PROTOCOL_VIOLATION, foreign=AIOHTTP + "ClientPayloadError"
        ),
        "silent": Case(
            at_peer(partial(with_aiohttp, read=SHORT), is_silent),
            kinds.TRANSPORT_TIMEOUT,
            foreign=AIOHTTP + "SocketTimeoutError",
        ),
        "silent for the whole call": Case(
            at_peer(partial(with_aiohttp, total=SHORT), is_silent), kinds.TRANSPORT_TIMEOUT, boundary=MODEL
        ),
        "no HTTP": Case(
            at_peer(with_aiohttp, NO_HTTP), kinds.PROTOCOL_VIOLATION, foreign=AIOHTTP + "ClientResponseError"
        ),
        "no JSON": Case(
            at_peer(with_aiohttp, NO_JSON),
            kinds.PROTOCOL_VIOLATION,
            foreign="json.decoder.JSONDecodeError",
            reason="Expecting value",
        ),
        "HTML": Case(
            at_peer(with_aiohttp, HTML),
            kinds.PROTOCOL_VIOLATION,
            http_status=200,
            foreign=AIOHTTP + "ContentTypeError",
            reason=re.compile("Attempt to decode JSON with unexpected mimetype: text/html"),
        ),
        "round and round": Case(
            at_peer(with_aiohttp, ROUND), kinds.PROTOCOL_VIOLATION, foreign=AIOHTTP + "TooManyRedirects"
        ),
        "no URL": Case(
            lambda: with_aiohttp("ftp://host/"), kinds.AGENT_RUN_ERROR, foreign=AIOHTTP + "NonHttpUrlClientError"
        ),
        "no proxy": Case(
            lambda: aiohttp.ClientHttpProxyError(None, (), status=407, message="Proxy Authentication Required"),
            kinds.TRANSPORT_UNREACHABLE,
            http_status=407,
            foreign=AIOHTTP + "ClientHttpProxyError",
            reason="Proxy Authentication Required",
        ),
        "no file descriptor": Case(
            lambda: aiohttp.ClientConnectorError(None, OSError(errno.EMFILE, os.strerror(errno.EMFILE))),
            kinds.TRANSPORT_LOCAL_RESOURCE,
            foreign=AIOHTTP + "ClientConnectorError",
            reason=f"[Errno {errno.EMFILE}] {os.strerror(errno.EMFILE)}",
        ),
        **dict(statuses(with_aiohttp, AIOHTTP + "ClientResponseError", reason="Reason")),
    },
)


def httpx_cases(call):
    """Return the cases of httpx, blocking or not."""
    return {
        "refused": Case(at_nobody(call), kinds.TRANSPORT_UNREACHABLE, foreign="httpx.ConnectError", reason=REFUSED),
        "name not resolved": Case(
            at_no_name(call), kinds.TRANSPORT_UNREACHABLE, foreign="httpx.ConnectError", reason=NO_NAME
        ),
        "no TLS": Case(
            at_peer(call, NOT_TLS, "https"), kinds.TRANSPORT_UNREACHABLE, foreign="httpx.ConnectError", reason=NO_TLS
        ),
        "closed": Case(at_peer(call, drops), kinds.TRANSPORT_PEER_DROP, foreign="httpx.RemoteProtocolError"),
        "reset": Case(
            at_peer(call, resets), kinds.TRANSPORT_PEER_DROP, foreign="httpx.ReadError", reason=RESET_OR_NOTHING
        ),
        "cut": Case(at_peer(call, CUT), kinds.TRANSPORT_PEER_DROP, foreign="httpx.RemoteProtocolError"),
        "cut chunk": Case(at_peer(call, CUT_CHUNK), kinds.TRANSPORT_PEER_DROP, foreign="httpx.RemoteProtocolError"),
        "no gzip": Case(at_peer(call, NO_GZIP), kinds.PROTOCOL_VIOLATION, foreign="httpx.DecodingError"),
        "silent": Case(
            at_peer(partial(call, read=SHORT), is_silent), kinds.TRANSPORT_TIMEOUT, foreign="httpx.ReadTimeout"
        ),
        "no HTTP": Case(at_peer(call, NO_HTTP), kinds.TRANSPORT_PEER_DROP, foreign="httpx.RemoteProtocolError"),
        "no JSON": Case(
            at_peer(call, NO_JSON),
            kinds.PROTOCOL_VIOLATION,
            foreign="json.decoder.JSONDecodeError",
            reason="Expecting value",
        ),
        "round and round": Case(at_peer(call, ROUND), kinds.PROTOCOL_VIOLATION, foreign="httpx.TooManyRedirects"),
        "no URL": Case(lambda: call("ftp://host/"), kinds.AGENT_RUN_ERROR, foreign="httpx.UnsupportedProtocol"),
        **dict(statuses(call, "httpx.HTTPStatusError", reason="Reason")),
    }


def out_of_files():
    """Let httpx connect when the process can open no more files, as far as that can be done within a test."""

    def no_socket(*_args, **_kwargs):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("socket.create_connection", no_socket)
        return with_httpx(f"http://{LOOPBACK}:9/")


HTTPX_CASES = {
    **named("httpx", httpx_cases(with_httpx)),
    **named("async httpx", httpx_cases(with_async_httpx)),
    "httpx: no file descriptor": Case(
        out_of_files,
        kinds.TRANSPORT_LOCAL_RESOURCE,
        foreign="httpx.ConnectError",
        reason=f"[Errno {errno.EMFILE}] {os.strerror(errno.EMFILE)}",
    ),
    "httpx: no proxy": Case(lambda: httpx.ProxyError("407"), kinds.TRANSPORT_UNREACHABLE, foreign="httpx.ProxyError"),
    "httpx: no connection left": Case(
        lambda: httpx.PoolTimeout("pool"), kinds.TRANSPORT_TIMEOUT, foreign="httpx.PoolTimeout"
    ),
}

REQUESTS = "requests.exceptions."
REQUESTS_CASES = named(
    "requests",
    {
        "refused": Case(
            at_nobody(with_requests), kinds.TRANSPORT_UNREACHABLE, foreign=REQUESTS + "ConnectionError", reason=REFUSED
        ),
        "name not resolved": Case(
            at_no_name(with_requests), kinds.TRANSPORT_UNREACHABLE, foreign=REQUESTS + "ConnectionError", reason=NO_NAME
        ),
        "no TLS": Case(
            at_peer(with_requests, NOT_TLS, "https"),
            kinds.TRANSPORT_UNREACHABLE,
            foreign=REQUESTS + "SSLError",
            reason=NO_TLS,
        ),
        "closed": Case(
            at_peer(with_requests, drops),
            kinds.TRANSPORT_PEER_DROP,
            foreign=REQUESTS + "ConnectionError",
            reason="Remote end closed connection without response",
        ),
        "reset": Case(
            at_peer(with_requests, resets),
            kinds.TRANSPORT_PEER_DROP,
            foreign=REQUESTS + "ConnectionError",
            reason=RESET,
        ),
        "cut": Case(at_peer(with_requests, CUT), kinds.TRANSPORT_PEER_DROP, foreign=REQUESTS + "ChunkedEncodingError"),
        "cut chunk": Case(
            at_peer(with_requests, CUT_CHUNK), kinds.TRANSPORT_PEER_DROP, foreign=REQUESTS + "ChunkedEncodingError"
        ),
        "no gzip": Case(
            at_peer(with_requests, NO_GZIP), kinds.PROTOCOL_VIOLATION, foreign=REQUESTS + "ContentDecodingError"
        ),
        "silent": Case(
            at_peer(partial(with_requests, read=SHORT), is_silent),
            kinds.TRANSPORT_TIMEOUT,
            foreign=REQUESTS + "ReadTimeout",
        ),
        "no HTTP": Case(
            at_peer(with_requests, NO_HTTP), kinds.PROTOCOL_VIOLATION, foreign=REQUESTS + "ConnectionError"
        ),
        "no JSON": Case(
            at_peer(with_requests, NO_JSON),
            kinds.PROTOCOL_VIOLATION,
            foreign=REQUESTS + "JSONDecodeError",
            reason="Expecting value",
        ),
        "round and round": Case(
            at_peer(with_requests, ROUND), kinds.PROTOCOL_VIOLATION, foreign=REQUESTS + "TooManyRedirects"
        ),
        "no URL": Case(lambda: with_requests("ftp://host/"), kinds.AGENT_RUN_ERROR, foreign=REQUESTS + "InvalidSchema"),
        **dict(statuses(with_requests, REQUESTS + "HTTPError", reason="Reason")),
    },
)


def error_of_openai(status, **error):
    """Return the failing call to a peer that answers as OpenAI's API does."""
    body = json.dumps({"error": {"message": "The message.", "type": "some_type", "param": SECRET, **error}})
    return at_peer(with_openai, reply(status, "Reason", body, content_type="application/json"))


def not_as_declared():
    """Let the SDK check an answer that is not as its schema says."""
    response = httpx.Response(200, request=httpx.Request("GET", "http://host/"))
    return openai.APIResponseValidationError(response=response, body={"s3cr3t": SECRET})


OPENAI_CASES = named(
    "openai",
    {
        "refused": Case(
            at_nobody(with_openai), kinds.TRANSPORT_UNREACHABLE, foreign="openai.APIConnectionError", reason=REFUSED
        ),
        "closed": Case(at_peer(with_openai, drops), kinds.TRANSPORT_PEER_DROP, foreign="openai.APIConnectionError"),
        "silent": Case(
            at_peer(partial(with_openai, read=SHORT), is_silent),
            kinds.TRANSPORT_TIMEOUT,
            foreign="openai.APITimeoutError",
            reason="Request timed out.",
        ),
        **{
            f"{status}": Case(
                error_of_openai(status), kind, http_status=status, foreign=f"openai.{name}", reason="The message."
            )
            for status, kind, name in (
                (400, kinds.PROTOCOL_VIOLATION, "BadRequestError"),
                (401, kinds.PROVIDER_UNAVAILABLE, "AuthenticationError"),
                (403, kinds.PROVIDER_UNAVAILABLE, "PermissionDeniedError"),
                (404, kinds.PROTOCOL_VIOLATION, "NotFoundError"),
                (408, kinds.TRANSPORT_TIMEOUT, "APIStatusError"),
                (409, kinds.PROTOCOL_VIOLATION, "ConflictError"),
                (422, kinds.PROTOCOL_VIOLATION, "UnprocessableEntityError"),
                (429, kinds.PROVIDER_QUOTA_EXHAUSTED, "RateLimitError"),
                (500, kinds.PROVIDER_UNAVAILABLE, "InternalServerError"),
                (503, kinds.PROVIDER_UNAVAILABLE, "InternalServerError"),
                (504, kinds.TRANSPORT_TIMEOUT, "InternalServerError"),
            )
        },
        "a quota code": Case(
            error_of_openai(403, code="insufficient_quota"),
            kinds.PROVIDER_QUOTA_EXHAUSTED,
            http_status=403,
            foreign="openai.PermissionDeniedError",
            reason="The message.",
        ),
        "HTML": Case(
            at_peer(with_openai, reply(502, "Bad Gateway", SECRET, content_type="text/html")),
            kinds.PROVIDER_UNAVAILABLE,
            http_status=502,
            foreign="openai.InternalServerError",
        ),
        "not as declared": Case(
            not_as_declared, kinds.PROTOCOL_VIOLATION, http_status=200, foreign="openai.APIResponseValidationError"
        ),
        "no key": Case(
            lambda: openai.OpenAIError(f"The api_key must be set {SECRET}"),
            kinds.AGENT_RUN_ERROR,
            foreign="openai.OpenAIError",
        ),
    },
)

CASES = {**AIOHTTP_CASES, **HTTPX_CASES, **REQUESTS_CASES, **OPENAI_CASES}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_real_exception_means(case):
    """Kind, status, text and foreign error of an exception are those of the documented table."""
    case.check()


@pytest.mark.parametrize("name", [name for name in CASES if "no HTTP" in name or "HTML" in name or "openai" in name])
def test_nothing_of_request_and_answer_is_kept(name):
    """What the request held, and what the peer's answer holds beside its message, is not in what is kept."""
    assert SECRET not in repr(classify(CASES[name].make(), boundary=FailureBoundary.AGENT))
