"""A speech model with everything that its folder holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, inf
from pathlib import Path
from typing import TypeVar

from asr.audio.read import SAMPLE_RATE
from asr.errors import UserError
from asr.inference.confidence import Calibration
from asr.inference.options import DecodingOptions
from asr.inference.plausibility import Plausibility
from asr.lazy import Lazy
from asr.lm.lookahead import WordModel
from asr.model_folder import read_folder
from asr.models.settings import SpeechSettings
from asr.runtime.boundary import BoundaryRefiner
from asr.runtime.caching import CachingEngine
from asr.runtime.engine import Engine
from asr.runtime.load import load_engine, load_word_step
from asr.runtime.punctuator import Punctuator
from asr.runtime.voice_activity import VoiceActivity
from asr.search.hotwords import HotwordGraph
from asr.search.word_penalty import WordPenalty
from asr.tables import from_table
from asr.text.names import Names
from asr.text.normalize import normalize
from asr.text.vocabulary import UNK, Vocabulary

Fitted = TypeVar("Fitted", Calibration, Plausibility)


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A speech model in float32 for inference, with what belongs to it.

    Copies share what has been read, and what one of them reads later.

    engine: computes the model. language_model_file: word n-grams (`asr.lm.word_ngrams`), or None;
    another one is set by `with_language_model`. words: reads it. runtime: as given to `load`.
    boundaries: the network that refines word times, or None. voice_activity: that which finds the
    speech in long recordings, or None.
    decoding: the model's own defaults of the search. calibration: of word confidence with these
    defaults, or None. plausibility: of segments with these defaults, or None. writer: reads the
    model that writes transcripts with punctuation and case, or None. hotwords: words that the
    search favours, or None. names: the same words as they are written, with their capitals.
    """

    engine: Engine
    vocabulary: Vocabulary = field(repr=False)
    settings: SpeechSettings
    language_model_file: Path | None = None
    words: Lazy[WordModel] | None = None
    runtime: str = "auto"
    boundaries: BoundaryRefiner | None = None
    voice_activity: VoiceActivity | None = None
    decoding: DecodingOptions = field(default_factory=DecodingOptions)
    calibration: Calibration | None = None
    writer: Lazy[Punctuator] | None = None
    plausibility: Plausibility | None = None
    hotwords: HotwordGraph | None = None
    names: Names = field(default_factory=Names)

    @classmethod
    def load(cls, path: Path, device: str = "cpu", runtime: str = "auto") -> LoadedModel:
        """Load a model folder.

        device: see `asr.runtime.device.choose_device`. runtime: "numpy", which needs no torch and
        computes on the CPU; "onnx", which runs the graphs of `asr export` on the CPU; "torch"; or
        "auto": on the CPU onnx if the folder has graphs and onnxruntime is installed, else numpy
        for a model that it supports, else torch.

        Raises:
            UserError: there is no such folder, it holds no speech model, the device is missing, or
                the runtime is not known or does not support the model.
        """
        folder = read_folder(path, "speech")
        if "vocabulary" not in folder.vocabularies:
            raise UserError(f"{folder.path}: a speech model without its vocabulary.json")
        settings, usage = from_table(SpeechSettings, folder.model), folder.usage
        vocabulary = Vocabulary.from_json(folder.vocabularies["vocabulary"])
        file, writer = folder.language_model_file, folder.written_folder
        boundaries, voice_activity = folder.boundaries_file, folder.voice_activity_file
        return cls(
            load_engine(folder, settings, len(vocabulary), device, runtime),
            vocabulary,
            settings,
            language_model_file=file,
            words=None if file is None else _reader(file, vocabulary, runtime),
            runtime=runtime,
            boundaries=BoundaryRefiner.load(boundaries, vocabulary) if boundaries else None,
            voice_activity=VoiceActivity.load(voice_activity) if voice_activity else None,
            decoding=from_table(DecodingOptions, usage.decoding, f"{folder.path}: decoding"),
            calibration=_fitted(Calibration, usage.confidence, f"{folder.path}: confidence"),
            writer=None if writer is None else Lazy(lambda: Punctuator.load(writer)),
            plausibility=_fitted(Plausibility, usage.plausibility, f"{folder.path}: plausibility"),
        )

    @property
    def language_model(self) -> WordModel | None:
        """The language model, read on first use.

        Raises:
            UserError: the file cannot be read, or the model does not write letters.
        """
        return None if self.words is None else self.words()

    @property
    def punctuator(self) -> Punctuator | None:
        """The model of punctuation and case, read on first use.

        Raises:
            UserError: it is missing or damaged.
        """
        return None if self.writer is None else self.writer()

    def with_language_model(self, file: Path) -> LoadedModel:
        """Return a model with another language model, or this one if it is the same file.

        The calibrations do not hold for another language model and are left out.
        """
        if self.language_model_file is not None and file.resolve() == (
            self.language_model_file.resolve()
        ):
            return self
        return replace(
            self,
            language_model_file=file,
            words=_reader(file, self.vocabulary, self.runtime),
        ).uncalibrated()

    def word_penalty(self, weight: float) -> WordPenalty:
        """Return a scorer that subtracts `weight` nats at each space.

        The vocabulary is one of characters, as that of a model with a language model is.
        """
        (space,) = self.vocabulary.encode(" ")
        return WordPenalty(space, len(self.vocabulary), weight)

    @property
    def seconds_per_annotation(self) -> float:
        """Seconds of audio for each annotation."""
        return self.engine.seconds_per_annotation

    def is_calibrated_for(self, options: DecodingOptions) -> bool:
        """Return whether the calibrations hold for a search with these options."""
        same_search = replace(
            options,
            batch_seconds=self.decoding.batch_seconds,
            segment_seconds=self.decoding.segment_seconds,
            noise_threshold=self.decoding.noise_threshold,
            longest=self.decoding.longest,
            hotword_weight=self.decoding.hotword_weight,
            n_best=self.decoding.n_best,
        )
        return same_search == self.decoding

    def uncalibrated(self) -> LoadedModel:
        """Return a model without the calibrations, for a search that they do not hold for."""
        return replace(self, calibration=None, plausibility=None)

    def favouring(self, words: Iterable[str]) -> LoadedModel:
        """Return a model whose search favours words or phrases; they are normalised.

        None of them: the search favours nothing.

        Raises:
            UserError: nothing is left of a word, they are no list of texts, or the model does not
                write characters.
        """
        given = [*words] if isinstance(words, Iterable) else [words]
        if isinstance(words, str) or not all(isinstance(word, str) for word in given):
            raise UserError(f"hot words {words!r:.40}: wanted a list of texts, such as ['anna']")
        if not given:
            return replace(self, hotwords=None, names=Names())
        if self.vocabulary.kind != "characters" or UNK in self.vocabulary.encode(" '"):
            raise UserError(
                f"hot words need a model that writes characters, this one has "
                f"{self.vocabulary.kind}: leave them out"
            )
        (space,) = self.vocabulary.encode(" ")
        spelt = [self._spelt(word) for word in given]
        graph = HotwordGraph(spelt, space, len(self.vocabulary))
        return replace(self, hotwords=graph, names=Names(given))

    def _spelt(self, word: str) -> list[int]:
        normalised = normalize(word)
        if not normalised:
            raise UserError(f"nothing is left of the hot word {word[:40]!r} as lower-case a to z")
        return self.vocabulary.encode(normalised)

    def windowed(self, back: float, ahead: float) -> LoadedModel:
        """Return a model whose attention is restricted to a window around its last position.

        back, ahead: seconds before and after the median of the previous step's weights, rounded
            up to whole annotations; both 0 remove a window. The weights are shared. The
            calibrations do not hold for another window and are left out.

        Raises:
            UserError: a window that extends to one side only, or an attention that takes none.
        """
        settings = self.settings.attention
        reach = [ceil(each / self.seconds_per_annotation) for each in (back, ahead)]
        settings = replace(settings, window_back=reach[0], window_ahead=reach[1], window_stride=0)
        if settings == self.settings.attention:
            return self
        try:
            engine = self.engine.windowed(settings)
        except ValueError as error:
            raise UserError(f"window of {back:g} s back and {ahead:g} s ahead: {error}") from error
        changed = replace(self, engine=engine, settings=replace(self.settings, attention=settings))
        return changed.uncalibrated()

    def caching(self, seconds: float) -> LoadedModel:
        """Return a model that keeps the encoder's output of the last `seconds` of audio.

        Raises:
            UserError: a number below 0.
        """
        if not 0 <= seconds < inf:
            raise UserError(f"a cache of {seconds:g} s, wanted a number of seconds of at least 0")
        engine = self.engine.engine if isinstance(self.engine, CachingEngine) else self.engine
        return replace(
            self, engine=CachingEngine(engine, seconds, SAMPLE_RATE) if seconds else engine
        )


def _reader(file: Path, vocabulary: Vocabulary, runtime: str) -> Lazy[WordModel]:
    load_step = partial(load_word_step, runtime=runtime)
    return Lazy(lambda: WordModel.load(file, vocabulary, load_step))


def _fitted(kind: type[Fitted], table: Mapping[str, float], where: str) -> Fitted | None:
    """Return what was fitted to the search of a model; None if its folder has nothing of it."""
    return from_table(kind, table, where) if table else None
