"""Fit the score that says whether a segment is English speech, and report what it finds.

    apt-get install espeak-ng
    python recipes/guard.py MODEL --fit MANIFEST IDS --report MANIFEST IDS --noise MANIFEST --save

--fit: English recordings to fit to; --report: of other speakers. Both may be repeated; each list
counts the same. Other material is made with a seed, different for fitting and reporting: French,
German and Mandarin by espeak-ng, music, tone sweeps, and from the English lists reversed speech and
babble of eight voices. Half of the noise recordings are used for each. English by espeak-ng is
reported only. --save writes the weights into the config of the model folder. --keep writes what is
made for the report as files, FOLDER/KIND/NN.flac, for `benchmarks/versions.py clips`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE, read
from asr.checksums import renew_checksum, write_whole
from asr.corpora.manifest import Utterance, read_manifest, read_noise, select
from asr.errors import UserError, exit_status
from asr.inference.plausibility import LEAST_ENGLISH, Plausibility, TextEvidence
from asr.inference.recognizer import Recognizer
from asr.inference.sources import Failure
from asr.model_folder import CONFIG, find_folder
from asr.render.tables import text_table
from asr.tables import to_table

ROUNDS = 50  # of Newton's method
RIDGE = 1e-2  # keeps the weights finite where the kinds are separable
CLEAN_MARKED = 0.005  # largest share of the English segments of --fit that is marked
VOICES = 8  # of babble
SECONDS = 8.0  # of music, sweeps
VARIANTS = ("m1", "m3", "m5", "m7", "f1", "f2", "f3", "f4")  # of the voices of espeak-ng
VOICE = {"cmn": "cmn-latn-pinyin"}  # the voice "cmn" reads many characters by English rules
MANDARIN = (
    "我今天早上去市场买了很多水果和蔬菜。",
    "他们打算明年搬到一个更大的城市去工作。",
    "请问去火车站应该怎么走？",
    "这本书讲的是一个年轻人在海边长大的故事。",
    "昨天晚上下了一场大雨，路上到处都是水。",
    "老师让我们把这篇课文读三遍。",
    "我的妹妹喜欢弹钢琴，也喜欢画画。",
    "如果明天天气好，我们就去爬山。",
    "医生说他需要休息两个星期。",
    "这家饭馆的菜又便宜又好吃。",
    "你能不能帮我把窗户打开？",
    "经济学家认为今年的增长会比去年慢一些。",
)
RECIPES = Path(__file__).parent
SENTENCES = {"fr": RECIPES / "fra_eng/phrases.tsv", "de": RECIPES / "deu_eng/everyday.tsv"}

Samples = NDArray[np.float32]


class Measured(NamedTuple):
    """A clip: its duration in seconds, and for each segment with text words and evidence."""

    seconds: float
    words: list[int]
    evidence: list[TextEvidence]


def spoken(language: str, count: int, random: np.random.Generator) -> Iterator[Samples]:
    """Yield clips of sentences spoken by espeak-ng in various voices and at various rates."""
    column = 0 if language == "en" else 1
    sentences, per_clip = list(MANDARIN), 3
    if language != "cmn":
        lines = SENTENCES.get(language, SENTENCES["fr"]).read_text("utf-8").splitlines()
        sentences, per_clip = [line.split("\t")[column] for line in lines if line], 5
    for _ in range(count):
        text = " ".join(random.choice(sentences, per_clip))
        voice = f"{VOICE.get(language, language)}+{random.choice(VARIANTS)}"
        rate = str(random.integers(130, 180))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "spoken.wav")
            command = ["espeak-ng", "-v", voice, "-s", rate, "-w", str(file), text]
            subprocess.run(command, check=True)
            yield read(file).samples


def music(count: int, random: np.random.Generator) -> Iterator[Samples]:
    """Yield melodies over chords, with harmonics, decay, vibrato and a beat."""
    time = np.arange(round(SECONDS * SAMPLE_RATE)) / SAMPLE_RATE
    for _ in range(count):
        mixed = np.zeros_like(time)
        beat = random.uniform(0.25, 0.6)
        root = random.uniform(110, 330)
        for onset in np.arange(0, SECONDS, beat):
            since = np.maximum(time - onset, 0)
            envelope = (time >= onset) * np.exp(-since * random.uniform(1, 6))
            for step in random.choice([0, 2, 4, 5, 7, 9, 12], random.integers(1, 4)):
                pitch = root * 2 ** (step / 12)
                phase = 2 * np.pi * pitch * since + 0.3 * np.sin(2 * np.pi * 5 * since)
                mixed += envelope * sum(np.sin(k * phase) / k for k in range(1, 6))
            mixed += 0.5 * random.standard_normal(len(time)) * (time >= onset) * np.exp(-since * 40)
        yield (0.1 * mixed / mixed.std()).astype(np.float32)


def sweeps(count: int, random: np.random.Generator) -> Iterator[Samples]:
    """Yield tones whose pitch rises or falls again and again."""
    time = np.arange(round(SECONDS * SAMPLE_RATE)) / SAMPLE_RATE
    for _ in range(count):
        low, high = random.uniform(80, 400), random.uniform(600, 4000)
        place = (time / random.uniform(0.3, 4)) % 1
        pitch = low * (high / low) ** (place if random.random() < 0.5 else 1 - place)
        yield (0.1 * np.sin(2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE)).astype(np.float32)


def babble(
    utterances: Sequence[Utterance], count: int, random: np.random.Generator
) -> Iterator[Samples]:
    """Yield sums of utterances of several speakers, as long as the shortest."""
    for _ in range(count):
        chosen = random.choice(len(utterances), VOICES, replace=False)
        voices = [read(utterances[at].audio).samples for at in chosen]
        size = max(min(map(len, voices)), 3 * SAMPLE_RATE)
        yield sum(np.resize(each, size) / max(each.std(), 1e-6) for each in voices) * np.float32(
            0.02
        )


def reversed_speech(
    utterances: Sequence[Utterance], count: int, random: np.random.Generator
) -> Iterator[Samples]:
    """Yield utterances played backwards."""
    for at in random.choice(len(utterances), count, replace=False):
        yield read(utterances[at].audio).samples[::-1].copy()


def others(
    utterances: Sequence[Utterance], noise: Sequence[Utterance], count: int, seed: int
) -> dict[str, list[Samples]]:
    """Return clips that are not English speech, by kind."""
    random = np.random.default_rng(seed)
    return {
        "French": [*spoken("fr", count, random)],
        "German": [*spoken("de", count, random)],
        "Mandarin": [*spoken("cmn", count, random)],
        "reversed": [*reversed_speech(utterances, count, random)],
        "babble": [*babble(utterances, count, random)],
        "music": [*music(count, random)],
        "sweeps": [*sweeps(count, random)],
        "noise": [read(each.audio).samples for each in noise[seed % 2 :: 2][: 3 * count]],
    }


def measure(recognizer: Recognizer, sources: Sequence[Path] | Sequence[Samples]) -> list[Measured]:
    """Decode clips with a score that collects its evidence; failures are left out."""
    collected = _Collector()
    plain = replace(recognizer, loaded=replace(recognizer.loaded, plausibility=collected))
    arrays = [read(each).samples if isinstance(each, Path) else each for each in sources]
    found = []
    for result in plain.transcribe_each(arrays, rate=SAMPLE_RATE):
        if isinstance(result, Failure):
            continue
        spoken = [each for each in result.segments if each.english is not None]
        evidence = [collected.known[each.english] for each in spoken if each.english is not None]
        found.append(Measured(result.duration, [len(each.words) for each in spoken], evidence))
    return found


class _Collector(Plausibility):
    """Numbers the evidence that it is given, and returns the number as the probability."""

    def __init__(self) -> None:
        super().__init__(0, 0, 0, 0, 0, 0)
        object.__setattr__(self, "known", {})

    known: dict[float, TextEvidence]

    def __call__(self, evidence: TextEvidence) -> float:
        """Return a number under which the evidence is kept."""
        number = float(len(self.known))
        self.known[number] = evidence
        return number


def fit(english: Sequence[Sequence[Measured]], other: Sequence[Sequence[Measured]]) -> Plausibility:
    """Fit a logistic regression; English and other kinds weigh the same, and so do their lists.

    The bias is raised if more than `CLEAN_MARKED` of the English segments would be marked.
    """
    features, wanted, shares = [], [], []
    for is_english, lists in ((1.0, english), (0.0, other)):
        kinds = [[one for clip in each for one in clip.evidence] for each in lists]
        kinds = [each for each in kinds if each]
        for each in kinds:
            features += each
            wanted += [is_english] * len(each)
            shares += [1 / len(kinds) / len(each)] * len(each)
    inputs = np.column_stack([np.ones(len(features)), np.array(features)])
    weights = _logistic(inputs, np.array(wanted), np.array(shares))
    logits = inputs[np.array(wanted) == 1] @ weights
    weights[0] += max(0.0, -float(np.quantile(logits, CLEAN_MARKED)))
    return Plausibility(*(round(float(weight), 3) for weight in weights))


def _logistic(
    features: NDArray[np.float64], wanted: NDArray[np.float64], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weights of greatest likelihood with a penalty, by Newton's method."""
    weights = np.zeros(features.shape[1])
    penalty = RIDGE * np.diag([0.0, *[1.0] * (len(weights) - 1)])
    for _ in range(ROUNDS):
        probabilities = 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))
        gradient = features.T @ (shares * (wanted - probabilities)) - penalty @ weights
        slope = (shares * probabilities * (1 - probabilities))[:, None] * features
        weights += np.linalg.solve(
            features.T @ slope + penalty + 1e-9 * np.eye(len(weights)), gradient
        )
    return weights


