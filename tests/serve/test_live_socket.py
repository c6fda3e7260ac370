"""The WebSocket `/v1/live`, by a client of its own."""

import json

import numpy as np
import pytest
from running_service import FLAC, Running, wait_for
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from asr.audio.read import read
from asr.inference.live import Finalised, LiveText

START = json.dumps({"type": "start"})


def url(running: Running) -> str:
    return running.url.replace("http", "ws") + "/v1/live"


def samples() -> np.ndarray:
    """Return 9 s with a pause, as 16-bit samples."""
    speech = read(FLAC).samples
    joined = np.concatenate([speech, np.zeros(24000, np.float32), speech[:48000]])
    return (joined * 32767).astype("<i2")


def converse(socket, messages):
    """Send messages; return all answers until the service closes, and the code."""
    for message in messages:
        socket.send(message)
    found = []
    try:
        while True:
            found.append(json.loads(socket.recv(timeout=60)))
    except ConnectionClosed as closed:
        return found, closed.rcvd.code


def test_text_is_that_of_live_recognition(running, recognizer):
    content = samples()
    text = LiveText(recognizer)
    parts = [content[at : at + 5000] for at in range(0, len(content), 5000)]
    events = [each for part in parts for each in text.push(part.astype(np.float32) / 2**15)]
    events += text.finish()
    expected = [each.record() for each in events]
    chunks = [part.tobytes() for part in parts]
    start = json.dumps({"type": "start", "rate": 16000, "attention": True})
    with connect(url(running)) as socket:
        found, code = converse(socket, [start, *chunks, json.dumps({"type": "stop"})])
    ready, *between, done = found
    assert (ready["type"], ready["model"], done["type"], code) == ("ready", "english", "done", 1000)
    finals = [each for each in between if each["type"] == "final"]
    for each in finals:
        attention = each.pop("attention")
        assert len(attention["weights"]) == len(attention["characters"])
    assert between == expected and finals
    texts = [each.segment.written for each in events if isinstance(each, Finalised)]
    assert done["text"] == " ".join(texts)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([b"\0\0"], 'wanted {"type": "start"'),
        (["[]"], 'wanted {"type": "start"'),
        (['{"type": "start", "rate": "fast"}'], "rate: got"),
        (['{"type": "start", "rate": 10}'], "a rate of 10 Hz"),
        ([START, b"\0"], "whole 16-bit samples"),
        (['{"type": "start", "api_key": "\\ud800"}'], 'wanted {"type": "start"'),
        ([START, "{}"], "wanted samples, or"),
    ],
)
def test_wrong_messages_are_answered_and_end_the_session(running, messages, problem):
    with connect(url(running)) as socket:
        found, code = converse(socket, messages)
    assert code == 1008 and found[-1]["type"] == "error"
    assert problem in found[-1]["error"]["message"]
    wait_for(lambda: running.metric("asr_live_sessions") == 0)


def test_pages_of_other_sites_are_refused(running):
    for origin in ("http://elsewhere.example", "http://["):
        with pytest.raises(InvalidStatus) as refused:
            connect(url(running), origin=origin)
        assert refused.value.response.status_code == 403
    with connect(url(running), origin=running.url) as socket:
        socket.send(START)
        assert json.loads(socket.recv())["type"] == "ready"


def test_sessions_are_limited_and_need_the_key(start):
    begin = json.dumps({"type": "start", "api_key": "secret"})
    with start(key="secret", max_live=1) as running, connect(url(running)) as first:
        first.send(begin)
        assert json.loads(first.recv())["type"] == "ready"
        for message, code in ((begin, "busy"), (START, "invalid_api_key")):
            with connect(url(running)) as second:
                found, _ = converse(second, [message])
            assert found[0]["error"]["code"] == code


def test_a_service_that_stops_sends_the_rest_of_the_text(start):
    with start() as running:
        with connect(url(running)) as socket:
            socket.send(START)
            socket.send(samples()[:40000].tobytes())
            assert json.loads(socket.recv())["type"] == "ready"
            running.server.should_exit = True
            found, code = converse(socket, [])
        assert code == 1001
        assert found[-1]["type"] == "done" and found[-1]["text"]
        assert found[-2]["type"] == "final"


def test_a_client_that_vanishes_ends_its_session(running):
    with connect(url(running)) as socket:
        socket.send(START)
        wait_for(lambda: running.metric("asr_live_sessions") == 1)
        socket.socket.close()
        wait_for(lambda: running.metric("asr_live_sessions") == 0)
