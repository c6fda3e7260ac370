"""`asr evaluate`: evaluate a speech or translation model on data of its task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from asr.commands.evaluate_speech import SpeechOptions
from asr.commands.evaluate_translation import TranslationOptions
from asr.commands.output import require_no_input
from asr.errors import UserError

MANIFEST: Final = "a manifest of recordings"
PAIRS: Final = "sentence pairs"


def run(
    data: Path,
    model: str | None,
    limit: int | None,
    speech: SpeechOptions,
    translation: TranslationOptions,
    as_json: bool,
    output: Path | None,
    device: str = "cpu",
    runtime: str = "auto",
) -> int:
    """Evaluate a model on a manifest or on sentence pairs; return 0, or 2 if anything failed.

    The model folder states the task. Without a folder, the task is speech, or translation if a
    target language is given.

    Raises:
        UserError: the data or an option belong to another task, or evaluation is not possible.
    """
    require_no_input([output] if output is not None else [], [data])
    if model is not None and translation.to is not None:
        raise UserError("got --model and --to, which chooses a model of the package; wanted one")
    is_translator = _task(model, translation.to) == "translation"
    if is_translator:
        whose = f"{model or 'the shipped translation model'}, which translates text"
        _refuse(speech.given(), whose)
        _expect(data, PAIRS, f"for {whose}, wanted lines of source<TAB>target")
        from asr.commands.evaluate_translation import run as run_translation

        return run_translation(data, model, limit, translation, as_json, output, device, runtime)
    whose = f"{model or 'the shipped speech model'}, which does not translate"
    _refuse(translation.given(), whose)
    wanted = "a manifest (JSON lines), or a translator: --model DIR or --to LANGUAGE"
    _expect(data, MANIFEST, f"for {whose}, wanted {wanted}")
    from asr.commands.evaluate_speech import run as run_speech

    return run_speech(data, model, limit, speech, as_json, output, device, runtime)


def _task(model: str | None, to: str | None) -> str:
    """Return the task of a model folder, or of the selected model of the package."""
    if model is None:
        return "speech" if to is None else "translation"
    from asr.model_folder import read_folder

    return read_folder(Path(model)).task


def _refuse(given: Mapping[str, object], whose: str) -> None:
    """Raise UserError if an option does not apply to the task."""
    for name in given:
        raise UserError(f"--{name.replace('_', '-')} does not apply to {whose}")


def _expect(data: Path, wanted: str, reason: str) -> None:
    """Raise UserError if the first line of a file is data of the other task."""
    if (found := _kind(data)) not in (wanted, ""):
        raise UserError(f"{data}: {found}; {reason}")


def _kind(data: Path) -> str:
    """Return `MANIFEST` or `PAIRS` from the first line that is not blank; "" if it is neither."""
    try:
        with data.open("rb") as file:
            line = next((line for line in file if line.strip()), b"")
    except OSError:
        return ""
    if line.lstrip(b"\xef\xbb\xbf").startswith(b"{"):
        return MANIFEST
    return PAIRS if b"\t" in line else ""
