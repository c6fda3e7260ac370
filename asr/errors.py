"""Errors that are the user's to mend: one line and an exit status, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

FAILED = 2
INTERRUPTED = 130  # what shells give for SIGINT …
PIPE_CLOSED = 141  # … and for SIGPIPE


class UserError(ValueError):
    """Bad input. The message is one line: what was got, what was wanted, what to do."""


def exit_status(command: Callable[[], int | None]) -> int:
    """Run a command and return its exit status; one that returns None has gone well.

    What the user can mend, and files that cannot be read or written, are one line on stderr.
    """
    try:
        status = command() or 0
        sys.stdout.flush()
        return status
    except UserError as error:
        complain(error)
        return FAILED
    except BrokenPipeError:  # whoever read our output has gone
        _abandon_stdout()
        return PIPE_CLOSED
    except OSError as error:
        _abandon_stdout()
        complain(f"{error.filename}: {error.strerror}" if error.filename else error)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def complain(message: object) -> None:
    """Write one line to stderr, whatever the message."""
    from_lines = "; ".join(line.strip() for line in str(message).splitlines() if line.strip())
    print(f"asr: error: {from_lines}", file=sys.stderr, flush=True)


def _abandon_stdout() -> None:
    """Let go of what cannot be written; Python would fail on it once more when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
