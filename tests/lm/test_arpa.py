"""ARPA files: the probabilities of a back-off model are those of its ranges."""

import gzip
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from asr.errors import UserError
from asr.lm.arpa import is_arpa, read_arpa
from asr.lm.lookahead import WordModel
from asr.lm.ranges import NgramRanges
from asr.text.vocabulary import Vocabulary

# Probabilities: p(a) = 0.4, p(b) = 0.3, p(</s>) = 0.2, p(<unk>) = 0.1; p(b | a) = 0.5, …
UNIGRAMS = {
    "<s>": (0.0, 0.5),
    "</s>": (0.2, 1.0),
    "<unk>": (0.1, 1.0),
    "a": (0.4, 0),
    "b": (0.3, 0),
}
BIGRAMS = {("a", "b"): 0.5, ("a", "</s>"): 0.1, ("<s>", "a"): 0.7, ("b", "a"): 0.2}
TRIGRAMS = {("<s>", "a", "b"): 0.8}


def weight(left: float, lower: float) -> float:
    return (1 - left) / (1 - lower)


BACK_OFF = {
    ("a",): weight(0.6, 0.3 + 0.2),
    ("<s>",): weight(0.7, 0.4),
    ("b",): weight(0.2, 0.4),
    ("<s>", "a"): weight(0.8, 0.5),
}


def probability(history: tuple[str, ...], word: str) -> float:
    """Back off as the format defines it."""
    ngram = (*history, word)
    if len(ngram) == 1:
        return UNIGRAMS[word][0]
    listed = TRIGRAMS if len(ngram) == 3 else BIGRAMS
    if ngram in listed:
        return listed[ngram]
    return BACK_OFF.get(history, 1.0) * probability(history[1:], word)


def write(path: Path, upper: bool = False) -> Path:
    def line(words: tuple[str, ...], p: float, history: tuple[str, ...] | None = None) -> str:
        text = " ".join(each.upper() if upper and each.isalpha() else each for each in words)
        back_off = f"\t{math.log10(BACK_OFF[words]):.7f}" if words in BACK_OFF else ""
        return f"{math.log10(p) if p else -99:.7f}\t{text}{back_off}"

    lines = [
        "made by hand",
        "",
        "\\data\\",
        "ngram 1=5",
        "ngram 2=4",
        "ngram 3=1",
        "",
        "\\1-grams:",
    ]
    lines += [line((word,), p) for word, (p, _) in UNIGRAMS.items()]
    lines += ["", "\\2-grams:", *(line(words, p) for words, p in BIGRAMS.items())]
    lines += ["", "\\3-grams:", *(line(words, p) for words, p in TRIGRAMS.items()), "", "\\end\\"]
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(("name", "upper"), [("x.arpa", False), ("x.arpa.gz", True)])
def test_probabilities_are_those_of_the_file(tmp_path: Path, name: str, upper: bool) -> None:
    ngrams = read_arpa(write(tmp_path / name, upper))
    assert ngrams.words == ["a", "b"]
    ranges = NgramRanges(ngrams)
    numbers = {"a": 0, "b": 1, "</s>": ranges.end, "<unk>": ranges.unknown}
    for length in range(3):
        for words in itertools.product(("a", "b", "<unk>"), repeat=length):
            contexts = ranges.start()
            for word in words:
                contexts = ranges.after(contexts, np.array([numbers[word]]))
            history = ("<s>", *words)[-2:]
            for word, number in numbers.items():
                found = ranges.range(contexts, np.array([number]), np.array([number + 1]))
                assert found[0] == pytest.approx(probability(history, word), abs=1e-5), history


def test_a_search_takes_it(tmp_path: Path) -> None:
    model = WordModel.load(write(tmp_path / "x.arpa"), Vocabulary.characters())
    (scores,) = model.log_probs(model.start(1))[0]
    a, b = Vocabulary.characters().encode("ab")
    assert math.exp(scores[a]) == pytest.approx(0.7 + 0.15 * math.exp(-30), abs=0.06)
    assert scores[a] > scores[b]


def test_endings() -> None:
    names = ["x.arpa", "x.arpa.gz", "x.LM", "x.npz", "arpa"]
    assert [is_arpa(Path(name)) for name in names] == [True, True, True, False, False]


DATA = "\\data\\\nngram 1=1\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not a language model in the ARPA format"),
        (DATA + "\\2-grams:\n", r"x.arpa:3: got \\2-grams:, wanted \\1-grams:"),
        (DATA + "\\1-grams:\nhello a\n", "x.arpa:4: got 'hello a'"),
        (DATA + "\\1-grams:\n-1 日\n\\end\\\n", "none of its 1 words is spelt"),
        (DATA + "\\1-grams:\n-1 a\n", r"ends early, without \\end"),
        (DATA + "\\1-grams:\n\\end\\\n", "x.arpa:4: 0 n-grams of order 1, but 1 by the header"),
        (DATA + "\\1-grams:\n-1 a\n-1 b\n\\end\\", "x.arpa:6: 2 n-grams of order 1, but 1 by"),
        ("\\data\\\n\\1-grams:\n-1 a\n\\end\\\n", "x.arpa:4: 1 n-grams of order 1, but 0 by"),
        (DATA + "ngram 2=1\n\\1-grams:\n-1 a\n\\end\\\n", "without the 2-grams of its header"),
        (DATA + "\\1-grams:\n0.5 a\n\\end\\\n", "x.arpa:4: got '0.5 a'"),
        (DATA + "\\1-grams:\nnan a\n\\end\\\n", "x.arpa:4: got 'nan a'"),
        (DATA + "\\1-grams:\n-1 a inf\n\\end\\\n", "x.arpa:4: got '-1 a inf'"),
        (DATA + "\\1-grams:\n-inf a\n\\end\\\n", "x.arpa:4: got '-inf a'"),
    ],
)
def test_mistakes_name_the_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.arpa").write_text(content, "utf-8")
    with pytest.raises(UserError, match=message):
        read_arpa(tmp_path / "x.arpa")


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "x.arpa").read_text("utf-8").splitlines(keepends=True)
    for end in range(len(whole)):
        (tmp_path / "cut.arpa").write_text("".join(whole[:end]), "utf-8")
        with pytest.raises(UserError):
            read_arpa(tmp_path / "cut.arpa")
