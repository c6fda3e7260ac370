"""Limits, damage and load: clear answers, and nothing lost that was accepted."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
from running_service import FLAC, Running, wait_for
from websockets.sync.client import connect

from asr.audio.read import read
from asr.inference.live import LiveText
from asr.serve import scheduler
from asr.serve.scheduler import Ended, Job, Scheduler

PATH = "/v1/audio/transcriptions"
HEAD = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\n"
FORM = "Content-Type: multipart/form-data; boundary=b\r\n"
PART = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'


def connection(running: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", running.port), timeout=20)


def answer_of(stream: socket.socket) -> tuple[int, dict]:
    """Read one answer to its end."""
    content = b""
    while chunk := stream.recv(65536):
        content += chunk
        head, _, body = content.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        if length and len(body) >= int(length[1]):
            break
    return int(content.split()[1]), json.loads(content.partition(b"\r\n\r\n")[2])


def wav(tmp_path: Path, samples: np.ndarray) -> bytes:
    soundfile.write(tmp_path / "long.wav", samples, 16000)
    return (tmp_path / "long.wav").read_bytes()


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"model": "huge"}, 404, "model_not_found"),
        ({"response_format": "diarized_json"}, 400, "bad_value"),
        ({"timestamp_granularities[]": ["letter"]}, 400, "bad_value"),
        ({"language": "fr"}, 400, "bad_value"),
        ({"stream": "maybe"}, 400, "bad_value"),
        ({"beam": "many"}, 400, "bad_value"),
        ({"beam": "0"}, 400, "invalid_input"),
        ({"temperature": "2"}, 400, "bad_value"),
        ({"temperature": "warm"}, 400, "bad_value"),
        ({"temperature": "nan"}, 400, "bad_value"),
        ({"text": "x" * 300_000}, 400, "bad_request"),
    ],
)
def test_wrong_values_are_refused_in_the_shape_of_openai(running, clips, fields, status, code):
    answer = running.post(PATH, clips[0], **fields)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert set(error) == {"message", "type", "param", "code"} and "\n" not in error["message"]


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"content-type": "multipart/form-data"}, b"x", 400),
        ({"content-type": "multipart/form-data; boundary=b"}, b"--b\r\nwrong", 400),
        ({"content-type": "multipart/form-data; boundary=b"}, b"", 400),
        ({"content-type": "multipart/form-data; boundary=" + "b" * 300}, b"--b--", 400),
        ({"content-type": "application/json"}, b"{", 400),
        ({"content-type": "application/json"}, b"[" * 100_000, 400),
        ({"content-type": "application/json"}, b'{"text": {"a": 1}}', 400),
        ({"content-type": "application/json"}, b"\xff\xfe{}", 400),
        ({"content-type": "application/json"}, b'{"text": "Hello \\ud800 world"}', 400),
        ({"content-type": "image/png"}, b"x", 415),
        ({}, b"x", 415),
    ],
)
def test_malformed_bodies_are_refused(running, headers, body, status):
    for path in (PATH, "/v1/translate"):
        answer = running.client.post(path, headers=headers, content=body)
        assert (answer.status_code, "error" in answer.json()) == (status, True)
    assert running.metric("asr_requests_in_progress") == 0


@pytest.mark.parametrize("content", [b"", b"no audio", b"RIFF\0\0\0\0WAVEfmt "])
def test_what_is_no_recording_is_refused_by_its_name(running, content):
    answer = running.post(PATH, content)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("clip.wav: ")


def test_a_claim_of_4_gb_is_refused_before_it_is_sent(running):
    with connection(running) as stream:
        stream.sendall(f"{HEAD}{FORM}Content-Length: 4294967296\r\n\r\n".encode())
        status, record = answer_of(stream)
        assert (status, record["error"]["code"]) == (413, "body_too_large")
        assert stream.recv(1) == b""  # the connection is closed


def test_a_body_without_a_length_is_refused_when_it_grows_too_large(running):
    def chunks():
        yield PART.encode()
        for _ in range(200):
            yield b"\0" * 10_000

    headers = {"content-type": "multipart/form-data; boundary=b"}
    try:
        answer = running.client.post(PATH, headers=headers, content=chunks())
        assert answer.status_code == 413
    except (httpx.WriteError, httpx.ReadError):  # the connection was closed while sending
        pass
    wait_for(lambda: running.metric("asr_requests_in_progress") == 0)


def test_a_long_recording_is_refused_whether_its_header_says_so_or_not(running, tmp_path):
    silence = np.zeros(16000 * 31, np.int16)
    soundfile.write(tmp_path / "long.flac", silence, 16000)
    streamed = bytearray(wav(tmp_path, silence))
    streamed[40:44] = b"\xff\xff\xff\x7f"  # a length that is not known
    for content in ((tmp_path / "long.flac").read_bytes(), bytes(streamed[:980_000])):
        answer = running.post(PATH, content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "audio_too_long")


def test_an_upload_that_is_cut_off_leaves_nothing(running, clips):
    before = running.metric("asr_requests_in_progress")
    with connection(running) as stream:
        stream.sendall(f"{HEAD}{FORM}Content-Length: 50000\r\n\r\n{PART}".encode())
        wait_for(lambda: running.metric("asr_requests_in_progress") == before + 1)
    wait_for(lambda: running.metric("asr_requests_in_progress") == before)
    assert running.post(PATH, clips[0]).status_code == 200


def test_a_slow_client_holds_up_nobody_and_is_ended(start, clips):
    with start(timeout=1.5) as running, connection(running) as stream:
        stream.sendall(f"{HEAD}{FORM}Content-Length: 50000\r\n\r\n{PART}".encode())
        wait_for(lambda: running.metric("asr_requests_in_progress") == 1)
        assert running.post(PATH, clips[0]).status_code == 200
        status, record = answer_of(stream)
        assert (status, record["error"]["code"]) == (408, "timeout")


def test_above_the_limit_requests_are_told_to_try_again(start, clips):
    with start(max_requests=1) as running, connection(running) as stream:
        stream.sendall(f"{HEAD}{FORM}Content-Length: 50000\r\n\r\n{PART}".encode())
        wait_for(lambda: running.metric("asr_requests_in_progress") == 1)
        refused = running.post(PATH, clips[0])
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["error"]["code"] == "busy"


def test_a_key_is_needed_where_one_is_set(start, clips):
    with start(key="secret") as running:
        answers = [
            *((None, 401), ("Bearer wrong", 401), ("Bearer sécret", 401), ("secret", 401)),
            *(("Bearer secret", 200), ("bearer  secret", 200)),
        ]
        for key, status in answers:
            headers = {} if key is None else {"Authorization": key.encode()}
            files = {"file": clips[0]}
            answer = running.client.post(PATH, headers=headers, files=files)
            assert answer.status_code == status
            for path in ("/v1/models", "/metrics"):
                assert running.client.get(path, headers=headers).status_code == status
        assert running.client.get("/health").status_code == 200


def test_a_failure_is_that_of_its_recording_alone(running, clips, monkeypatch, recognizer):
    real = scheduler.decode
    guilty = len(read_samples(clips[3]))

    def decode(loaded, pieces, options):
        if any(len(piece.samples) == guilty for piece in pieces):
            raise RuntimeError("broken")
        return real(loaded, pieces, options)

    monkeypatch.setattr(scheduler, "decode", decode)
    with ThreadPoolExecutor(8) as pool:
        answers = [*pool.map(lambda clip: running.post(PATH, clip), clips)]
    assert [each.status_code for each in answers] == [200, 200, 200, 500, 200, 200, 200, 200]
    assert answers[3].json()["error"]["code"] == "internal_error"


def test_a_wrong_method_names_the_right_one(running):
    answer = running.client.get(PATH)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_internal_errors_of_all_kinds_are_logged(running, clips, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(LiveText, "push", broken)
    with connect(running.url.replace("http", "ws") + "/v1/live") as socket:
        socket.send(json.dumps({"type": "start"}))
        socket.recv()
        socket.send(b"\0" * 3200)
        assert json.loads(socket.recv())["error"]["code"] == "internal_error"
    assert [each.message for each in caplog.records] == ["a live session failed"]
    assert caplog.records[0].exc_info[1].args == ("broken",)


def test_work_that_outlasts_the_stop_is_answered_and_left(start, clips, monkeypatch, recognizer):
    go_on = threading.Event()
    monkeypatch.setattr(type(recognizer), "align", lambda *_: go_on.wait(30))
    answers = []
    with start(stop_seconds=1) as running:
        path = "/v1/audio/align"
        asking = threading.Thread(
            target=lambda: answers.append(running.post(path, clips[0], text="a"))
        )
        asking.start()
        wait_for(lambda: running.metric("asr_requests_in_progress") == 1)
        began = time.monotonic()
        running.server.should_exit = True
        asking.join()
    assert time.monotonic() - began < 5
    assert running.service.is_working
    go_on.set()
    assert answers[0].status_code == 503
    assert answers[0].json()["error"]["code"] == "stopping"


def read_samples(content: bytes) -> np.ndarray:
    return read(content).samples


def test_a_client_that_leaves_is_not_worked_for(running, tmp_path, monkeypatch):
    decoded = []
    real = scheduler.decode

    def slow(loaded, pieces, options):
        decoded.extend(pieces)
        time.sleep(0.3)
        return real(loaded, pieces, options)

    monkeypatch.setattr(scheduler, "decode", slow)
    speech = read(FLAC).samples
    content = wav(tmp_path, np.tile(np.pad(speech, (0, 16000)), 5))
    with pytest.raises(httpx.ReadTimeout):
        running.client.post(
            PATH,
            files={"file": content},
            data={"model": "english"},
            timeout=httpx.Timeout(20, read=0.25),
        )
    wait_for(lambda: running.metric("asr_requests_in_progress") == 0)
    wait_for(lambda: not running.service._scheduler._jobs)


def test_a_short_recording_does_not_wait_for_a_long_one(recognizer, tmp_path):
    speech = read(FLAC).samples
    soundfile.write(tmp_path / "long.wav", np.tile(np.pad(speech, (0, 16000)), 12), 16000)
    soundfile.write(tmp_path / "short.wav", speech[:16000], 16000)
    ended = []
    done = threading.Event()

    def deliver(name):
        def call(result):
            if isinstance(result, Ended):
                ended.append(name)
                if len(ended) == 2:
                    done.set()

        return call

    one = Scheduler(lambda pieces, seconds: None)
    few = recognizer.configured(batch_seconds=20)
    for name in ("long", "short"):
        one.submit(Job(tmp_path / f"{name}.wav", few, 1e6, deliver(name)))
    assert done.wait(60)
    one.stop()
    assert ended == ["short", "long"]


def test_an_answer_does_not_wait_for_recordings_behind_it(recognizer, clips, tmp_path, monkeypatch):
    events = []
    done, all_there = threading.Event(), threading.Event()
    real = scheduler.decode

    def decode(loaded, pieces, options):
        all_there.wait(20)
        return real(loaded, pieces, options)

    def deliver(result):
        if isinstance(result, Ended):
            events.append("end")
            if events.count("end") == 4:
                done.set()

    monkeypatch.setattr(scheduler, "decode", decode)
    one = Scheduler(lambda pieces, seconds: events.append("batch"))
    alone = recognizer.configured(batch_seconds=1)
    for number, clip in enumerate(clips[:4]):
        path = tmp_path / f"{number}.wav"
        path.write_bytes(clip)
        one.submit(Job(path, alone, 1e6, deliver))
    all_there.set()
    assert done.wait(60)
    one.stop()
    assert events[:4] == ["batch", "end", "batch", "end"]


def test_64_clients_are_all_answered(running, clips):
    with ThreadPoolExecutor(64) as pool:
        statuses = [*pool.map(lambda k: running.post(PATH, clips[k % 8]).status_code, range(128))]
    assert statuses == [200] * 128
    assert not running.service._scheduler._jobs
    assert running.metric("asr_requests_in_progress") == 0


@pytest.fixture
def process(tiny_folder):
    """Run `asr serve` in a process of its own; yield it and its address."""
    command = [sys.executable, "-m", "asr", "serve", "-m", tiny_folder, "--port", "0"]
    command += ["--beam", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as one:
        line = one.stdout.readline()
        yield one, line.split()[-1]
        one.kill()


def test_sigterm_ends_the_service_after_what_it_accepted(process, tmp_path):
    one, url = process
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    content = wav(tmp_path, read(FLAC).samples)
    answers = []
    client = httpx.Client(base_url=url, timeout=120, verify=False)

    def ask():
        answers.append(client.post(PATH, files={"file": content}))

    def in_progress():
        text = client.get("/metrics").text
        return float(re.search(r"^asr_requests_in_progress (\S+)", text, re.M)[1])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_for(lambda: in_progress() + len(answers) == 8)
    assert len(answers) < 8
    one.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert [each.status_code for each in answers] == [200] * 8
    assert one.wait(20) == 0
    with pytest.raises(httpx.ConnectError):
        client.get("/health")
    client.close()


def test_an_address_in_use_is_one_line(running):
    done = subprocess.run(
        [sys.executable, "-m", "asr", "serve", "--port", str(running.port)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(r"asr: error: 127.0.0.1:\d+: cannot listen there \(.*\)\n", done.stderr)
