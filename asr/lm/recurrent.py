"""A recurrent word model at run time, in NumPy: the probability of a range of the lexicon.

After each word the probabilities of the next word are accumulated in the order of the lexicon, so
the probability of all words with one prefix is one difference. Words outside the model's vocabulary
share the probability of its unknown word in proportion to their unigrams. The end of a text is not
predicted. Source: Hori et al. 2018, "End-to-end speech recognition with word-based RNN language
models". `asr.models.language` has the same model for training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from asr.activations import sigmoid, softmax
from asr.errors import UserError
from asr.lm.ranges import sums_before
from asr.lm.word_ngrams import Floats, Integers
from asr.model_folder import WEIGHTS, read_folder
from asr.products import product
from asr.text.vocabulary import EOS, UNK, Vocabulary
from asr.weights import SCALE, StoredWeights, read_arrays

Singles = NDArray[np.float32]

EMBEDDING: Final = "embedding.weight"  # most of the memory, and a few rows of it are used at a time


@dataclass(frozen=True, eq=False, slots=True)
class RecurrentContext:
    """The state after the words of one text.

    output, cell: (H,), state of the LSTM. sums: (K + 1,), of the probabilities before each of the
    K words that lexicon and model share, in the lexicon's order; in float64, since float32 would
    know a word of probability 1e-6 to some percent only. unknown: probability of all other words.
    """

    output: Singles
    cell: Singles
    sums: Floats
    unknown: float


class WordStep(Protocol):
    """What computes a recurrent model of V words with a state of size H."""

    @property
    def size(self) -> int:
        """V, the number of words."""

    @property
    def state_size(self) -> int:
        """H, the size of output and cell."""

    def step(
        self, words: Integers, output: Singles, cell: Singles
    ) -> tuple[Singles, Singles, Singles]:
        """Advance n states by a word each: words (n,), output and cell (n, H).

        Returns the probabilities (n, V) of the next words, and the new output and cell.
        """


class LSTMWords:
    """An LSTM with an adaptive softmax over V words (Grave et al. 2017), for single steps."""

    def __init__(self, weights: StoredWeights) -> None:
        """Use the weights of an `asr.models.language.RecurrentLanguageModel`, by their names.

        Raises:
            KeyError: a weight is missing.
            ValueError: the sizes of two weights do not fit.
        """
        self._embedding = np.asarray(weights[EMBEDDING])
        self._scale = weights.get(EMBEDDING + SCALE)  # (V,) of an embedding in 8 bits
        inputs, recurrent = (weights.transposed(f"cell.weight_{part}_l0") for part in ("ih", "hh"))
        self._bias = _single(weights, "cell.bias_ih_l0") + _single(weights, "cell.bias_hh_l0")
        self._vector = weights.transposed("vector.weight"), _single(weights, "vector.bias")
        self._first = weights.transposed("first.weight"), _single(weights, "first.bias")
        groups = sum(name.startswith("rarer.") and name.endswith(".1.bias") for name in weights)
        self._rarer = [
            (
                weights.transposed(f"rarer.{at}.0.weight"),
                weights.transposed(f"rarer.{at}.1.weight"),
                _single(weights, f"rarer.{at}.1.bias"),
            )
            for at in range(groups)
        ]
        self._require_sizes(inputs, recurrent)
        self._gates = np.concatenate([inputs, recurrent])  # (M + H, 4H)

    def _require_sizes(self, inputs: Singles, recurrent: Singles) -> None:
        """Refuse weights whose sizes do not fit each other.

        Raises:
            ValueError: with the name of the weight.
        """
        state, rarer = len(recurrent), self._rarer
        inner, first = self._vector[0].shape[-1], self._first[0].shape[-1]
        wanted = {
            EMBEDDING: (self._embedding, (self.size, len(inputs))),
            "cell.weight_ih_l0": (inputs, (len(inputs), 4 * state)),
            "cell.weight_hh_l0": (recurrent, (state, 4 * state)),
            "cell.bias": (self._bias, (4 * state,)),
            "vector.weight": (self._vector[0], (state, inner)),
            "vector.bias": (self._vector[1], (inner,)),
            "first.weight": (self._first[0], (inner, first)),
            "first.bias": (self._first[1], (first,)),
        }
        for at, (reduce, matrix, bias) in enumerate(rarer):
            narrow = reduce.shape[-1]
            wanted[f"rarer.{at}.0.weight"] = (reduce, (inner, narrow))
            wanted[f"rarer.{at}.1.weight"] = (matrix, (narrow, len(bias)))
            wanted[f"rarer.{at}.1.bias"] = (bias, (matrix.shape[-1],))
        if self._scale is not None:
            wanted[EMBEDDING + SCALE] = (self._scale, (self.size,))
        for name, (value, shape) in wanted.items():
            if value.shape != shape:
                raise ValueError(name)

    @classmethod
    def load(cls, folder: Path) -> LSTMWords:
        """Read the weights of a model folder.

        Raises:
            UserError: they are missing, damaged, or no language model's.
        """
        weights = read_arrays(folder / WEIGHTS, packed=[EMBEDDING])
        try:
            return cls(weights)
        except (KeyError, ValueError) as error:
            raise UserError(f"{folder / WEIGHTS}: lacks or does not fit: {error}") from error

    @property
    def size(self) -> int:
        """See `WordStep.size`."""
        parts: list[int] = [self._first[0].shape[-1] - len(self._rarer)]
        return sum(parts + [len(bias) for _, _, bias in self._rarer])

    @property
    def state_size(self) -> int:
        """See `WordStep.state_size`."""
        return len(self._bias) // 4

    def step(
        self, words: Integers, output: Singles, cell: Singles
    ) -> tuple[Singles, Singles, Singles]:
        """See `WordStep.step`."""
        embedded = self._embedding[words].astype(np.float32)
        if self._scale is not None:
            embedded *= self._scale[words, None]
        gates = product(np.concatenate([embedded, output], axis=1), self._gates)
        gates += self._bias
        input_gate, forget_gate, candidate, output_gate = np.split(gates, 4, axis=-1)
        cell = sigmoid(forget_gate) * cell + sigmoid(input_gate) * np.tanh(candidate)
        output = sigmoid(output_gate) * np.tanh(cell)
        vectors = np.tanh(_affine(output, *self._vector))  # (n, P)
        first = softmax(_affine(vectors, *self._first))
        size = first.shape[-1] - len(self._rarer)
        parts = [first[:, :size]]
        for at, (reduce, matrix, bias) in enumerate(self._rarer):
            own = softmax(_affine(product(vectors, reduce), matrix, bias))
            own *= first[:, size + at, None]
            parts.append(own)
        return np.concatenate(parts, axis=-1), output, cell


LoadStep = Callable[[Path], WordStep]


class RecurrentWords:
    """A recurrent model of the words of a `WordNgrams`, with the word numbers of the latter."""

    def __init__(
        self, model: WordStep, vocabulary: Vocabulary, words: Sequence[str], unigrams: Floats
    ) -> None:
        """Match the words of the model, by its vocabulary, to `words` and `unigrams` of n-grams."""
        self._model = model
        ids = np.array([*vocabulary.encode(" ".join(words)), EOS, EOS, UNK])
        is_shared = (ids != UNK) & (ids != EOS)
        self._ids, self._shared = ids, ids[is_shared]
        # (W + 4,), of shared words before each
        self._shared_before = np.concatenate([[0], np.cumsum(is_shared)])
        others = unigrams * (ids == UNK)
        if not others.sum():  # texts in which every word was known
            others[-1] = 1  # of the unknown word
        self._others = np.concatenate([[0.0], np.cumsum(others / others.sum())])  # (W + 4,)

    @classmethod
    def load(
        cls,
        folder: Path,
        words: Sequence[str],
        unigrams: Floats,
        load_step: LoadStep = LSTMWords.load,
    ) -> RecurrentWords:
        """Read a model folder.

        words, unigrams: see `WordNgrams`. load_step: reads what computes the model.

        Raises:
            UserError: the folder holds no language model, or is damaged.
        """
        read = read_folder(folder, "language")
        if "words" not in read.vocabularies:
            raise UserError(f"{folder}: a language model without its words.json")
        vocabulary = Vocabulary.from_json(read.vocabularies["words"])
        if vocabulary.kind != "words":
            raise UserError(f"{folder}: a vocabulary of {vocabulary.kind}, wanted words")
        model = load_step(folder)
        if model.size != len(vocabulary):
            raise UserError(f"{folder}: {model.size} words, but {len(vocabulary)} in words.json")
        return cls(model, vocabulary, words, unigrams)

    def start(self) -> RecurrentContext:
        """Return the context at the start of a text."""
        zeros = np.zeros((1, self._model.state_size), np.float32)
        (context,) = self._read(np.array([EOS]), zeros, zeros)
        return context

    def after(
        self, contexts: Sequence[RecurrentContext], words: Sequence[int]
    ) -> list[RecurrentContext]:
        """Return the contexts after a word, by its number, is appended to each.

        Equal pairs of context and word are computed once.
        """
        ids = [int(self._ids[word]) for word in words]
        keys = [(id(context), word) for context, word in zip(contexts, ids, strict=True)]
        places = {key: place for place, key in enumerate(keys)}  # a text of each key
        some = [contexts[place] for place in places.values()]
        read = self._read(
            np.array([ids[place] for place in places.values()]),
            np.stack([context.output for context in some]),
            np.stack([context.cell for context in some]),
        )
        found = dict(zip(places, read, strict=True))
        return [found[key] for key in keys]

    def range(
        self,
        contexts: Sequence[RecurrentContext],
        stops: Sequence[int],
        first: Integers,
        after: Integers,
    ) -> Floats:
        """Return Σ p(w) over the words first … after − 1, (P,).

        The ranges before stops[0] belong to the first context, those before stops[1] to the second,
        and so on.
        """
        begin, end = self._shared_before[first], self._shared_before[after]
        found: Floats = self._others[after] - self._others[first]
        for context, (start, stop) in zip(contexts, pairwise([0, *stops]), strict=True):
            sums, own = context.sums, found[start:stop]
            own *= context.unknown
            own += np.maximum(sums[end[start:stop]] - sums[begin[start:stop]], 0)
        return found

    def _read(self, ids: Integers, output: Singles, cell: Singles) -> list[RecurrentContext]:
        probabilities, output, cell = self._model.step(ids, output, cell)
        shared = probabilities.take(self._shared, axis=1)
        sums = [sums_before(row) for row in shared]  # each of its own memory: most are dropped soon
        unknown = [max(0.0, 1 - float(each[-1])) for each in sums]
        parts = zip(output, cell, sums, unknown, strict=True)
        return [RecurrentContext(*part) for part in parts]


def _single(weights: StoredWeights, name: str) -> Singles:
    return np.asarray(weights[name], np.float32)


def _affine(rows: Singles, matrix: Singles, bias: Singles) -> Singles:
    found = product(rows, matrix)
    found += bias
    return found
