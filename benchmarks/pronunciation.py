"""Compare `asr read` with the scores that people gave: Pearson's correlation for words, sentences.

    python benchmarks/pronunciation.py MANIFEST --scores FILE [-m MODEL ...] [--fit FILE]
        [--ages FILE] [--every N] [--seed N]

FILE of scores: speechocean762's `utt2score`, lines of an id and a JSON object with the scores of
several raters (0 to 10; `total` of the sentence and of each of its `words`), or its `scores.json`,
one object with an object of single scores for each id. The median of the raters counts. Rows:
whether free decoding found the word; the log-probability of the CTC path less that of the best
symbols, a character; the confidence that `asr read` gives; and with --fit, least squares of all
evidence on the scores of that second file. A sentence has the mean of its words, by least squares
also its least word, its speed and its pauses. Where scores have raters, the last row is each rater
beside the median of the others. Intervals: 95 %, by resampling speakers. Children: below 18 years
by --ages, lines of a speaker and an age, where a speaker of the manifest ends with the first.
Utterances whose words differ from those of the scores are left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.audio.read import read
from asr.corpora.manifest import Utterance, read_manifest
from asr.errors import UserError, exit_status
from asr.inference.pieces import whole
from asr.inference.reader import STANDARD, Judged, hear, judge_words
from asr.inference.reading_evidence import NOT_SAID, Evidence, features
from asr.inference.recognizer import Recognizer
from asr.render.tables import text_table
from asr.text.page import PageWord

ADULT = 18  # years
SAMPLES = 1000  # of speakers, for an interval


class Scores(NamedTuple):
    """What the raters gave a sentence and its words: (R,) and (words, R)."""

    texts: list[str]
    sentence: list[float]
    words: list[list[float]]


class Said(NamedTuple):
    """A sentence that was read, with its scores.

    words: the evidence for each. speed: words a second. pauses: share of the time in which no word
    is said.
    """

    speaker: str
    scores: Scores
    words: list[Evidence]
    speed: float
    pauses: float


def read_scores(path: Path) -> dict[str, Scores]:
    """Read the scores of a corpus by the ids of its utterances.

    Raises:
        UserError: the file is neither of the two kinds.
    """
    text = path.read_text("utf-8")
    try:
        if path.suffix == ".json":
            found: dict[str, Any] = json.loads(text)
        else:
            lines = (line.split("\t", 1) for line in text.splitlines() if line)
            found = {name: json.loads(record) for name, record in lines}
        return {name: _scores(record) for name, record in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not the scores of sentences and words: {error}") from error


def _scores(record: dict[str, Any]) -> Scores:
    words = record["words"]
    texts = [str(word["text"]).lower() for word in words]
    return Scores(texts, _raters(record["total"]), [_raters(word["total"]) for word in words])


def _raters(value: float | list[float]) -> list[float]:
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ValueError("no rater")
    return [float(each) for each in values]


def scored(utterances: Sequence[Utterance], path: Path) -> list[tuple[Utterance, Scores]]:
    """Return the utterances whose words are those of the scores in a file.

    Raises:
        UserError: there are none, or the file has no scores.
    """
    scores = read_scores(path)
    known = [(each, scores[each.id]) for each in utterances if each.id in scores]
    equal = [(each, given) for each, given in known if given.texts == each.text.lower().split()]
    if not equal:
        raise UserError(f"{path}: no scores of an utterance of the manifest")
    return equal


def listen(recognizer: Recognizer, given: Sequence[tuple[Utterance, Scores]]) -> Iterator[Said]:
    """Judge each utterance as `asr read` does, its text as the page."""
    for utterance, scores in given:
        page = [PageWord(text, text, 0, False) for text in scores.texts]
        heard = hear(recognizer.loaded, [whole(read(utterance.audio))], recognizer.decoding)
        judged = judge_words(recognizer.loaded, heard, page, STANDARD.penalties)
        last = {each.item.word: each for each in judged if each.item.word is not None}
        words = [_evidence(last.get(at)) for at in range(len(page))]
        yield Said(utterance.speaker or "", scores, words, *_pace(judged, len(last)))


def _evidence(judged: Judged | None) -> Evidence:
    """Return the evidence for a word of the page; `NOT_SAID` if it was skipped."""
    return NOT_SAID if judged is None or judged.evidence is None else judged.evidence


def _pace(judged: Sequence[Judged], words: int) -> tuple[float, float]:
    if not judged:
        return 0.0, 1.0
    seconds = max(0.1, judged[-1].end - judged[0].start)
    return words / seconds, 1 - sum(each.end - each.start for each in judged) / seconds


Values = NDArray[np.float64]
Rule = Callable[[Said], tuple[Sequence[float], float]]  # scores of words, score of the sentence


def mean_of(score: Callable[[Evidence], float]) -> Rule:
    """Return the rule that scores a sentence by the mean of its words."""

    def rule(said: Said) -> tuple[Sequence[float], float]:
        words = [score(word) for word in said.words]
        return words, float(np.mean(words))

    return rule


def margin(word: Evidence) -> float:
    """Return the CTC margin a character, in nats."""
    return features(word)[1] / max(1, word.characters)


def agreement(word: Evidence) -> float:
    """Return 1 if free decoding found the word, else 0."""
    return float(word.agrees)


def fitted(said: Sequence[Said]) -> Rule:
    """Fit least squares to the medians of the raters, first of words, then of sentences."""
    targets = [median(each) for one in said for each in one.scores.words]
    words = _least_squares([_of_word(word) for one in said for word in one.words], targets)

    def of_words(one: Said) -> Values:
        return np.array([_of_word(word) for word in one.words]) @ words

    def of_sentence(one: Said) -> list[float]:
        scores, right = of_words(one), [STANDARD.judge.probability(word) for word in one.words]
        return [1, scores.mean(), scores.min(), float(np.mean(right)), one.speed, one.pauses]

    sentences = _least_squares(
        [of_sentence(one) for one in said], [median(one.scores.sentence) for one in said]
    )
    return lambda one: (of_words(one).tolist(), float(np.dot(of_sentence(one), sentences)))


def _of_word(word: Evidence) -> list[float]:
    """Return what the score of a word is fitted to."""
    return [*features(word), margin(word), STANDARD.judge.probability(word)]


def _least_squares(rows: Sequence[Sequence[float]], targets: Sequence[float]) -> Values:
    weights: Values = np.linalg.lstsq(np.array(rows), np.array(targets), rcond=None)[0]
    return weights


class Pairs(NamedTuple):
    """Our scores beside the people's, (P,), by speaker."""

    ours: dict[str, Values]
    theirs: dict[str, Values]

    def correlation(self, speakers: Sequence[str]) -> float:
        """Return Pearson's correlation; NaN if all of ours or all of theirs are equal."""
        ours, theirs = (np.concatenate([by[each] for each in speakers]) for by in self)
        if not (np.ptp(ours) and np.ptp(theirs)):
            return float("nan")
        return float(np.corrcoef(ours, theirs)[0, 1])

    def cell(self, speakers: Sequence[str], seed: int | None = None) -> str:
        """Return the correlation; with a seed also its interval."""
        if not speakers or np.isnan(value := self.correlation(speakers)):
            return "-"
        if seed is None:
            return f"{value:.3f}"
        random = np.random.default_rng(seed)
        drawn = (list(random.choice(speakers, len(speakers))) for _ in range(SAMPLES))
        low, high = np.nanquantile([self.correlation(each) for each in drawn], [0.025, 0.975])
        return f"{value:.3f} ({low:.3f}-{high:.3f})"


