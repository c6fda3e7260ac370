"""Whether the graphs of a model compute what the NumPy engine computes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE
from asr.lm.recurrent import LSTMWords
from asr.model_folder import ENCODER_GRAPH, FEATURES_GRAPH, STEP_GRAPH
from asr.runtime.engine import EncodedAudio, PaddedAudio
from asr.runtime.numpy_runtime.attention import Memory
from asr.runtime.numpy_runtime.decoder import NumpyDecoder
from asr.runtime.numpy_runtime.encoder import pad_rows
from asr.runtime.numpy_runtime.engine import NumpyEngine
from asr.runtime.numpy_runtime.layers import Array
from asr.runtime.numpy_runtime.translation import NumpyTextEngine
from asr.runtime.onnx_runtime.engine import GraphStep, GraphWords, load_graph

SECONDS = (2.0, 3.1, 0.6)  # of the recordings of noise
LENGTHS = (9, 14, 1)  # of the sentences, in tokens
TEXTS = 4  # of words
Given = Mapping[str, NDArray[Any]]  # inputs of a graph
STEPS = 10
HYPOTHESES = 2


def differences_of_speech(engine: NumpyEngine, folder: Path) -> dict[str, float]:
    """Return the largest difference of any output of each graph, by the name of its file.

    Every graph is given what NumPy computes, so that the differences do not add up.
    """
    audio = _noise()
    encoded = engine.encode(audio)
    found = {
        ENCODER_GRAPH: _of_encoder(engine, load_graph(folder, ENCODER_GRAPH), encoded),
        STEP_GRAPH: _of_step(
            engine.decoder(encoded.memory),
            engine.vocabulary_size,
            GraphStep(load_graph(folder, STEP_GRAPH)),
            encoded.memory,
        ),
    }
    if (folder / FEATURES_GRAPH).exists():
        graph = load_graph(folder, FEATURES_GRAPH)
        samples = {"samples": audio.samples, "lengths": audio.lengths}
        features, counts = graph.run(["features", "frame_lengths"], samples)
        wanted, lengths = pad_rows(encoded.features)
        found[FEATURES_GRAPH] = _difference(features, wanted) if (counts == lengths).all() else 1.0
    return found


def differences_of_text(engine: NumpyTextEngine, folder: Path) -> dict[str, float]:
    """Return the same for the graphs of a translation model, of sentences made by chance."""
    source, target = engine.vocabulary_sizes
    lengths = np.array(LENGTHS, np.int64)
    tokens = np.random.default_rng(1).integers(1, source, (len(lengths), lengths.max()))
    memory = engine.encode(tokens, lengths).memory
    decoder = engine.decoder(memory)
    graph = load_graph(folder, ENCODER_GRAPH)
    wanted = _of_memory(memory)
    wanted["hidden"] = decoder.start().hidden
    step = GraphStep(load_graph(folder, STEP_GRAPH))
    given: Given = {"tokens": tokens, "lengths": lengths}
    return {
        ENCODER_GRAPH: _of_outputs(graph, given, wanted, memory.mask),
        STEP_GRAPH: _of_step(decoder, target, step, memory),
    }


def differences_of_words(model: LSTMWords, folder: Path) -> dict[str, float]:
    """Return the same for the graph of a recurrent language model, of texts made by chance.

    Of its probabilities the logarithms are compared: most are below 1e-4.
    """
    graph, random, worst = GraphWords.load(folder), np.random.default_rng(1), 0.0
    state = [np.zeros((TEXTS, model.state_size), np.float32)] * 2
    for _ in range(STEPS):
        words = random.integers(1, model.size, TEXTS)
        found, wanted = graph.step(words, *state), model.step(words, *state)
        pairs = [(np.log(found[0]), np.log(wanted[0])), *zip(found[1:], wanted[1:], strict=True)]
        worst = max(worst, *(_difference(*each) for each in pairs))
        state = [*wanted[1:]]
    return {STEP_GRAPH: worst}


def _noise() -> PaddedAudio:
    """Return recordings of noise whose loudness changes ten times a second."""
    random = np.random.default_rng(1)
    counts = np.array([round(SAMPLE_RATE * each) for each in SECONDS], np.int64)
    samples = np.zeros((len(counts), counts.max()), np.float32)
    for row, count in zip(samples, counts, strict=True):
        loudness = np.repeat(
            random.uniform(-4, -1, 1 + count * 10 // SAMPLE_RATE), SAMPLE_RATE // 10
        )
        row[:count] = random.standard_normal(count) * 10 ** loudness[:count]
    return PaddedAudio(samples, counts, np.ones((len(counts), 1), bool))


def _of_encoder(
    engine: NumpyEngine, graph: onnxruntime.InferenceSession, encoded: EncodedAudio
) -> float:
    features, lengths = pad_rows(encoded.features)
    memory = encoded.memory
    wanted = _of_memory(memory)
    wanted["annotation_lengths"] = encoded.lengths
    wanted["hidden"] = engine.decoder(memory).start().hidden
    ctc_mask = None
    if encoded.ctc is not None:
        wanted["ctc"] = encoded.ctc
        ctc_mask = np.arange(encoded.ctc.shape[1]) < encoded.ctc_lengths[:, None]
    given: Given = {"features": features, "lengths": lengths}
    return _of_outputs(graph, given, wanted, memory.mask, ctc_mask)


def _of_memory(memory: Memory) -> dict[str, NDArray[Any]]:
    return {"annotations": memory.values, "mask": memory.mask, "keys": memory.keys}


def _of_outputs(
    graph: onnxruntime.InferenceSession,
    given: Given,
    wanted: Mapping[str, NDArray[Any]],
    mask: NDArray[np.bool_],
    ctc_mask: NDArray[np.bool_] | None = None,
) -> float:
    """Return the largest difference of any output; of padding, nothing is compared.

    mask (B, T): what is not padding of annotations and keys; ctc_mask: of CTC frames.
    """
    inside = {"annotations": mask, "keys": mask, "ctc": ctc_mask}
    found = graph.run([*wanted], given)
    pairs = zip(found, wanted.items(), strict=True)
    return max(_difference(one, other, inside.get(name)) for one, (name, other) in pairs)


def _of_step(decoder: NumpyDecoder, symbols: int, step: GraphStep, memory: Memory) -> float:
    """Return the largest difference of a decoder's outputs in a few steps of the same tokens."""
    batch = len(memory.mask)
    state = decoder.select(decoder.start(), np.zeros((batch, HYPOTHESES), np.int64))
    random, worst = np.random.default_rng(2), 0.0
    for _ in range(STEPS):
        tokens = random.integers(1, symbols, (batch, HYPOTHESES))
        log_probs, found = step(tokens, state, memory)
        wanted = decoder.step(tokens, state)
        state = wanted.state
        pairs = [(log_probs, wanted.log_probs), (found.hidden, state.hidden)]
        pairs += zip(found.alignment, state.alignment, strict=True)
        worst = max(worst, *(_difference(one, other) for one, other in pairs))
    return worst


def _difference(found: Array, wanted: Array, inside: NDArray[np.bool_] | None = None) -> float:
    """Return the largest difference, where inside (B, T) is True.

    Infinite for other shapes and for what is not a number.
    """
    if found.shape != wanted.shape:
        return float("inf")
    gap = np.abs(found.astype(np.float64) - wanted)
    if inside is not None:
        gap = gap[inside]
    return float("inf") if np.isnan(gap).any() else float(gap.max(initial=0))
