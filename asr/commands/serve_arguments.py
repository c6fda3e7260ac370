"""The arguments of `asr serve`."""

from __future__ import annotations

import argparse
from typing import Any

from asr.commands.options import (
    add_command,
    add_decoding,
    add_device,
    add_model,
    add_option,
    add_runtime,
)
from asr.inference.options import DecodingOptions
from asr.serve.settings import ServiceLimits

LIMITS = {
    "max_upload": "MB",
    "max_seconds": "S",
    "timeout": "S",
    "max_requests": "N",
    "max_live": "N",
    "stop_seconds": "S",
    "cache_seconds": "S",
}


def add_serve(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "serve",
        "answer requests over HTTP, with a web page",
        """Serve recognition, alignment, the reading tutor, translation and live recognition over
HTTP, in the shape of the OpenAI API where that has one, and a web page at /. SIGTERM and SIGINT
stop it after all accepted requests were answered. Needs the extra `serve`.""",
        """  asr serve
  asr serve -m english-plus --host 0.0.0.0 --port 80 --api-key SECRET
  curl -F file=@talk.flac -F model=english http://127.0.0.1:8000/v1/audio/transcriptions""",
    )
    add_model(parser)
    add_device(parser)
    add_runtime(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", help="Address to listen at (default: %(default)s)."
    )
    parser.add_argument(
        "--port", type=port, default=8000, metavar="N", help="TCP port (default: %(default)s)."
    )
    parser.add_argument(
        "--api-key",
        metavar="KEY",
        help="Key that requests must carry (default: $ASR_API_KEY; without it, none).",
    )
    for name, metavar in LIMITS.items():
        add_option(parser, ServiceLimits, name, metavar)
    add_decoding(parser)
    add_option(parser, DecodingOptions, "batch_seconds", "S")
    parser.set_defaults(command="serve")


def port(text: str) -> int:
    """Read a TCP port; 0 takes a free one."""
    if not (text.isdecimal() and int(text) < 2**16):
        raise argparse.ArgumentTypeError(f"got {text!r}, wanted a port, 0 to 65535")
    return int(text)


def service_limits(given: argparse.Namespace) -> ServiceLimits:
    """Take the limits from parsed arguments."""
    values = {name: getattr(given, name) for name in LIMITS}
    return ServiceLimits(**{name: each for name, each in values.items() if each is not None})
