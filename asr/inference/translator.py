"""Translation of texts with the attention weights of each token."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, overload

import numpy as np

from asr.alignment.links import merge_words
from asr.corpora.batching import batch_by_length
from asr.corpora.collate import pad_tokens
from asr.corpora.pairs import tidy, tokenise
from asr.errors import UserError
from asr.inference.options import TranslationOptions
from asr.model_folder import CONFIG, PRETRAINED, read_folder
from asr.models.settings import TranslationSettings
from asr.results import StopReason
from asr.runtime.engine import TextEngine
from asr.runtime.ensemble import Ensemble
from asr.runtime.load import load_text_engine
from asr.search.beam import beam_search
from asr.search.contract import SearchDecoder
from asr.search.greedy import greedy
from asr.search.hypothesis import Hypothesis
from asr.search.limits import most_target_tokens
from asr.search.options import BeamSettings
from asr.tables import from_table
from asr.text.capitals import is_in_capitals, sentence_case
from asr.text.scripts import has_unspaced, is_unspaced, join_words
from asr.text.segmentation import WORD_START
from asr.text.sentences import split_paragraphs, split_sentences
from asr.text.vocabulary import EOS, SPECIALS, UNK, Vocabulary, of_both_sides
from asr.translation import Translation, WordWeights

SHIPPED: Final = {  # by target language
    "fr": PRETRAINED / "english-french",
    "de": PRETRAINED / "english-german",
    "zh": PRETRAINED / "english-chinese",
    "en": PRETRAINED / "chinese-english",
}
BATCH_TOKENS: Final = 4096  # padded source tokens decoded at once
END: Final = SPECIALS[EOS]


class _Parts(NamedTuple):
    """The sentences of a text: their number in each paragraph, and what is between paragraphs."""

    sentences: list[str]
    counts: list[int]
    separators: list[str]

    @classmethod
    def of(cls, text: str, whole: bool) -> _Parts:
        """Split a text; whole: it is one sentence."""
        if whole:
            return cls([text], [1], [])
        paragraphs, separators = split_paragraphs(text)
        split = [split_sentences(each) for each in paragraphs]
        return cls([one for its in split for one in its], [*map(len, split)], separators)

    def joined(self, texts: Sequence[str]) -> str:
        """Join texts that stand for the sentences."""
        left = iter(texts)
        paragraphs = [join_words(islice(left, count)) for count in self.counts]
        separated = zip(paragraphs, [*self.separators, ""], strict=True)
        return "".join(each for pair in separated for each in pair)


@dataclass(frozen=True, eq=False, repr=False)
class Translator:
    """Translation models with the same vocabularies. Results do not depend on the batch.

    Several models form an ensemble: each step uses the mean of their probabilities.
    """

    engines: tuple[TextEngine, ...]
    source: Vocabulary
    target: Vocabulary

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        device: str = "cpu",
        to: str | None = None,
        runtime: str = "auto",
    ) -> Translator:
        """Load a model folder, or several as an ensemble, in float32.

        device, runtime: see `asr.inference.loaded.LoadedModel.load`.

        Without a path the package's model to the language `to` is loaded, one of `SHIPPED`, by
        default the first; with a path, `to` is ignored.
        Raises UserError if there is no model, a folder is not a translation model, or the
        vocabularies of an ensemble differ.
        """
        if path is None:
            path = _shipped(next(iter(SHIPPED)) if to is None else to)
        paths = [path] if isinstance(path, str | os.PathLike) else list(path)
        if not paths:
            raise UserError("got no model folder; wanted one, or several for an ensemble")
        first, *others = [_load(Path(each), device, runtime) for each in paths]
        for one, its_path in zip(others, paths[1:], strict=True):
            if (one.source, one.target) != (first.source, first.target):
                raise UserError(
                    f"{its_path}: its vocabularies differ from {paths[0]}; "
                    "the models of an ensemble must have the same recipe and data"
                )
        engines = tuple(engine for each in (first, *others) for engine in each.engines)
        return cls(engines, first.source, first.target)

    @overload
    def translate(
        self,
        texts: str,
        *,
        beam: int | None = ...,
        length_penalty: float | None = ...,
        whole: bool = ...,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        texts: list[str],
        *,
        beam: int | None = ...,
        length_penalty: float | None = ...,
        whole: bool = ...,
    ) -> list[Translation]: ...

    def translate(
        self,
        texts: str | list[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        whole: bool = False,
    ) -> Translation | list[Translation]:
        """Translate one text, or several into a list in the same order.

        beam, length_penalty: see `TranslationOptions`; None means its default.
        whole: translate each text as one sentence; otherwise its sentences are translated
            separately, as in the training of most models, and blank lines are kept.
        A text or sentence without a letter, such as "10:30" or "♪", is copied; one in
        capitals is translated as if it were in lower case, and its translation is in capitals.

        Raises UserError if the beam or the penalty is out of range, or the texts are no valid ones.
        """
        named = {"beam": beam, "length_penalty": length_penalty}
        changes = {name: each for name, each in named.items() if each is not None}
        options = from_table(TranslationOptions, changes)
        given = [texts] if isinstance(texts, str) else _texts(texts)
        _require_unicode(given)
        parts = [_Parts.of(text, whole) for text in given]
        sentences = [each for its in parts for each in its.sentences]
        translated = iter(self._sentences(sentences, options.search))
        results = [
            _chained(text, its, [next(translated) for _ in its.sentences])
            for text, its in zip(given, parts, strict=True)
        ]
        return results[0] if isinstance(texts, str) else results

    def is_foreign(self, translation: Translation) -> bool:
        """Return whether a text seems to be in another language than the model reads.

        The model knows less than half of its tokens, or reads Chinese and the text has none.
        """
        sentences = [each.source[:-1] for each in translation.tokens_of_sentences]
        tokens = [each for tokens in sentences for each in tokens if each != WORD_START]
        unknown = tokens.count(SPECIALS[UNK])
        if is_unspaced("".join(self.source.inventory)) and not has_unspaced(translation.source):
            return any(map(str.isalpha, translation.source))
        return 2 * unknown >= max(1, len(tokens))

    def __repr__(self) -> str:
        return (
            f"Translator(models={len(self.engines)}, source={len(self.source)} symbols, "
            f"target={len(self.target)} symbols)"
        )

    def _sentences(self, texts: Sequence[str], search: BeamSettings) -> list[Translation]:
        """Translate sentences in batches."""
        read = [sentence_case(text) if is_in_capitals(text) else text for text in texts]
        sentences = [[*self.source.encode(self._prepared(text)), EOS] for text in read]
        found = {index: _copied(text) for index, text in enumerate(texts)}
        lengths = [len(sentence) for sentence in sentences]
        filled = [index for index, text in enumerate(texts) if any(map(str.isalpha, text))]
        order = sorted(filled, key=lengths.__getitem__)
        for batch in batch_by_length(lengths, BATCH_TOKENS, order=order):
            hypotheses = self._search([sentences[index] for index in batch], search)
            for index, hypothesis in zip(batch, hypotheses, strict=True):
                found[index] = self._translation(texts[index], sentences[index], hypothesis)
        return [found[index] for index in range(len(texts))]

    def _prepared(self, text: str) -> str:
        """Return the text in the form that the model was trained on."""
        return tokenise(text) if self.source.kind == "words" else tidy(text)

    def _search(self, sentences: Sequence[Sequence[int]], search: BeamSettings) -> list[Hypothesis]:
        tokens, lengths = pad_tokens(sentences)
        members = [engine.decoder(engine.encode(tokens, lengths).memory) for engine in self.engines]
        # The mean over a single model would cost half as much as a step.
        decoder: SearchDecoder[Any] = members[0] if len(members) == 1 else Ensemble(members)
        limits = most_target_tokens(lengths)
        if search.size == 1:
            return greedy(decoder, limits, search.guard)
        return [best for best, *_ in beam_search(decoder, limits, search)]

    def _translation(
        self, text: str, sentence: Sequence[int], hypothesis: Hypothesis
    ) -> Translation:
        source = tuple(self.source.symbols(sentence))
        target = tuple(self.target.symbols([*hypothesis.tokens, EOS]))
        weights = hypothesis.weights[:, : len(sentence)]
        words = merge_words(weights, source, target, subwords=self.source.kind == "subwords")
        written = (*self._prepared(text).split(), END)
        if len(written) == len(words.source):  # then unknown words keep their spelling
            words = words._replace(source=written)
        translated = self.target.decode(hypothesis.tokens)
        if is_in_capitals(text):
            translated = translated.upper()
            words = words._replace(target=(*map(str.upper, words.target[:-1]), END))
        return Translation(
            source=text,
            text=translated,
            tokens_of_sentences=(WordWeights(source, target, weights),),
            words_of_sentences=(words,),
            log_probability=hypothesis.log_probability,
            stop_reason=hypothesis.stop_reason,
        )


def load_translator(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    *,
    to: str | None = None,
    device: str = "cpu",
    runtime: str = "auto",
) -> Translator:
    """Load a translation model or an ensemble; see `Translator.load`."""
    return Translator.load(path, device, to, runtime)


def _texts(given: Iterable[str]) -> list[str]:
    """Return several texts as a list; they may come from an iterator.

    Raises:
        UserError: they are no texts.
    """
    texts = [*given] if isinstance(given, Iterable) and not isinstance(given, bytes) else [given]
    for each in texts:
        if not isinstance(each, str):
            raise UserError(
                f"a text of type {type(each).__name__}: wanted a str, or a list of them"
            )
    return texts


def _shipped(to: str) -> Path:
    """Return the folder of the package's model to a language."""
    if to not in SHIPPED:
        raise UserError(
            f"got language {to!r}; the package translates to {', '.join(SHIPPED)}: to en from "
            "Chinese, to the others from English"
        )
    if not (SHIPPED[to] / CONFIG).is_file():
        raise UserError(
            f"the package has no translation model to {to!r}; "
            "give a model folder (--model DIR): train one with recipes/fra_eng or recipes/deu_eng"
        )
    return SHIPPED[to]


