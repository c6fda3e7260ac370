"""Inference with onnxruntime: encoder and steps as graphs, the rest in NumPy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime

from asr.checksums import read_checksums, read_verified
from asr.errors import UserError
from asr.model_folder import ENCODER_GRAPH, STEP_GRAPH, WEIGHTS
from asr.models.settings import SpeechSettings, TranslationSettings
from asr.runtime.numpy_runtime.attention import Alignment, Memory
from asr.runtime.numpy_runtime.decoder import NumpyState
from asr.runtime.numpy_runtime.encoder import Lengths, pad_rows
from asr.runtime.numpy_runtime.engine import NumpyEngine
from asr.runtime.numpy_runtime.layers import Array, Weights
from asr.runtime.numpy_runtime.translation import NumpyTextEngine
from asr.search.contract import Integers

BITS = "bits"  # in the metadata of a graph whose products are not in float32
WEIGHTS_DIGEST = "model.safetensors sha256"  # in the metadata of a graph: the weights it has


class Graphs(NamedTuple):
    """The graphs of a model folder that an engine runs; NumPy is faster at the features."""

    encoder: onnxruntime.InferenceSession
    step: onnxruntime.InferenceSession

    @classmethod
    def load(cls, folder: Path) -> Graphs:
        """Load them; see `load_graph`."""
        return cls(load_graph(folder, ENCODER_GRAPH), load_graph(folder, STEP_GRAPH))

    def engine(
        self, settings: SpeechSettings, weights: Weights, vocabulary_size: int
    ) -> NumpyEngine:
        """Return an engine whose encoder and decoder step are graphs, for speech as `weights` are.

        Raises:
            ValueError: see `NumpyEngine`.
        """
        encoder, step = GraphEncoder(self.encoder), GraphStep(self.step)
        return NumpyEngine(settings, weights, vocabulary_size, encoder, step)

    def text_engine(
        self, settings: TranslationSettings, weights: Weights, sizes: tuple[int, int]
    ) -> NumpyTextEngine:
        """Return the same for text, with vocabularies of these sizes.

        Raises:
            ValueError: see `NumpyTextEngine`.
        """
        encoder, step = GraphTextEncoder(self.encoder), GraphStep(self.step)
        return NumpyTextEngine(settings, weights, *sizes, encoder, step)


class GraphEncoder:
    """An `asr.runtime.numpy_runtime.engine.Encoder` in onnxruntime.

    In 8 bits each recording is computed alone, which is as fast: the activations of a batch have
    one scale, so that the result of a recording would depend on the others.
    """

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        self._alone = BITS in session.get_modelmeta().custom_metadata_map

    def __call__(self, features: Sequence[Array]) -> tuple[Array, Lengths]:
        """See `Encoder`."""
        if self._alone:
            return pad_rows([self._run([each])[0][0] for each in features])
        return self._run(features)

    def _run(self, features: Sequence[Array]) -> tuple[Array, Lengths]:
        padded, counts = pad_rows(features)
        given = {"features": padded, "lengths": counts}
        values, lengths = self._session.run(["annotations", "annotation_lengths"], given)
        return values, lengths


class GraphStep:
    """An `asr.runtime.numpy_runtime.decoder.Step` in onnxruntime."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session

    def __call__(
        self, tokens: Integers, state: NumpyState, memory: Memory
    ) -> tuple[Array, NumpyState]:
        """See `Step`."""
        given = {
            "tokens": tokens,
            "hidden": state.hidden,
            "weights": state.alignment.weights,
            "cumulative": state.alignment.cumulative,
            "annotations": memory.values,
            "mask": memory.mask,
            "keys": memory.keys,
        }
        log_probs, hidden, weights, cumulative = self._session.run(None, given)
        return log_probs, NumpyState(hidden, Alignment(weights, cumulative))


class GraphTextEncoder:
    """An `asr.runtime.numpy_runtime.translation.TextEncoder` in onnxruntime."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session

    def __call__(self, tokens: Integers, lengths: Lengths) -> Array:
        """See `TextEncoder`."""
        (values,) = self._session.run(["annotations"], {"tokens": tokens, "lengths": lengths})
        return np.asarray(values)


class GraphWords:
    """An `asr.lm.recurrent.WordStep` in onnxruntime."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        self.size = int(session.get_outputs()[0].shape[1])
        self.state_size = int(session.get_outputs()[1].shape[1])

    @classmethod
    def load(cls, folder: Path) -> GraphWords:
        """Load the graph of a language model; see `load_graph`."""
        return cls(load_graph(folder, STEP_GRAPH))

    def step(self, words: Integers, output: Array, cell: Array) -> tuple[Array, Array, Array]:
        """See `WordStep.step`."""
        given = {"words": words, "output": output, "cell": cell}
        probabilities, output, cell = self._session.run(None, given)
        return probabilities, output, cell


def load_graph(folder: Path, name: str) -> onnxruntime.InferenceSession:
    """Load a graph of a model folder; OMP_NUM_THREADS sets its threads.

    Raises:
        UserError: it is missing, damaged, or was made of other weights.
    """
    file = folder / name
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _threads()
    options.log_severity_level = 3  # errors, which are raised as well
    try:
        content = read_verified(file)
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except FileNotFoundError as error:
        raise UserError(f"{file}: no graph there; make it with: asr export MODEL FOLDER") from error
    except UserError:
        raise
    except Exception as error:  # onnxruntime has no common class of its errors
        raise UserError(f"{file}: damaged, or not an ONNX graph: {error!s:.200}") from error
    wanted = read_checksums(folder).get(WEIGHTS)
    made_of = session.get_modelmeta().custom_metadata_map.get(WEIGHTS_DIGEST)
    if wanted is not None and made_of != wanted:
        raise UserError(f"{file}: made of other weights than {WEIGHTS}; run asr export again")
    return session


def _threads() -> int:
    """Return OMP_NUM_THREADS, as NumPy and torch use it; 0, all cores, without it."""
    text = os.environ.get("OMP_NUM_THREADS", "")
    return int(text) if text.isdecimal() else 0
