"""Random segmentation follows the papers and is equal in every process."""

import io
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from asr.text.segmentation import choose_by_chance, merge_by_chance
from asr.text.vocabulary import UNK, Vocabulary

TEXTS = ["the cat sat on the mat", "a dog ran on the road quickly", "where are the cats"]
UNSEEN = ["the quick cat", "  on  the road ", "ßß cat ß", "", "catsßon", "mat ßmat"]
SCORES = {"er": 0.0, "lo": -1.0, "low": -2.0, "lower": -3.0}


@pytest.fixture(scope="module")
def trained() -> Callable[[str], Vocabulary]:
    """Return a function that makes a subword vocabulary of a kind."""
    sentencepiece = pytest.importorskip("sentencepiece")

    def train(kind: str) -> Vocabulary:
        written = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXTS * 5),
            model_writer=written,
            vocab_size=32,
            model_type=kind,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        return Vocabulary.subwords(written.getvalue())

    return train


@pytest.mark.parametrize(
    ("word", "pieces"), [("lower", ["lower"]), ("lowe", ["low", "e"]), ("", []), ("l", ["l"])]
)
def test_no_dropout_makes_every_merge(word: str, pieces: list[str]) -> None:
    assert merge_by_chance(word, SCORES, 0.0, Random(0)) == pieces


def test_the_best_merge_comes_first_and_the_leftmost_of_equals() -> None:
    assert merge_by_chance("aba", {"ab": -2.0, "ba": -1.0}, 0.0, Random(0)) == ["a", "ba"]
    assert merge_by_chance("aaa", {"aa": 0.0}, 0.0, Random(0)) == ["aa", "a"]


def test_all_dropout_leaves_characters() -> None:
    assert merge_by_chance("lower", SCORES, 1.0, Random(0)) == list("lower")


def test_a_merge_is_left_out_as_often_as_is_asked() -> None:
    random = Random(3)
    kept = sum(merge_by_chance("er", SCORES, 0.3, random) == ["er"] for _ in range(4000))
    assert abs(kept / 4000 - 0.7) < 0.03  # four standard deviations


def test_what_one_step_leaves_out_the_next_may_make() -> None:
    random = Random(5)
    scores = {"ab": -1.0, "cd": 0.0}
    cuts = Counter(" ".join(merge_by_chance("abcd", scores, 0.5, random)) for _ in range(8000))
    # A step merges "cd" with probability 1/2, else "ab" with 1/4, else stops; the next step merges
    # the other with 1/2.
    wanted = {"a b c d": 2 / 8, "a b cd": 2 / 8, "ab c d": 1 / 8, "ab cd": 3 / 8}
    assert {cut: pytest.approx(cuts[cut] / 8000, abs=0.025) for cut in wanted} == wanted


@pytest.mark.parametrize("smoothing", [0.0, 0.5, 1.0, 50.0])
def test_segmentations_are_chosen_by_their_probability(smoothing: float) -> None:
    scores = [math.log(0.5), math.log(0.2)]
    wanted = [each**smoothing for each in (0.5, 0.2, 0.2 * 0.2)]
    random = Random(1)
    cuts = Counter(
        tuple(choose_by_chance([[0], [1], [1, 1]], scores.__getitem__, smoothing, random))
        for _ in range(6000)
    )
    for cut, weight in zip([(0,), (1,), (1, 1)], wanted, strict=True):
        assert abs(cuts[cut] / 6000 - weight / sum(wanted)) < 0.025


@pytest.mark.parametrize(("kind", "hardly"), [("bpe", 1e-12), ("unigram", 1e4)])
def test_hardly_any_chance_cuts_as_without(
    trained: Callable[[str], Vocabulary], kind: str, hardly: float
) -> None:
    vocabulary = trained(kind)
    for text in TEXTS + UNSEEN:
        assert vocabulary.sample(text, hardly, 1) == vocabulary.encode(text)
    assert UNK in vocabulary.encode(UNSEEN[2])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_chance_spells_the_same_text_in_many_ways(
    trained: Callable[[str], Vocabulary], kind: str
) -> None:
    vocabulary = trained(kind)
    cuts = {tuple(vocabulary.sample(TEXTS[0], 0.3, seed)) for seed in range(30)}
    assert len(cuts) > 5
    assert {vocabulary.decode(cut) for cut in cuts} == {TEXTS[0]}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_another_process_cuts_the_same_way(trained: Callable[[str], Vocabulary], kind: str) -> None:
    vocabulary = trained(kind)
    here = [vocabulary.sample(text, 0.3, seed) for seed, text in enumerate(TEXTS * 3)]
    code = (
        "import sys; from asr.text.vocabulary import Vocabulary\n"
        "vocabulary = Vocabulary.from_json(sys.stdin.read())\n"
        f"print([vocabulary.sample(text, 0.3, n) for n, text in enumerate({TEXTS * 3})])"
    )
    there = subprocess.run(
        [sys.executable, "-c", code], input=vocabulary.to_json(), capture_output=True, text=True
    )
    assert there.stdout.strip() == str(here), there.stderr