def by_speaker(rows: Sequence[tuple[str, Sequence[float], Sequence[float]]]) -> Pairs:
    """Gather rows of a speaker, our scores and theirs."""
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    for speaker, mine, given in rows:
        ours.setdefault(speaker, []).extend(mine)
        theirs.setdefault(speaker, []).extend(given)
    return Pairs(*({key: np.array(each) for key, each in one.items()} for one in (ours, theirs)))


def pairs(said: Sequence[Said], rule: Rule) -> tuple[Pairs, Pairs]:
    """Return a rule's scores beside the raters' medians, of words and of sentences."""
    scored = [(one, *rule(one)) for one in said]
    words = [
        (one.speaker, mine, [median(each) for each in one.scores.words]) for one, mine, _ in scored
    ]
    sentences = [(one.speaker, [mine], [median(one.scores.sentence)]) for one, _, mine in scored]
    return by_speaker(words), by_speaker(sentences)


def raters(said: Sequence[Said]) -> tuple[Pairs, Pairs]:
    """Return each rater's scores beside the median of the other raters."""

    def beside(speaker: str, given: Sequence[float]) -> tuple[str, list[float], list[float]]:
        others = [median([*given[:at], *given[at + 1 :]]) for at in range(len(given))]
        return speaker, list(given), others

    words = [
        beside(one.speaker, each) for one in said for each in one.scores.words if len(each) > 1
    ]
    several = [one for one in said if len(one.scores.sentence) > 1]
    return by_speaker(words), by_speaker(
        [beside(one.speaker, one.scores.sentence) for one in several]
    )


