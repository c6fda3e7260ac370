"""The load benchmark, against a service of the tests."""

import asyncio
import importlib.util
from pathlib import Path

import pytest

from asr.errors import UserError

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "serving.py"


@pytest.fixture(scope="module")
def serving():
    spec = importlib.util.spec_from_file_location("serving", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_requests_are_counted(serving, running, clips, capsys):
    asyncio.run(serving.measure(running.url, clips[:2], clients=3, requests=7, key=""))
    shown = capsys.readouterr().out
    assert "7 requests of 3 clients" in shown and "status {200: 7}" in shown
    assert "p95" in shown and "MB after" in shown


def test_an_answer_that_changed_is_an_error(serving):
    first = [serving.Answer(0, 200, "one", 0.1, 1.0)]
    with pytest.raises(UserError, match="1 answers differ"):
        serving.report([first[0]._replace(text="two")], first, clients=1, seconds=1.0)
