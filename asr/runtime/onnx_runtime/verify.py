"""Whether the graphs of a model compute what the NumPy engine computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from asr.audio.read import SAMPLE_RATE
from asr.model_folder import ENCODER_GRAPH, FEATURES_GRAPH, STEP_GRAPH
from asr.runtime.engine import EncodedAudio, PaddedAudio
from asr.runtime.numpy_runtime.encoder import pad_rows
from asr.runtime.numpy_runtime.engine import NumpyEngine
from asr.runtime.numpy_runtime.layers import Array
from asr.runtime.onnx_runtime.engine import GraphStep, load_graph

SECONDS = (2.0, 3.1, 0.6)  # of the recordings of noise
STEPS = 10
HYPOTHESES = 2


def largest_differences(engine: NumpyEngine, folder: Path) -> dict[str, float]:
    """Return the largest difference of any output of each graph, by the name of its file.

    Every graph is given what NumPy computes, so that the differences do not add up.
    """
    audio = _noise()
    encoded = engine.encode(audio)
    found = {
        ENCODER_GRAPH: _of_encoder(engine, load_graph(folder, ENCODER_GRAPH), encoded),
        STEP_GRAPH: _of_step(engine, GraphStep(load_graph(folder, STEP_GRAPH)), encoded),
    }
    if (folder / FEATURES_GRAPH).exists():
        graph = load_graph(folder, FEATURES_GRAPH)
        samples = {"samples": audio.samples, "lengths": audio.lengths}
        features, counts = graph.run(["features", "frame_lengths"], samples)
        wanted, lengths = pad_rows(encoded.features)
        found[FEATURES_GRAPH] = _difference(features, wanted) if (counts == lengths).all() else 1.0
    return found


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
    names = [each.name for each in graph.get_outputs()]
    given = {"features": features, "lengths": lengths}
    found = dict(zip(names, graph.run(None, given), strict=True))
    memory = encoded.memory
    start = engine.decoder(memory).start()
    wanted = {
        "annotations": memory.values,
        "mask": memory.mask,
        "keys": memory.keys,
        "annotation_lengths": encoded.lengths,
        "hidden": start.hidden,
    }
    inside = {"annotations": memory.mask, "keys": memory.mask}
    if encoded.ctc is not None:
        wanted["ctc"] = encoded.ctc
        inside["ctc"] = np.arange(encoded.ctc.shape[1]) < encoded.ctc_lengths[:, None]
    return max(_difference(found[name], value, inside.get(name)) for name, value in wanted.items())


def _of_step(engine: NumpyEngine, step: GraphStep, encoded: EncodedAudio) -> float:
    decoder = engine.decoder(encoded.memory)
    state = decoder.select(decoder.start(), np.zeros((len(SECONDS), HYPOTHESES), np.int64))
    random, worst = np.random.default_rng(2), 0.0
    for _ in range(STEPS):
        symbols = engine.vocabulary_size
        tokens = random.integers(1, symbols, (len(SECONDS), HYPOTHESES))
        log_probs, found = step(tokens, state, encoded.memory)
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
