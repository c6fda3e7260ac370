"""The routes of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from asr.serve import tasks
from asr.serve.endpoint import Endpoint, Handler, require_key
from asr.serve.errors import APIError, answer, unavailable
from asr.serve.live import live
from asr.serve.metrics import CONTENT_TYPE
from asr.serve.service import Service
from asr.serve.transcription import transcribe

PAGE: Final = Path(__file__).with_name("page")
# The page loads nothing from elsewhere; it plays recordings that it holds itself.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class Page(StaticFiles):
    """The files of the web page, with headers that keep it to itself."""

    async def index(self, request: Request) -> Response:
        """Return the page itself."""
        return await self.get_response("index.html", request.scope)

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """Return a file."""
        response = super().file_response(*args, **kwargs)
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Cache-Control"] = "no-cache"
        return response


def build(service: Service) -> Starlette:
    """Return the application; it closes the service when it ends."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            service.close()

    return Starlette(
        routes=_routes(service),
        exception_handlers={APIError: answer, HTTPException: answer},
        lifespan=lifespan,
    )


def _routes(service: Service) -> list[BaseRoute]:
    def call(path: str, name: str, handle: Handler) -> Route:
        return Route(path, Endpoint(service, name, handle), methods=["POST"])

    async def models(request: Request) -> Response:
        require_key(service, request)
        records = [_model(name) for name in service.models]
        return JSONResponse({"object": "list", "data": records})

    async def model(request: Request) -> Response:
        require_key(service, request)
        name = request.path_params["name"]
        if name not in service.models:
            raise APIError(404, f"model {name!r} is not served", "model_not_found", "model")
        return JSONResponse(_model(name))

    async def health(_: Request) -> Response:
        if service.stopping.is_set():
            raise unavailable()
        return JSONResponse({"status": "ok", "model": service.name})

    async def metrics(request: Request) -> Response:
        require_key(service, request)
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    page = Page(directory=PAGE)

    async def socket(websocket: WebSocket) -> None:
        await live(service, websocket)

    return [
        call("/v1/audio/transcriptions", "transcriptions", transcribe),
        call("/v1/audio/align", "align", tasks.align),
        call("/v1/read", "read", tasks.read),
        call("/v1/translate", "translate", tasks.translate),
        Route("/v1/models", models),
        Route("/v1/models/{name}", model),
        Route("/health", health),
        Route("/metrics", metrics),
        WebSocketRoute("/v1/live", socket),
        Route("/", page.index),
        Mount("/page", page),
    ]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "asr"}
