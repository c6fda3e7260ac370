"""The dev set of a config, of recordings or sentences, and the scores of a trained model on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from spoken import decode_all, error_rates, read_spoken
from torch import nn

from asr.errors import UserError
from asr.inference.pieces import Piece
from asr.inference.recognizer import Recognizer
from asr.inference.translator import Translator
from asr.runtime.torch_engine import TorchEngine, TorchTextEngine
from asr.scoring.bleu import score
from asr.training.config import SpeechConfig, TranslationConfig, load_config
from asr.training.tasks.speech_data import SpeechData
from asr.training.tasks.translation_data import TranslationData


class Scores(NamedTuple):
    """Scores of a model by name, main one first; by_length: (source words, main score) in order.

    decoding: CPU-seconds for the whole dev set.
    """

    scores: dict[str, float]
    by_length: list[tuple[str, float]]
    decoding: float
    parameters: int


class DevSet(Protocol):
    """What trained models are scored on."""

    def score(self, model: Path, beam: int) -> Scores:
        """Decode the dev set with a model."""


def read_dev_set(config_file: Path, data: Path | None, overrides: Sequence[str]) -> DevSet:
    """Read the dev set of a speech or translation config.

    data: folder of the data; default: that of the config.

    Raises UserError if it is a config of another task or its data cannot be used.
    """
    config = load_config(config_file, overrides)
    folders = data or config_file.parent, config_file.parent
    if isinstance(config, TranslationConfig):
        read = TranslationData(config, *folders)
        references = [each.references for each in read.dev]
        lowercase = read.by_words or config.data.tokenised
        return Sentences([each.source for each in read.dev], references, lowercase)
    if isinstance(config, SpeechConfig):
        return Recordings(*read_spoken(SpeechData(config, *folders).dev))
    raise UserError(f'{config_file}: got task = "{config.task}", wanted "speech" or "translation"')


class Recordings(NamedTuple):
    """Recordings with their texts: WER and CER of a search without language models."""

    texts: list[str]
    pieces: list[Piece]

    def score(self, model: Path, beam: int) -> Scores:
        """See `DevSet`."""
        recognizer = Recognizer.load(model, runtime="torch").configured(beam=beam, lm_weight=0.0)
        engine = recognizer.loaded.engine
        assert isinstance(engine, TorchEngine)
        before = time.process_time()
        segments = decode_all(recognizer.loaded, self.pieces, recognizer.decoding)
        decoding = time.process_time() - before
        characters, words = error_rates(self.texts, segments)
        return Scores({"WER %": words, "CER %": characters}, [], decoding, _size(engine.model))


class Sentences(NamedTuple):
    """Sentences and all references of each: BLEU, of tokens in lower case."""

    sources: list[str]
    references: list[tuple[str, ...]]
    tokens: bool

    def score(self, model: Path, beam: int) -> Scores:
        """See `DevSet`."""
        translator = Translator.load(model, runtime="torch")
        (engine,) = translator.engines
        assert isinstance(engine, TorchTextEngine)
        before = time.process_time()
        texts = [each.text for each in translator.translate(self.sources, beam=beam, whole=True)]
        decoding = time.process_time() - before
        return Scores(*self.bleu(texts), decoding, _size(engine.model))

    def bleu(self, texts: Sequence[str]) -> tuple[dict[str, float], list[tuple[str, float]]]:
        """Return BLEU of translations, and the name and BLEU of each bucket of source length."""
        found = score(self.references, texts, self.sources)
        whole, *buckets = (
            each.lowercase if self.tokens else each.bleu for each in (found, *found.by_length)
        )
        names = [each.name for each in found.by_length]
        return {"BLEU": whole}, [*zip(names, buckets, strict=True)]


def _size(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())
