"""Measure punctuation and case: of the model on held-out text, or of transcripts of recognisers.

    python recipes/written/evaluate.py text asr/pretrained/written FILE …
    python recipes/written/evaluate.py transcripts MANIFEST --ids IDS NAME=FILE.jsonl …
    python recipes/written/evaluate.py whisper MANIFEST --ids IDS > whisper.jsonl

`text` removes the punctuation and case of the sentences that `train.py` holds out of each FILE (of
a file whose name is in `--whole`, of all), and puts them in again. `transcripts` compares the
"written" text of JSON lines (the "text" where there is none) with that of the manifest: the bare
words are aligned, marks are compared at each pair of words, and case at equal words. `whisper`
writes the transcripts of Whisper base, of the extra `peers`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jiwer
from texts import Source, read_source
from train import HELD_OUT, STRETCH, held_out_part

from asr.audio.read import read
from asr.errors import UserError, exit_status
from asr.render.tables import text_table
from asr.runtime.punctuator import Punctuator
from asr.text.lines import read_entries
from asr.text.written import Case, Mark, Written, read_written

NAMES = {Mark.COMMA: "comma", Mark.STOP: "full stop", Mark.QUESTION: "question mark"}


class Pair(NamedTuple):
    """The same passage as it should be written, and as it was."""

    wanted: list[Written]
    found: list[Written]


class Place(NamedTuple):
    """A word of both passages; None where one of them has none."""

    wanted: Written | None
    found: Written | None


def places(pair: Pair) -> list[Place]:
    """Align the bare words of both passages with the fewest errors."""
    wanted, found = ([each.word for each in part] for part in pair)
    if wanted == found:
        return [Place(*each) for each in zip(pair.wanted, pair.found, strict=True)]
    if not wanted or not found:
        return [Place(each, None) for each in pair.wanted] + [
            Place(None, each) for each in pair.found
        ]
    made = jiwer.process_words(" ".join(wanted), " ".join(found))
    aligned: list[Place] = []
    for chunk in made.alignments[0]:
        left = pair.wanted[chunk.ref_start_idx : chunk.ref_end_idx]
        right = pair.found[chunk.hyp_start_idx : chunk.hyp_end_idx]
        aligned += [
            Place(left[at] if at < len(left) else None, right[at] if at < len(right) else None)
            for at in range(max(len(left), len(right)))
        ]
    return aligned


def measures(pairs: Iterable[Pair]) -> list[Any]:
    """Return the words, the F1 of each mark, and the shares of words and capitals right, in %.

    Capitals: the F1 of words that are not all lower-case.
    """
    both = [place for pair in pairs for place in places(pair)]
    marks = [_f1(both, lambda word, mark=mark: word.mark is mark) for mark in NAMES]
    equal = [each for each in both if each.wanted and each.found and _same_word(each)]
    right = sum(each.wanted.case is each.found.case for each in equal)
    capitals = _f1(equal, lambda word: word.case is not Case.LOWER)
    words = sum(each.wanted is not None for each in both)
    return [words, *marks, 100 * right / max(1, len(equal)), capitals]


def _same_word(place: Place) -> bool:
    return place.wanted.word == place.found.word


def _f1(both: Sequence[Place], holds: Any) -> float:
    wanted = [each.wanted is not None and holds(each.wanted) for each in both]
    found = [each.found is not None and holds(each.found) for each in both]
    hits = sum(one and other for one, other in zip(wanted, found, strict=True))
    return 200 * hits / max(1, sum(wanted) + sum(found))


def passages(source: Source, whole: bool) -> list[list[Written]]:
    """Return the held-out passages of a source: stretches of running text, or sentences."""
    sentences = source.sentences if whole else held_out_part(source)
    if not source.runs:
        return sentences
    return [
        [word for sentence in sentences[start : start + STRETCH] for word in sentence]
        for start in range(0, len(sentences), STRETCH)
    ]


def again(punctuator: Punctuator, passage: list[Written]) -> Pair:
    """Write the bare words of a passage."""
    return Pair(passage, read_written(" ".join(punctuator([each.word for each in passage]))))


def of_texts(
    model: Path, files: Sequence[Path], whole: Sequence[str], most: int
) -> list[list[Any]]:
    """Return the measures of the model on files; most: words of a book."""
    punctuator = Punctuator.load(model)
    rows = []
    for file in files:
        parts = passages(read_source(file, most), file.name in whole)
        started = time.process_time()
        pairs = [again(punctuator, each) for each in parts]
        seconds = time.process_time() - started
        row = measures(pairs)
        rows.append([file.name, *row, 1000 * seconds / max(1, row[0])])
    return rows


def of_transcripts(manifest: Path, ids: Path, files: Sequence[str]) -> list[list[Any]]:
    """Return the measures of transcripts; files: NAME=FILE."""
    wanted = {each["id"]: read_written(each["text"]) for each in _utterances(manifest, ids)}
    rows = []
    for name, _, file in (each.rpartition("=") for each in files):
        records = [json.loads(line.text) for line in read_entries(Path(file))]
        found = {Path(each["path"]).stem: each.get("written", each["text"]) for each in records}
        if missing := wanted.keys() - found.keys():
            raise UserError(f"{file}: has no transcript of {min(missing)}")
        pairs = [Pair(passage, read_written(found[each])) for each, passage in wanted.items()]
        words = [" ".join(word.word for word in part) for pair in pairs for part in pair]
        error = jiwer.wer(words[::2], words[1::2])
        rows.append([name or file, *measures(pairs), 100 * error])
    return rows


def whisper(manifest: Path, ids: Path) -> None:
    """Print the transcripts of Whisper base as JSON lines."""
    from faster_whisper import WhisperModel

    from asr.models.encoders.public_weights import find_weights

    folder = str(find_weights("whisper-base"))
    model = WhisperModel(folder, device="cpu", compute_type="int8", cpu_threads=1)
    for each in _utterances(manifest, ids):
        audio = manifest.parent / each["audio"]
        segments, _ = model.transcribe(read(audio).samples, language="en", beam_size=5)
        text = " ".join(segment.text for segment in segments)
        print(json.dumps({"path": str(audio), "text": text}), flush=True)


def _utterances(manifest: Path, ids: Path) -> list[dict[str, Any]]:
    kept = {line.text for line in read_entries(ids, comment="#")}
    records = [json.loads(line.text) for line in read_entries(manifest)]
    return [each for each in records if each["id"] in kept]


def main() -> None:
    """Read the arguments and print a table."""
    parser = argparse.ArgumentParser(description="Measure punctuation and case.")
    kinds = parser.add_subparsers(dest="kind", required=True)
    text = kinds.add_parser("text", help=f"held-out text: one of {HELD_OUT} sentences of each file")
    text.add_argument("model", type=Path)
    text.add_argument("files", type=Path, nargs="+")
    text.add_argument("--whole", nargs="*", default=[], metavar="NAME", help="held out as a whole")
    text.add_argument("--most", type=int, default=20_000, help="words of a book (default: 20000)")
    for name in ("transcripts", "whisper"):
        spoken = kinds.add_parser(name)
        spoken.add_argument("manifest", type=Path)
        spoken.add_argument("--ids", type=Path, required=True)
        if name == "transcripts":
            spoken.add_argument("files", nargs="+", metavar="NAME=FILE")
    given = parser.parse_args()
    columns = ["words", *NAMES.values(), "case", "capitals"]
    if given.kind == "whisper":
        whisper(given.manifest, given.ids)
    elif given.kind == "text":
        rows = of_texts(given.model, given.files, given.whole, given.most)
        print(text_table(("text", *columns, "ms a word"), rows))
    else:
        rows = of_transcripts(given.manifest, given.ids, given.files)
        print(text_table(("recogniser", *columns, "WER"), rows))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
