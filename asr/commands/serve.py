"""`asr serve`: an HTTP service with an OpenAI-compatible API and a web page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from asr.commands.options import Decoding
from asr.serve.settings import ServiceLimits

KEY_VARIABLE: Final = "ASR_API_KEY"


def run(
    model: str | None,
    host: str,
    port: int,
    api_key: str | None,
    limits: ServiceLimits,
    decoding: Decoding,
    batch_seconds: float | None,
    device: str = "cpu",
    runtime: str = "auto",
) -> int:
    """Serve until SIGINT or SIGTERM; return 0.

    api_key: None takes the environment variable ASR_API_KEY; if that is not set, none is needed.

    Raises:
        UserError: the model cannot be loaded, or the address cannot be used.
    """
    from asr.inference.recognizer import SHIPPED, Recognizer
    from asr.serve.server import listen, serve
    from asr.serve.service import Service

    listening = listen(host, port)  # before the model is loaded, which takes longer
    recognizer = decoding.applied(Recognizer.load(model, device, runtime))
    recognizer = recognizer.configured(batch_seconds=batch_seconds).caching(limits.cache_seconds)
    name = SHIPPED.name if model is None else Path(model).resolve().name
    key = api_key or os.environ.get(KEY_VARIABLE) or None
    serve(Service(name, recognizer, limits, key), listening)
    return 0
