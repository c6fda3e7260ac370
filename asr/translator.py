"""Text → Translation: a model folder, batches, and where the decoder looked for each token."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, overload

import numpy as np
import torch
from numpy.typing import NDArray

from asr.corpora.pairs import tidy, tokenise
from asr.errors import UserError
from asr.models.checkpoint import load_weights, read_folder
from asr.models.seq2seq import TranslationModel, build_translation_model
from asr.models.settings import TranslationSettings
from asr.models.textual import most_target_tokens
from asr.search.beam import beam_search
from asr.search.greedy import greedy
from asr.search.hypothesis import Hypothesis
from asr.search.settings import BeamSettings
from asr.settings import from_table
from asr.text.vocabulary import EOS, SPECIALS, Vocabulary

BATCH_TOKENS: Final = 4096  # padded source tokens decoded at once
END: Final = SPECIALS[EOS]


@dataclass(frozen=True, eq=False)
class Translation:
    """A translated text. U target tokens, T source tokens, both with "<eos>" as the last.

    source: the text as it was given. text: its translation.
    weights: (U, T) float32, where the decoder looked for each target token; rows sum to 1.
    log_probability: of the whole translation, its end included, in nats.
    stop_reason: "eos", "length" or "repeat"; see `asr.search.hypothesis.Hypothesis`.
    """

    source: str
    text: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: NDArray[np.float32]
    log_probability: float
    stop_reason: str

    def draw(self, path: str | os.PathLike[str], title: str | None = None) -> None:
        """Draw the weights as a heat map, tokens on both axes; `path` ends in .png, .svg or .pdf.

        Raises UserError when the picture cannot be written.
        """
        from asr.render.picture import draw_heat_map

        draw_heat_map(Path(path), self.weights, self.source_tokens, self.target_tokens, title)


@dataclass(frozen=True, eq=False)
class Translator:
    """A translation model with its two vocabularies. Results do not depend on the batch."""

    model: TranslationModel
    source: Vocabulary
    target: Vocabulary

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None, device: str = "cpu") -> Translator:
        """Load a model folder, in float32, on a device that torch knows.

        Raises UserError when no folder is named (none is in the package), or it is not one of a
        translation model.
        """
        if path is None:
            raise UserError(
                "no translation model is in the package; "
                "give a model folder: train one with recipes/fra_eng"
            )
        folder = read_folder(Path(path), "translation")
        missing = {"source", "target"} - set(folder.vocabularies)
        if missing:
            raise UserError(f"{folder.path}: a translation model without {min(missing)}.json")
        source = Vocabulary.from_json(folder.vocabularies["source"])
        target = Vocabulary.from_json(folder.vocabularies["target"])
        settings = from_table(TranslationSettings, folder.model)
        try:
            model = build_translation_model(settings, len(source), len(target))
        except (ValueError, RuntimeError, TypeError) as error:
            raise UserError(f"{folder.path}: sizes that make no model: {error}") from error
        load_weights(model, folder.path)
        try:
            model.to(device)
        except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
            raise UserError(f"device {device!r} cannot be used: {error}") from error
        return cls(model.eval().requires_grad_(False), source, target)

    @overload
    def translate(self, texts: str, *, beam: int = ...) -> Translation: ...

    @overload
    def translate(self, texts: list[str], *, beam: int = ...) -> list[Translation]: ...

    def translate(
        self, texts: str | list[str], *, beam: int = 4
    ) -> Translation | list[Translation]:
        """Translate one text, or several into a list in the same order.

        beam: hypotheses kept alive for each text; 1 searches greedily. A beam ranks by the mean
        log-probability of a token, so that long translations are not at a disadvantage.
        A text without words comes back empty.

        Raises UserError when the beam is below 1.
        """
        search = BeamSettings(size=beam, length_exponent=1.0, end_threshold=None)
        given = [texts] if isinstance(texts, str) else texts
        sentences = [[*self.source.encode(self._prepared(text)), EOS] for text in given]
        found = {index: _empty(text) for index, text in enumerate(given)}
        for batch in _batches([len(sentence) for sentence in sentences]):
            hypotheses = self._search([sentences[index] for index in batch], search)
            for index, hypothesis in zip(batch, hypotheses, strict=True):
                found[index] = self._translation(given[index], sentences[index], hypothesis)
        results = [found[index] for index in range(len(given))]
        return results[0] if isinstance(texts, str) else results

    def _prepared(self, text: str) -> str:
        """The text in the form that the model was trained on."""
        return tokenise(text) if self.source.kind == "words" else tidy(text)

    @torch.no_grad()
    def _search(self, sentences: Sequence[Sequence[int]], search: BeamSettings) -> list[Hypothesis]:
        annotations = self.model.encoder.annotate(sentences)
        memory = self.model.decoder.prepare(annotations)
        limits = most_target_tokens(annotations.mask.sum(1))
        if search.size == 1:
            return greedy(self.model.decoder, memory, limits, search.guard)
        return [best for best, *_ in beam_search(self.model.decoder, memory, limits, search)]

    def _translation(
        self, text: str, sentence: Sequence[int], hypothesis: Hypothesis
    ) -> Translation:
        return Translation(
            source=text,
            text=self.target.decode(hypothesis.tokens),
            source_tokens=tuple(self.source.symbols(sentence)),
            target_tokens=tuple(self.target.symbols([*hypothesis.tokens, EOS])),
            weights=hypothesis.weights[:, : len(sentence)].float().cpu().numpy(),
            log_probability=hypothesis.log_probability,
            stop_reason=hypothesis.stop_reason,
        )


def _empty(text: str) -> Translation:
    """What a text without words becomes: there is nothing to translate, so nothing is invented."""
    return Translation(text, "", (END,), (END,), np.ones((1, 1), np.float32), 0.0, "eos")


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices of the sentences that hold more than <eos>, gathered from short to long."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if lengths[index] == 1:
            continue
        if batch and lengths[index] * (len(batch) + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