def _load(path: Path, device: str, runtime: str) -> Translator:
    """Load the only model of a folder."""
    folder = read_folder(path, "translation")
    source, target = of_both_sides(folder.path, folder.vocabularies)
    settings = from_table(TranslationSettings, folder.model)
    engine = load_text_engine(folder, settings, (len(source), len(target)), device, runtime)
    return Translator((engine,), source, target)


def _chained(text: str, parts: _Parts, sentences: Sequence[Translation]) -> Translation:
    """Join the translations of the sentences of a text."""
    stops = [each.stop_reason for each in sentences if each.stop_reason != StopReason.EOS]
    return Translation(
        source=text,
        text=parts.joined([each.text for each in sentences]),
        tokens_of_sentences=tuple(one for each in sentences for one in each.tokens_of_sentences),
        words_of_sentences=tuple(one for each in sentences for one in each.words_of_sentences),
        log_probability=sum(each.log_probability for each in sentences),
        stop_reason=next(iter(stops), StopReason.EOS),
    )


def _require_unicode(texts: Sequence[str]) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"got a text with {text[error.start]!r}, half a character; wanted UTF-8"
            ) from None


def _copied(text: str) -> Translation:
    """Return a text without words as its own translation; each sign attends to itself."""
    tokens = (*text.split(), END)
    words = (WordWeights(tokens, tokens, np.eye(len(tokens), dtype=np.float32)),)
    return Translation(text, text.strip(), words, words, 0.0, StopReason.EOS)
