"""What every call of the API has in common: key, limits, errors, metrics."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final, TypeAlias, TypeVar

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from asr.errors import UserError
from asr.serve.errors import APIError, as_api_error, unavailable
from asr.serve.forms import MEGABYTE, Form, form_of
from asr.serve.service import Service

CLIENT_LEFT: Final = 499  # the status in metrics, as nginx has it

Handler: TypeAlias = Callable[[Service, Form], Awaitable[Response]]
Result = TypeVar("Result")


def require_key(service: Service, connection: HTTPConnection) -> None:
    """Check the key of a request.

    Raises:
        APIError: it is missing or wrong.
    """
    require_right_key(service, bearer(connection))


def bearer(connection: HTTPConnection) -> str:
    """Return the key in the headers of a request; empty if there is none."""
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def require_right_key(service: Service, given: str) -> None:
    """Check a key, in a time that does not depend on where it is wrong.

    Raises:
        APIError: it is missing or wrong.
    """
    if service.api_key is None or hmac.compare_digest(given.encode(), service.api_key.encode()):
        return
    what = "a wrong API key" if given else "no API key: wanted `Authorization: Bearer KEY`"
    raise APIError(401, what, "invalid_api_key")


class Endpoint:
    """A call of the API as an ASGI application; `handle` makes the answer from the form."""

    def __init__(self, service: Service, name: str, handle: Handler) -> None:
        self._service = service
        self._name = name
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        status, started = CLIENT_LEFT, time.perf_counter()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        metrics = self._service.metrics
        try:
            await self._answer(Request(scope, receive), noting)
        except ClientDisconnect:
            pass
        except Exception as error:
            if status != CLIENT_LEFT:  # the answer has begun: all that can be done is to cut it off
                raise
            await as_api_error(error, self._name).response()(scope, receive, noting)
        except asyncio.CancelledError:  # the service stops, and its time for that is over
            if status != CLIENT_LEFT or not self._service.stopping.is_set():
                raise
            await unavailable().response()(scope, receive, noting)
        finally:
            metrics.requests.labels(self._name, str(status)).inc()
            metrics.seconds.labels(self._name).observe(time.perf_counter() - started)

    async def _answer(self, request: Request, send: Send) -> None:
        service, limits = self._service, self._service.limits
        require_key(service, request)
        async with AsyncExitStack() as stack:
            stack.enter_context(service.accepted())
            reading = stack.enter_async_context(form_of(request, limits.max_upload * MEGABYTE))
            form = await _within(limits.timeout, reading, 408, "the upload")
            try:
                working = _unless_left(request, self._handle(service, form))
                response = await _within(limits.timeout, working, 504, "the request")
            except UserError as error:
                raise form.named(error) from error
            async with asyncio.timeout(limits.timeout):
                await response(request.scope, request.receive, send)


async def _within(seconds: float, work: Awaitable[Result], status: int, what: str) -> Result:
    """Wait for work.

    Raises:
        APIError: it took too long.
    """
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise APIError(status, f"{what} took longer than {seconds:g} s", "timeout") from None


async def _unless_left(request: Request, work: Awaitable[Response]) -> Response:
    """Return the result of work, which is cancelled if the client leaves.

    Raises:
        ClientDisconnect: the client has left.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _left(request: Request) -> None:
    """Wait until the client has left; the body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