def row(name: str, clips: Sequence[Measured], score: Plausibility) -> tuple[object, ...]:
    """Return a row: words an hour, without those of marked segments, clips warned of and empty."""
    hours = sum(clip.seconds for clip in clips) / 3600
    words = kept = warned = empty = 0
    for clip in clips:
        probabilities = [score(each) for each in clip.evidence]
        lengths = [np.exp(each.length) for each in clip.evidence]
        words += sum(clip.words)
        pairs = zip(clip.words, probabilities, strict=True)
        kept += sum(count for count, each in pairs if each >= LEAST_ENGLISH)
        empty += not clip.evidence
        if clip.evidence:
            warned += np.average(probabilities, weights=lengths) < LEAST_ENGLISH
    share = f"{warned / len(clips):.1%}"
    return (name, len(clips), f"{words / hours:.0f}", f"{kept / hours:.0f}", share, empty)


HEADER = ("material", "clips", "words an hour", "after", "warned of", "without text")


def main() -> None:
    """Read the arguments, fit, report and save."""
    parser = argparse.ArgumentParser(description="Fit the score of English speech.")
    parser.add_argument("model")
    for name in ("--fit", "--report"):
        parser.add_argument(
            name, nargs=2, type=Path, action="append", default=[], metavar=("MANIFEST", "IDS")
        )
    parser.add_argument("--noise", type=Path, required=True, metavar="MANIFEST")
    parser.add_argument("--clips", type=int, default=16, metavar="N", help="of each other kind")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="use each N-th recording")
    parser.add_argument("--save", action="store_true", help="write into the model folder")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write the clips of the report")
    given = parser.parse_args()
    recognizer = Recognizer.load(given.model)
    score = recognizer.loaded.plausibility
    noise = read_noise(given.noise)
    if given.fit:
        lists = _lists(given.fit, given.every)
        english = [measure(recognizer, [each.audio for each in one]) for one in lists.values()]
        made = others([each for one in lists.values() for each in one], noise, given.clips, seed=0)
        score = fit(english, [measure(recognizer, clips) for clips in made.values()])
        print(score)
    if score is None:
        raise UserError(f"{given.model} has no such score: give --fit")
    if given.report:
        lists = _lists(given.report, given.every)
        made = reported(lists, noise, given.clips)
        if given.keep:
            keep(made, given.keep)
        report(recognizer, score, lists, made)
    if given.save:
        save(find_folder(Path(given.model)), score)


