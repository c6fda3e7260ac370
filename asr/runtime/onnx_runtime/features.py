"""Log-mel features and their normalisation as an ONNX graph: samples → features."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray

from asr.audio.mel import mel_filters
from asr.audio.read import SAMPLE_RATE
from asr.models.settings import SpeechSettings
from asr.runtime.numpy_runtime.features import FFT_SIZE, FLOOR, HOP, WINDOW, hann_window
from asr.runtime.numpy_runtime.layers import Weights
from asr.runtime.onnx_runtime.graph import Graph, floats, integers


def features_graph(
    settings: SpeechSettings, weights: Weights, notes: Mapping[str, str]
) -> onnx.ModelProto:
    """Return the graph of the features; see docs/export.md for its inputs and outputs.

    The Fourier transform is a convolution with its windowed basis: ONNX has one of its own, which
    onnxruntime computes several times as slowly.
    """
    graph = Graph(weights)
    graph.scope = "features"
    mels = settings.features.mels
    frames = _frames(graph)
    values = graph.add(
        "Log", graph.add("Max", _mels(graph, mels), graph.constant(np.float32(FLOOR)))
    )
    count = graph.size(values, 1)
    graph.scope = "normalizer"
    mask = graph.add("Cast", graph.mask(frames, count), to=onnx.TensorProto.FLOAT)
    mask = graph.add("Unsqueeze", mask, graph.constant([2]))  # (B, F, 1)
    if settings.features.utterance_mean:
        total = graph.add("ReduceSum", graph.add("Mul", values, mask), graph.constant([1]))
        counted = graph.add(
            "Max", graph.add("ReduceSum", mask, graph.constant([1])), graph.constant(np.float32(1))
        )
        values = graph.add("Sub", values, graph.add("Div", total, counted))
    for kind, part in (("Sub", "mean"), ("Div", "std")):
        name = f"normalizer.{part}"
        values = graph.add(kind, values, graph.constant(graph.weight(name), name))
    outputs = {
        "features": (graph.add("Mul", values, mask), floats("batch", "frames", mels)),
        "frame_lengths": (frames, integers("batch")),
    }
    inputs = {"samples": floats("batch", "samples"), "lengths": integers("batch")}
    return graph.model("features", inputs, outputs, notes)


def _frames(graph: Graph) -> str:
    """Return the number of whole windows of each length (B,)."""
    # (lengths − WINDOW) // HOP + 1, at least 0; the division of ONNX rounds towards 0.
    beyond = graph.add("Sub", "lengths", graph.constant([WINDOW - HOP]))
    whole = graph.add("Div", beyond, graph.constant([HOP]))
    return graph.add("Max", whole, graph.constant([0]))


def _mels(graph: Graph, mels: int) -> str:
    """Return the power of each mel filter, (B, F, mels)."""
    filters = mel_filters(SAMPLE_RATE, FFT_SIZE, mels)  # (mels, bins)
    used = np.flatnonzero(filters.any(0))
    signal = graph.add("Unsqueeze", "samples", graph.constant([1]))  # (B, 1, S)
    basis = graph.constant(_basis(used), "features.basis")
    spectrum = graph.add("Conv", signal, basis, strides=[HOP])  # (B, 2·bins, F)
    squares = graph.add("Mul", spectrum, spectrum)
    both = np.concatenate([filters[:, used]] * 2, axis=1)  # real and imaginary parts are summed
    return graph.add(
        "MatMul",
        graph.add("Transpose", squares, perm=[0, 2, 1]),
        graph.constant(both.T, "features.filters"),
    )


def _basis(bins: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the windowed basis of the Fourier transform, (2·bins, 1, WINDOW)."""
    places = np.arange(WINDOW)
    angles = 2 * np.pi * bins[:, None] * places / FFT_SIZE
    basis = np.concatenate([np.cos(angles), np.sin(angles)])[:, None].astype(np.float32)
    return basis * hann_window()
