"""Runs the service until a signal stops it."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import sys
import time
from typing import Final

import uvicorn

from asr.errors import UserError
from asr.serve.app import build
from asr.serve.service import Service

BACKLOG: Final = 1024  # connections that wait to be accepted
MOST_MESSAGE_BYTES: Final = 2**20  # of a WebSocket
CONNECTIONS: Final = 4  # for each accepted request; more get status 503 before their body is read
CONNECTIONS_AT_LEAST: Final = 256
POLL_SECONDS: Final = 0.05


class Server(uvicorn.Server):
    """A server that finishes accepted requests and live sessions before it stops."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and print the address."""
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            print(f"asr: {self._service.name} at http://{shown}:{port}", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let live sessions send their last text, then finish the requests."""
        for server in self.servers:
            server.close()
        self._service.stopping.set()
        end = time.monotonic() + self._service.limits.stop_seconds
        while self._service.sessions and not self.force_exit and time.monotonic() < end:
            await asyncio.sleep(POLL_SECONDS)
        self.config.timeout_graceful_shutdown = max(0, math.ceil(end - time.monotonic()))
        await super().shutdown(sockets)


def serve(service: Service, listening: socket.socket) -> None:
    """Answer requests until SIGINT or SIGTERM.

    Work that takes longer than the service may take to stop ends with the process, at once.
    """
    its = server(service)
    for each in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises them again after it has stopped
        signal.signal(each, its.handle_exit)
    with listening:
        its.run([listening])
    if service.is_working:
        sys.stdout.flush()
        os._exit(0)  # the interpreter would wait for the threads


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        UserError: the address cannot be used.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UserError(f"{host}:{port}: cannot listen there ({error.strerror})") from error


def server(service: Service) -> Server:
    """Return a server that is not running yet."""
    limits = service.limits
    config = uvicorn.Config(
        build(service),
        http="h11",
        ws="websockets-sansio",
        ws_max_size=MOST_MESSAGE_BYTES,
        access_log=False,
        log_level="warning",
        server_header=False,
        backlog=BACKLOG,
        limit_concurrency=max(CONNECTIONS_AT_LEAST, CONNECTIONS * limits.max_requests),
    )
    return Server(config, service)