def reported(
    lists: Mapping[str, Sequence[Utterance]], noise: Sequence[Utterance], clips: int
) -> dict[str, list[Samples]]:
    """Return the clips that are made for the report, by kind."""
    english = [*spoken("en", clips, np.random.default_rng(1))]
    other = others([each for one in lists.values() for each in one], noise, clips, seed=1)
    return {"English, espeak-ng": english, **other}


def keep(made: Mapping[str, Sequence[Samples]], folder: Path) -> None:
    """Write clips as folder/KIND/NN.flac."""
    for kind, clips in made.items():
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for at, clip in enumerate(clips):
            soundfile.write(folder / kind / f"{at:02}.flac", clip, SAMPLE_RATE)


def report(
    recognizer: Recognizer,
    score: Plausibility,
    lists: Mapping[str, Sequence[Utterance]],
    made: Mapping[str, Sequence[Samples]],
) -> None:
    """Print a row for each list and each kind of clip that is made."""
    rows = [
        row(name, measure(recognizer, [each.audio for each in one]), score)
        for name, one in lists.items()
    ]
    rows += [row(name, measure(recognizer, one), score) for name, one in made.items()]
    print(text_table(HEADER, rows))


def save(folder: Path, score: Plausibility) -> None:
    """Write the weights into the config of a model folder."""
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    config["plausibility"] = to_table(score)
    write_whole(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())
    renew_checksum(folder / CONFIG)


def _lists(given: Sequence[Sequence[Path]], every: int) -> dict[str, list[Utterance]]:
    return {ids.stem: select(read_manifest(each), ids)[::every] for each, ids in given}


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
