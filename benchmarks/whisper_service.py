"""Serve faster-whisper behind the same call as `asr serve`, to be measured by `serving.py`.

    python benchmarks/whisper_service.py whisper-tiny.en --port 8001

One thread decodes one recording after another, in int8 with a beam of 5, as faster-whisper does by
default. Needs the extras `serve` and `peers`.
"""

from __future__ import annotations

import argparse
import asyncio
import io
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from prometheus_client import REGISTRY, generate_latest
from recognisers import whisper
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from asr.errors import exit_status
from asr.models.encoders.public_weights import find_weights


def main() -> int:
    """Serve until a signal stops it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="whisper-tiny.en or whisper-base")
    parser.add_argument("--port", type=int, default=8001)
    given = parser.parse_args()
    uvicorn.run(build(given.model), host="127.0.0.1", port=given.port, log_level="warning")
    return 0


def build(name: str) -> Starlette:
    """Load a model and return the application."""
    model = whisper(find_weights(name))
    thread = ThreadPoolExecutor(1)

    def recognise(content: bytes) -> dict[str, str | float]:
        segments, about = model.transcribe(io.BytesIO(content), language="en", beam_size=5)
        return {"text": "".join(each.text for each in segments), "duration": about.duration}

    async def transcribe(request: Request) -> Response:
        async with request.form() as form:
            content = await form["file"].read()
        loop = asyncio.get_running_loop()
        return JSONResponse(await loop.run_in_executor(thread, recognise, content))

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(REGISTRY))

    return Starlette(
        routes=[
            Route("/v1/audio/transcriptions", transcribe, methods=["POST"]),
            Route("/metrics", metrics),
        ]
    )


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
