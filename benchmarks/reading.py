"""Measure `asr read`: miscues found, and false alarms, on pages that differ from what was read.

    python benchmarks/reading.py MANIFEST --ids FILE [--every N] [-m MODEL ...] [--seed N] [--fit]

The text of each utterance is altered (`miscues.py`): words replaced by similar ones, inserted and
deleted, which the reader then misread, skipped or added. In a second recording of each, one or two
words are repeated by splicing. Beside the reader stand free decoding compared with the page by edit
distance, and a threshold on the confidence of the page's words in forced alignment, with the
reader's share of false alarms. --fit prints the weights of the reader's evidence fitted to all
models together. Utterances that are longer than one segment are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import jiwer
import numpy as np
from miscues import Change, Miscue, Neighbours, altered, lexicon, repeated

from asr.audio.read import Waveform, read
from asr.corpora.manifest import Utterance, read_manifest, select
from asr.errors import exit_status
from asr.inference.decoding import force_encoded
from asr.inference.page_items import Heard
from asr.inference.pieces import whole
from asr.inference.reader import STANDARD, ReadingOptions, hear, judge_words, statuses
from asr.inference.reading_evidence import Judge, features
from asr.inference.recognizer import Recognizer
from asr.model_folder import PRETRAINED
from asr.reading import ReadStatus
from asr.render.tables import text_table
from asr.text.page import PageWord

LENGTHS = ((1, 3), (4, 6), (7, 99))  # characters of the page's word
ROUNDS = 50  # of Newton's method
RIDGE = 0.03  # bounds the weight of agreement, which no replaced word may have


class Case(NamedTuple):
    """An altered page and its recording; repeated: indices of the words that were said twice."""

    heard: Heard
    miscues: list[Miscue]
    repeated: range = range(0)

    @property
    def shown(self) -> list[Miscue]:
        """The words that are on the page."""
        return [miscue for miscue in self.miscues if miscue.change is not Change.DELETED]

    @property
    def page(self) -> list[PageWord]:
        return [PageWord(each.word, each.word, 0, False) for each in self.shown]


class Answer(NamedTuple):
    """What a contestant says of a page: status and word heard of each of its words.

    added: for each added word, the number of page words before it. repeated: indices of words.
    """

    statuses: list[ReadStatus]
    heard: list[str | None]
    added: list[int]
    repeated: list[int]


Contestant = Callable[[Recognizer, Case], Answer]


def cases(
    recognizer: Recognizer, utterances: Iterable[Utterance], neighbours: Neighbours, seed: int
) -> Iterator[Case]:
    """Yield two cases for each utterance: an altered page, and repeated words."""
    for utterance in utterances:
        random = Random(f"{seed} {utterance.id}")
        waveform = read(utterance.audio)
        text = utterance.text
        if waveform.duration > recognizer.decoding.segment_seconds or len(text.split()) < 4:
            continue
        yield Case(_heard(recognizer, waveform.samples), altered(text.split(), neighbours, random))
        if waveform.duration > 0.8 * recognizer.decoding.segment_seconds:
            continue
        words = recognizer.align(waveform, text).words
        samples, indices = repeated(waveform.samples, words, random)
        unchanged = [Miscue(word, Change.NONE, word) for word in text.split()]
        yield Case(_heard(recognizer, samples), unchanged, indices)


def _heard(recognizer: Recognizer, samples: np.ndarray) -> Heard:
    piece = whole(Waveform(samples))
    (heard,) = hear(recognizer.loaded, [piece], recognizer.decoding)
    return heard


def reader(options: ReadingOptions) -> Contestant:
    """The product's own judgement."""

    def answer(recognizer: Recognizer, case: Case) -> Answer:
        judged = judge_words(recognizer.loaded, [case.heard], case.page, options.penalties)
        found: dict[int, tuple[ReadStatus, str | None]] = {}
        added, again = [], []
        for word in statuses(judged, case.page, options):
            if word.place is None:
                added.append(max(found, default=-1) + 1)
            elif word.status is ReadStatus.REPEATED:
                again.append(word.place)
            else:
                found[word.place] = word.status, word.heard
        in_order = [found[index] for index in range(len(found))]
        return Answer([each[0] for each in in_order], [each[1] for each in in_order], added, again)

    return answer


def edit_distance(recognizer: Recognizer, case: Case) -> Answer:
    """Free decoding, aligned with the page by words."""
    page, said = [word.spoken for word in case.page], case.heard.free.text.split()
    status: list[ReadStatus] = [ReadStatus.SKIPPED] * len(page)
    heard: list[str | None] = [None] * len(page)
    added: list[int] = []
    (chunks,) = jiwer.process_words(" ".join(page), " ".join(said)).alignments
    for chunk in chunks:
        texts = said[chunk.hyp_start_idx : chunk.hyp_end_idx]
        if chunk.type == "insert":
            added += [chunk.ref_start_idx] * len(texts)
        for index, text in zip(range(chunk.ref_start_idx, chunk.ref_end_idx), texts, strict=False):
            status[index] = ReadStatus.RIGHT if page[index] == text else ReadStatus.MISREAD
            heard[index] = text
    return Answer(status, heard, added, [])


def confidences(recognizer: Recognizer, case: Case) -> list[float]:
    """Confidence of each word of the page, all of which are forced upon the recording."""
    text = " ".join(word.spoken for word in case.page)
    tokens = recognizer.loaded.vocabulary.encode(text)
    words = force_encoded(recognizer.loaded, case.heard.piece, case.heard.encoded, tokens).words
    return [word.confidence or 0.0 for word in words]


