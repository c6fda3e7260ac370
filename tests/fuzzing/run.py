"""Runs the commands in this process on damaged inputs, and counts what goes wrong."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import sys
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import NamedTuple

from fuzzing.damage import PICKLED, copy, damage
from fuzzing.inputs import Case, is_training

SECONDS = 20  # of CPU time; a command on tiny inputs needs one or two
WAIT = 300  # s; a process that does not end by then waits for something that never comes
MEMORY = 3 << 30  # bytes of data, torch included
TRAINING_SHARE = 0.2  # of the trials


class Outcome(NamedTuple):
    """What a command did with damaged inputs.

    kind: "good", "refused" (a message of one line, status 2), "silent" (it failed without one),
    "traceback", "hang" or "crash". what: the exception and its place, or the message.
    """

    index: int
    case: str
    kind: str
    what: str


class Hang(BaseException):
    """The time limit of a command has passed."""


def trial(index: int, seed: int, cases: list[Case], work: Path) -> Outcome:
    """Damage a copy of one case's inputs and run its command."""
    random = Random(f"{seed}-{index}")
    training = [each for each in cases if is_training(each)]
    others = [each for each in cases if not is_training(each)]
    case = random.choice(training if training and random.random() < TRAINING_SHARE else others)
    folder = work / "inputs"
    copy(case.folder, folder)
    target = folder / case.target
    if random.random() < 0.5:  # as a folder of an earlier version, without checksums
        for each in folder.rglob("checksums.json"):
            each.unlink()
    if not target.exists():
        target.write_text("{}", "utf-8")
    damage(random, target)
    PICKLED.unlink(missing_ok=True)
    kind, what = _run([each.replace("{}", str(folder)) for each in case.arguments], work)
    if PICKLED.exists():
        kind, what = "traceback", "a malicious pickle was executed"
    return Outcome(index, case.name, kind, what)


def _run(arguments: list[str], work: Path) -> tuple[str, str]:
    from asr.cli import main

    errors = work / "stderr"
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with _captured(work / "stdout", 1), _captured(errors, 2):
            status: object = main(arguments)
    except SystemExit as leaving:
        status = leaving.code
    except Hang:
        return "hang", " ".join(arguments[:2])
    except BaseException as error:
        return "traceback", _place(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    texts = [each.read_text("utf-8", "replace") for each in (errors, work / "stdout")]
    said = [line for line in texts[0].splitlines() if "error: " in line]
    if status == 0:
        return "good", ""
    if status != 2 or not (said or texts[1]) or "Traceback" in texts[0]:
        return "silent", f"status {status}: {texts[0][-300:]}"
    return "refused", (said or [""])[0][:300]


@contextlib.contextmanager
def _captured(path: Path, descriptor: int) -> Iterator[None]:
    """Write what goes to a file descriptor into a file."""
    stream = sys.stdout if descriptor == 1 else sys.stderr
    stream.flush()
    kept = os.dup(descriptor)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
            try:
                yield
            finally:
                with contextlib.suppress(Exception):
                    stream.flush()
                os.dup2(kept, descriptor)
    finally:
        os.close(kept)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if "/asr/" in each.filename] or frames
    last = own[-1]
    name = "asr/" + last.filename.rpartition("/asr/")[2]
    return f"{type(error).__name__} in {name}:{last.name}: {str(error).splitlines()[:1]}"[:200]


def _serve(pipe: Connection, seed: int, cases: list[Case], work: Path, memory: int) -> None:
    """Run trials whose indices come through a pipe, in a process of limited memory."""

    def stop(*_: object) -> None:
        raise Hang

    # Not those that a test runner captures: what the commands print is read from the descriptors.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while (index := pipe.recv()) is not None:
        pipe.send(trial(index, seed, cases, work))


class Runner:
    """Trials in a second process, which is replaced when it hangs or crashes."""

    def __init__(self, seed: int, cases: list[Case], work: Path, memory: int = MEMORY) -> None:
        self._arguments = (seed, cases, work, memory)
        self._start()

    def _start(self) -> None:
        # Not forked: torch hangs in the child of a process in which it has used threads.
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, *self._arguments))
        self._process.start()
        other.close()

    def trial(self, index: int) -> Outcome:
        """Run one trial; see `trial`."""
        self._pipe.send(index)
        try:
            if self._pipe.poll(WAIT):
                found: Outcome = self._pipe.recv()
                return found
            kind = "hang"
        except EOFError:
            kind = "crash"
        self._process.kill()
        self._process.join()
        what = f"exit status {self._process.exitcode}"
        self._start()
        return Outcome(index, _case_of(index, *self._arguments[:2]), kind, what)

    def close(self) -> None:
        """End the process."""
        self._pipe.send(None)
        self._process.join()


def _case_of(index: int, seed: int, cases: list[Case]) -> str:
    random = Random(f"{seed}-{index}")
    training = [each for each in cases if is_training(each)]
    others = [each for each in cases if not is_training(each)]
    return random.choice(training if training and random.random() < TRAINING_SHARE else others).name
