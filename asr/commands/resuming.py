"""The journal by which `asr transcribe` resumes after an interruption."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from asr.commands.writers import Recording, Target
from asr.errors import note, warn
from asr.model_folder import find_folder

if TYPE_CHECKING:
    from asr.inference.journal import Journal


@contextmanager
def opened_journal(
    targets: Sequence[Target],
    recordings: Sequence[Recording],
    model: str | None,
    given: Sequence[object],
) -> Iterator[Journal | None]:
    """Yield the journal beside the first output; it stays if the block is interrupted.

    given: the options. None if the output is stdout, a device or a pipe, a recording cannot be read
    again, or a journal cannot be written there.
    """
    from asr import __version__
    from asr.inference.journal import Journal, identity_of
    from asr.inference.recognizer import SHIPPED

    output = next((each.path for each in targets if each.path is not None), None)
    paths = [each.path for each in recordings]
    if output is None or not _is_resumable(output, paths):
        yield None
        return
    folder = SHIPPED if model is None else find_folder(Path(model))
    files = [each for each in (*sorted(folder.rglob("*")), *given) if isinstance(each, Path)]
    try:
        subject = {
            "version": __version__,
            "recordings": identity_of(paths),
            "model": identity_of(each for each in files if each.is_file()),
            "options": [str(each) for each in given],
        }
        journal = Journal(output.with_name(f"{output.name}.progress"), subject)
    except OSError:
        yield None
        return
    if journal.is_resumed:
        note(f"{journal.path}: resumes an interrupted transcription")
    if journal.is_of_another:
        warn(f"{journal.path}: of other recordings, options or another model; begins anew")
    try:
        yield journal
    except KeyboardInterrupt:
        journal.close()
        if not journal.path.exists():
            raise
        kept = f"{journal.path} keeps what is done; the same command resumes"
        raise KeyboardInterrupt(kept) from None
    except BaseException:
        journal.close()
        raise
    journal.remove()


def _is_resumable(output: Path, recordings: Sequence[Path]) -> bool:
    """Return whether the output is no device or pipe, and all recordings can be read again."""
    is_regular = output.is_file() or output.is_dir() or not output.exists()
    return is_regular and all(map(Path.is_file, recordings))