def threshold_alone(found: Sequence[Sequence[float]], at: Sequence[Case], alarms: float) -> float:
    """Return the threshold with a given share of false alarms among the words read right."""
    right = [
        each
        for case, values in zip(at, found, strict=True)
        for miscue, each in zip(case.shown, values, strict=True)
        if miscue.change is Change.NONE
    ]
    return float(np.quantile(right, alarms))


class Shares(NamedTuple):
    """Counts of a contestant: found and total of each row of the table."""

    rows: dict[str, tuple[int, int]]

    def percent(self, row: str) -> str:
        found, total = self.rows[row]
        return f"{100 * found / total:.1f}" if total else "-"


def score(given: Sequence[Case], answers: Sequence[Answer]) -> Shares:
    """Count miscues found and false alarms."""
    rows: dict[str, tuple[int, int]] = {}

    def count(name: str, found: int, total: int = 1) -> None:
        before = rows.get(name, (0, 0))
        rows[name] = before[0] + found, before[1] + total

    for case, answer in zip(given, answers, strict=True):
        for index, miscue in enumerate(case.shown):
            status = answer.statuses[index]
            flagged = status is not ReadStatus.RIGHT
            name = {Change.REPLACED: "replaced", Change.NONE: "false alarm"}.get(miscue.change)
            if name is None:
                count("inserted, flagged", flagged)
                count("inserted, skipped", status is ReadStatus.SKIPPED)
                continue
            count(name, flagged)
            low, high = next(each for each in LENGTHS if len(miscue.word) <= each[1])
            count(f"{name}, {low}-{high} characters", flagged)
            if miscue.change is Change.REPLACED and flagged:
                count("replaced: heard right", answer.heard[index] == miscue.said)
        _count_added(count, case, answer)
    return Shares(dict(sorted(rows.items())))


def _count_added(count: Callable[..., None], case: Case, answer: Answer) -> None:
    """Count added and repeated words; a place is one of the gaps between words of the page."""
    place, places = 0, set()
    for miscue in case.miscues:
        if miscue.change is Change.DELETED:
            places.add(place)
            count("deleted, added", place in answer.added)
        else:
            place += 1
    if case.repeated:
        near = set(range(case.repeated.start, case.repeated.stop + 1))
        count("repeated", any(each in near for each in answer.repeated))
        count("repeated or added", any(each in near for each in answer.repeated + answer.added))
        places |= near
    count("added, false, of page words", sum(each not in places for each in answer.added), place)
    count(
        "repeated, false, of page words",
        sum(each not in case.repeated for each in answer.repeated),
        place,
    )


def fit(judgements: Iterable[tuple[tuple[float, ...], bool]]) -> Judge:
    """Fit the weights of the evidence by Newton's method."""
    pairs = list(judgements)
    x, y = np.array([each for each, _ in pairs]), np.array([float(right) for _, right in pairs])
    weights = np.zeros(x.shape[1])
    for _ in range(ROUNDS):
        p = 1 / (1 + np.exp(-x @ weights))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + RIDGE * np.eye(len(weights))
        weights += np.linalg.solve(hessian, x.T @ (y - p) - RIDGE * weights)
    return Judge(*weights.tolist())


def judgements(
    recognizer: Recognizer, given: Iterable[Case], options: ReadingOptions
) -> Iterator[tuple[tuple[float, ...], bool]]:
    """Yield the features of each page word that was found, and whether it was read right."""
    for case in given:
        shown = case.shown
        for each in judge_words(recognizer.loaded, [case.heard], case.page, options.penalties):
            if each.evidence is not None and each.item.word is not None:
                yield features(each.evidence), shown[each.item.word].change is Change.NONE


def report(recognizer: Recognizer, given: Sequence[Case], options: ReadingOptions) -> str:
    """Return the table of one model."""
    ours = reader(options)
    shares = score(given, [ours(recognizer, case) for case in given])
    free = score(given, [edit_distance(recognizer, case) for case in given])
    found = [confidences(recognizer, case) for case in given]
    wrong, total = shares.rows["false alarm"]
    least = threshold_alone(found, given, wrong / total)
    threshold = score(
        given,
        [
            Answer(
                [ReadStatus.RIGHT if each >= least else ReadStatus.MISREAD for each in values],
                [None] * len(values),
                [],
                [],
            )
            for values in found
        ],
    )
    rows = [
        (name, shares.rows[name][1], *(each.percent(name) for each in (shares, free, threshold)))
        for name in shares.rows
        if name in free.rows and name in threshold.rows
    ]
    return text_table(("%", "of", "read", "free decoding", "threshold"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="use every N-th utterance"
    )
    parser.add_argument("-m", "--model", action="append", help="may be repeated (default: english)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fit", action="store_true")
    given = parser.parse_args()
    utterances = select(read_manifest(given.manifest), given.ids)[:: given.every]
    neighbours = Neighbours(lexicon(PRETRAINED / "english" / "words"))
    options = STANDARD
    evidence: list[tuple[tuple[float, ...], bool]] = []
    for model in given.model or ["english"]:
        recognizer = Recognizer.load(model)
        found = list(cases(recognizer, utterances, neighbours, given.seed))
        if given.fit:
            evidence += judgements(recognizer, found, options)
        print(f"{model}: {len(found)} recordings\n{report(recognizer, found, options)}\n")
    if given.fit:
        print(fit(evidence))


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