def read_ages(path: Path | None) -> dict[str, float]:
    """Read lines of a speaker and an age.

    Raises:
        UserError: a line has another form.
    """
    try:
        lines = path.read_text("utf-8").splitlines() if path else []
        return {name: float(age) for name, age in (line.split() for line in lines)}
    except ValueError as error:
        raise UserError(f"{path}: wanted lines of a speaker and an age") from error


def report(said: Sequence[Said], rules: dict[str, Rule], ages: dict[str, float], seed: int) -> str:
    """Return the table of one model."""
    speakers = sorted({one.speaker for one in said})
    age = {each: next((ages[key] for key in ages if each.endswith(key)), None) for each in speakers}
    children = [each for each in speakers if (years := age[each]) is not None and years < ADULT]
    adults = [each for each in speakers if (years := age[each]) is not None and years >= ADULT]
    compared = {name: pairs(said, rule) for name, rule in rules.items()}
    if any(len(one.scores.sentence) > 1 for one in said):
        compared["one rater, others' median"] = raters(said)

    def cells(one: Pairs) -> list[str]:
        return [one.cell(speakers, seed), one.cell(adults), one.cell(children)]

    rows = [(name, *cells(words), *cells(texts)) for name, (words, texts) in compared.items()]
    head = ("", "words", "adults", "children", "sentences", "adults", "children")
    count = sum(len(one.words) for one in said)
    counts = f"{len(said)} sentences, {count} words, {len(speakers)} speakers"
    return f"{counts}, {len(children)} children\n{text_table(head, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--scores", type=Path, required=True)
    parser.add_argument("-m", "--model", action="append", help="may be repeated (default: english)")
    parser.add_argument("--fit", type=Path, metavar="FILE")
    parser.add_argument("--ages", type=Path, metavar="FILE")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="use every N-th utterance"
    )
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    ages = read_ages(given.ages)
    utterances = read_manifest(given.manifest)[:: given.every]
    test = scored(utterances, given.scores)
    training = scored(utterances, given.fit) if given.fit else []
    for model in given.model or ["english"]:
        recognizer = Recognizer.load(model)
        rules = {
            "found by free decoding": mean_of(agreement),
            "CTC, a character": mean_of(margin),
            "confidence": mean_of(STANDARD.judge.probability),
        }
        if training:
            rules["least squares"] = fitted(list(listen(recognizer, training)))
        print(f"{model}: {report(list(listen(recognizer, test)), rules, ages, given.seed)}\n")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
