"""User errors: one line on stderr and an exit status, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

FAILED = 2
INTERRUPTED = 130  # the shell's status for SIGINT
PIPE_CLOSED = 141  # the shell's status for SIGPIPE
EXTRAS = {  # a package that transcribing a file does without → the extra that installs it
    **dict.fromkeys(("torch", "scipy", "matplotlib"), "train"),
    **dict.fromkeys(
        ("starlette", "uvicorn", "python_multipart", "websockets", "prometheus_client"), "serve"
    ),
    "sounddevice": "microphone",
    "onnxruntime": "onnx",
    "onnx": "export",
    "triton": "triton",
}


class UserError(ValueError):
    """Bad input. The message is one line: what was given, what was expected, what to do."""


def exit_status(command: Callable[[], int | None]) -> int:
    """Run a command and return its exit status; None counts as 0.

    User errors, files that cannot be read or written, a lack of memory, and packages of an extra
    that are not installed, are reported in one line on stderr. So is Ctrl-C, with the message of
    the KeyboardInterrupt, which says what is kept.
    """
    try:
        status = command() or 0
        sys.stdout.flush()
        return status
    except UserError as error:
        complain(error)
        return FAILED
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        complain(
            f"{character!r} cannot be written as {error.encoding}; wanted arguments in UTF-8, and "
            "PYTHONIOENCODING=utf-8 if the output is not"
        )
        return FAILED
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = EXTRAS.get(package)
        if extra is None:
            raise
        complain(f"this needs {package}, of the extra `{extra}`: {install_command(extra)}")
        return FAILED
    except BrokenPipeError:  # the program that reads our output has exited
        _abandon_stdout()
        return PIPE_CLOSED
    except OSError as error:
        _abandon_stdout()
        complain(f"{error.filename}: {error.strerror}" if error.filename else error)
        return FAILED
    except MemoryError:
        complain("not enough memory for this input")
        return FAILED
    except KeyboardInterrupt as interrupt:
        _write_line("interrupted", interrupt)
        return INTERRUPTED


def install_command(extra: str) -> str:
    """Return the command that installs an extra, with the versions that were tested.

    Without `constraints.txt` pip may choose a torch build of several gigabytes.
    """
    return f"pip install -c constraints.txt -e '.[{extra}]'"


def complain(message: object) -> None:
    """Write an error to stderr as one line, even if it has several."""
    _write_line("error", message)


def warn(message: object) -> None:
    """Write a warning to stderr as one line, even if it has several."""
    _write_line("warning", message)


def note(message: object) -> None:
    """Write what the user should know to stderr as one line."""
    _write_line("note", message)


def _write_line(kind: str, message: object) -> None:
    from_lines = "; ".join(line.strip() for line in str(message).splitlines() if line.strip())
    print(": ".join(filter(None, ("asr", kind, from_lines))), file=sys.stderr, flush=True)


def _abandon_stdout() -> None:
    """Redirect stdout to the null device, so that Python does not fail again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
