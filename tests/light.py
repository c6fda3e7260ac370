"""Runs the commands that need no extra, and those that must name theirs.

python tests/light.py             in an environment without extras
python tests/light.py --block     elsewhere: as if these packages were missing
"""

import argparse
import contextlib
import io
import sys
import tempfile
from pathlib import Path

SPEECH = Path(__file__).parents[1] / "data" / "speech"
RECORDING = SPEECH / "5683-32866-0027.flac"
TEXT = "a cold bright moon was shining with clear sharp lights and shadows"
MISSING = ("torch", "torchaudio", "librosa", "numba", "sacrebleu", "tensorboard")

# Arguments, and what is printed; FOLDER is a new one with the texts spoken.txt and heard.txt.
WORKING = (
    (f"transcribe --plain --beam 1 {RECORDING}", "clear sharp lights"),
    (f"align {RECORDING} --beam 1 --text FOLDER/spoken.txt", "shadows"),
    (f"read {RECORDING} --text FOLDER/spoken.txt", "12"),
    (f"evaluate {SPEECH}/manifest.jsonl -m english --beam 1 --limit 1", "WER"),
    ("score FOLDER/spoken.txt FOLDER/heard.txt", "WER"),
    ("translate hello", "bonjour"),
    ("translate --to de hello", "hallo"),
    ("prepare folder FOLDER/corpus FOLDER/manifest.jsonl", "1 utterance"),
    ("prepare check FOLDER/manifest.jsonl", ""),
    ("check english", "whole"),
)
NEEDING = (
    "train --from english FOLDER/manifest.jsonl FOLDER/run",
    "shrink english FOLDER/small --to 5MB",
    f"transcribe --runtime torch {RECORDING}",
)


def run(arguments: str, folder: Path) -> tuple[int, str, str]:
    """Run a command in this process; return its status and what it wrote to both streams."""
    from asr.cli import main

    words = [word.replace("FOLDER", str(folder)) for word in arguments.split(" ")]
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            status = main(words)
        except SystemExit as stop:
            status = int(stop.code or 0)
    return status, out.getvalue(), errors.getvalue()


def problems(folder: Path) -> list[str]:
    """Return a line for each command that does not do what it must."""
    (folder / "spoken.txt").write_text(TEXT + "\n")
    (folder / "heard.txt").write_text(TEXT.replace("sharp", "shark") + "\n")
    (folder / "corpus").mkdir()
    (folder / "corpus" / RECORDING.name).write_bytes(RECORDING.read_bytes())
    (folder / "corpus" / RECORDING.with_suffix(".txt").name).write_text(TEXT)
    found = []
    for arguments, wanted in WORKING:
        status, out, errors = run(arguments, folder)
        if status or wanted.lower() not in (out + errors).lower():
            found.append(f"asr {arguments}: status {status}: {out[-200:]}{errors[-200:]}")
    for arguments in NEEDING:
        status, _, errors = run(arguments, folder)
        if status != 2 or errors.count("\n") != 1 or "pip install" not in errors:
            found.append(f"asr {arguments}: status {status}, wanted one line: {errors[-300:]}")
    return found


def main() -> None:
    """Read the arguments, run all and say what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--block", action="store_true")
    if parser.parse_args().block:
        sys.modules.update(dict.fromkeys(MISSING))
    with tempfile.TemporaryDirectory() as folder:
        found = problems(Path(folder))
    present = [name for name in MISSING if sys.modules.get(name)]
    found += [f"{name} was imported" for name in present]
    print("\n".join(found) or f"{len(WORKING) + len(NEEDING)} commands as they must be")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
