"""Errors as answers, in the shape of the OpenAI API."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from asr.errors import UserError

LOG: Final = logging.getLogger("asr.serve")
RETRY_SECONDS: Final = "1"  # proposed to a client that is refused because of load


class APIError(Exception):
    """A request that is refused: HTTP status, one line, and the code that programs compare."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.headers = headers or {}
        self.status = status
        self.code = code
        self.param = param

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {
            "error": {
                "message": str(self),
                "type": kind,
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self) -> Response:
        """Return the answer; the connection is closed, since the body may not have been read."""
        headers = {"Connection": "close", **self.headers}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.status == 503:
            headers["Retry-After"] = RETRY_SECONDS
        return JSONResponse(self.record(), self.status, headers)


def as_api_error(error: Exception, what: str = "a request") -> APIError:
    """Return the error that a client gets; an internal one is logged, `what` has failed."""
    if isinstance(error, APIError):
        return error
    if isinstance(error, UserError):
        return APIError(400, str(error), "invalid_input")
    if isinstance(error, HTTPException):
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
        return APIError(error.status_code, str(error.detail), code, headers=error.headers)
    if isinstance(error, MemoryError):
        return APIError(503, "not enough memory for this request", "out_of_memory")
    LOG.error("%s failed", what, exc_info=error)
    return APIError(500, "an internal error; the log of the service has details", "internal_error")


async def answer(request: Request, error: Exception) -> Response:
    """Answer a request that failed."""
    return as_api_error(error).response()


def unavailable() -> APIError:
    """Return the error of a service that stops."""
    return APIError(503, "the service is stopping", "stopping")
