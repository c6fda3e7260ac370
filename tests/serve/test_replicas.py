"""Two services behind nginx with the documented configuration (Debian: nginx-light)."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from running_service import wait_for

CONFIG = Path(__file__).parents[2] / "docs" / "deploy" / "nginx.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def replicas(tiny_folder, tmp_path):
    """Run two services and nginx; yield the services, their ports and a
    client of nginx."""
    command = [sys.executable, "-m", "asr", "serve", "-m", str(tiny_folder), "--beam", "1"]
    with ExitStack() as stack:
        services = [
            stack.enter_context(
                subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True)
            )
            for _ in range(2)
        ]
        stack.callback(lambda: [each.kill() for each in services])
        ports = [each.stdout.readline().rpartition(":")[2].strip() for each in services]
        port = free_port()
        text = CONFIG.read_text("utf-8").replace("listen 8000", f"listen 127.0.0.1:{port}")
        for old, new in zip(("8001;", "8002;"), ports, strict=True):
            assert f"127.0.0.1:{old}" in text
            text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new};")
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "".join(f"{kind}_temp_path {tmp_path / kind};" for kind in kinds)
        text = text.replace("http {", f"http {{ access_log off; {folders}")
        config = tmp_path / "nginx.conf"
        user = "user root;" if os.geteuid() == 0 else ""  # else it cannot enter the folder
        config.write_text(f"daemon off; {user} pid {tmp_path / 'pid'};\n{text}", "utf-8")
        nginx = stack.enter_context(
            subprocess.Popen([NGINX, "-c", config, "-p", tmp_path, "-e", tmp_path / "errors"])
        )
        stack.callback(nginx.terminate)
        url = f"http://127.0.0.1:{port}"
        client = stack.enter_context(httpx.Client(base_url=url, timeout=60, verify=False))
        wait_for(lambda: answers(client))
        yield services, ports, client


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def transcribe(client: httpx.Client, content: bytes) -> tuple[int, str]:
    path = "/v1/audio/transcriptions"
    response = client.post(path, files={"file": ("clip.wav", content)})
    return response.status_code, response.text


def repeated(client: httpx.Client, content: bytes) -> tuple[int, str]:
    """Ask again, as clients do, where a killed process broke off its answer after the headers."""
    try:
        return transcribe(client, content)
    except httpx.RemoteProtocolError:
        return transcribe(client, content)


@pytest.mark.parametrize(
    ("end", "status"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)]
)
def test_no_request_is_lost_when_one_of_two_ends(replicas, clips, end, status):
    services, _, client = replicas
    alone = [transcribe(client, each) for each in clips]
    assert [status for status, _ in alone] == [200] * len(clips)
    ask = repeated if end == signal.SIGKILL else transcribe
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(ask, client, clips[k % len(clips)]) for k in range(48)]
        wait_for(lambda: sum(each.done() for each in asked) >= 8)
        services[0].send_signal(end)
        found = [each.result() for each in asked]
    assert services[0].wait(20) == status
    assert found == [alone[k % len(clips)] for k in range(48)]
    assert answers(client)


def test_both_get_requests(replicas, clips):
    _, ports, client = replicas
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda k: transcribe(client, clips[k % len(clips)]), range(24))]
    assert [status for status, _ in found] == [200] * 24
    shares = [answered(port) for port in ports]
    assert sum(shares) == 24 and min(shares) > 0


def answered(port: str) -> int:
    """Return how many transcriptions a service has answered with status 200."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    lines = re.findall(r"^asr_requests_total\{(.*)\} (\S+)", text, re.M)
    return sum(int(float(n)) for labels, n in lines if "200" in labels and "transcri" in labels)
