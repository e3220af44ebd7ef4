"""Replies of which HTTP has something special to say, on Starlette."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from tests.servers.cases.table import App, BrokenError, Seen, broken, case, judge, status


@case(own=status(500), method="HEAD")
def head_of_a_failure(seen: Seen) -> App:
    """Fail for a request that wants the headers alone."""

    async def root(request: Request) -> Response:
        return PlainTextResponse("sorry", 500)

    return Starlette(routes=[Route("/", root)])


@case(others=("judge_failed",))
def not_modified(seen: Seen) -> App:
    """Answer 304 after a failure that was recovered from."""

    async def root(request: Request) -> Response:
        judge(seen)
        return Response(status_code=304, headers={"etag": '"1"'})

    return Starlette(routes=[Route("/", root)])


@case(others=("judge_failed",))
def no_content(seen: Seen) -> App:
    """Answer 204 after a failure that was recovered from."""

    async def root(request: Request) -> Response:
        judge(seen)
        return Response(status_code=204)

    return Starlette(routes=[Route("/", root)])


@case()
def redirect(seen: Seen) -> App:
    """Send the client elsewhere."""

    async def root(request: Request) -> Response:
        return RedirectResponse("/elsewhere")

    return Starlette(routes=[Route("/", root)])


@case(method="POST", headers=(("expect", "100-continue"),), body=b"12345", path="/upload", own=broken())
def continued(seen: Seen) -> App:
    """Tell the client to go on (a reply of status 100) and fail then."""

    async def upload(request: Request) -> Response:
        seen.call(repr(await request.body()))
        raise BrokenError("after 100")

    return Starlette(routes=[Route("/upload", upload, methods=["POST"])])


@case(own=broken(failure_reason="below"), path="/a/b")
def starlette_mount(seen: Seen) -> App:
    """Raise below a mount of plain routes."""

    async def below(request: Request) -> Response:
        raise BrokenError("below")

    return Starlette(routes=[Mount("/a", routes=[Route("/b", below)])])
