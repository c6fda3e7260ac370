"""Exit status and stderr of commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from asr.errors import UserError, exit_status

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(
    path
    for folder in ("recipes", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    if "__main__" in path.read_text("utf-8") and path.name != "translators.py"
)


def raising(error: BaseException):
    def command():
        raise error

    return command


@pytest.mark.parametrize(
    ("command", "status", "told"),
    [
        (lambda: None, 0, ""),
        (lambda: 3, 3, ""),
        (raising(UserError("no such\n voice")), 2, "asr: error: no such; voice\n"),
        (
            raising(FileNotFoundError(2, "No such file", "a.wav")),
            2,
            "asr: error: a.wav: No such file\n",
        ),
        (
            lambda: "caf\xe9".encode("ascii"),
            2,
            "asr: error: '\xe9' cannot be written as ascii; wanted arguments in UTF-8, and "
            "PYTHONIOENCODING=utf-8 if the output is not\n",
        ),
        (raising(OSError("disk")), 2, "asr: error: disk\n"),
        (raising(BrokenPipeError()), 141, ""),
        (raising(KeyboardInterrupt()), 130, "asr: interrupted\n"),
        (raising(KeyboardInterrupt("a is kept")), 130, "asr: interrupted: a is kept\n"),
    ],
)
def test_status_and_message(command, status, told, capsys):
    assert exit_status(command) == status
    assert capsys.readouterr() == ("", told)


def test_other_errors_are_ours_to_mend_and_are_seen():
    with pytest.raises(ZeroDivisionError):
        exit_status(raising(ZeroDivisionError()))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_end_so_too(script):
    assert script.read_text("utf-8").endswith("    raise SystemExit(exit_status(main))\n")


def test_what_nobody_reads_any_more_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    command = "from asr.errors import exit_status; raise SystemExit(exit_status(lambda: print(1)))"
    kept_back = {**os.environ, "PYTHONUNBUFFERED": ""}  # so that writing fails only at the end
    done = subprocess.run(
        [sys.executable, "-c", command], stdout=writing, stderr=-1, cwd=ROOT, env=kept_back
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
