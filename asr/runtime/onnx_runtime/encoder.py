"""The encoder as an ONNX graph: features → annotations, keys, first state, CTC log-probabilities.

Inside, time is the first axis, as the LSTM of ONNX wants it: (T, B, E).
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from asr.models.settings import SpeechSettings
from asr.runtime.numpy_runtime.layers import Weights
from asr.runtime.onnx_runtime.graph import Graph, floats, integers
from asr.runtime.onnx_runtime.layers import bilstm, masked, memory, norm


def encoder_graph(
    settings: SpeechSettings, weights: Weights, notes: Mapping[str, str]
) -> onnx.ModelProto:
    """Return the graph of an encoder; see docs/export.md for its inputs and outputs."""
    graph = Graph(weights)
    width = len(weights["normalizer.mean"])
    values, lengths, mask = _annotate(graph, settings)
    outputs = memory(graph, settings, values, mask)
    outputs["annotation_lengths"] = lengths, integers("batch")
    if settings.ctc.subframes:
        symbols = len(weights["ctc.output.bias"]) // settings.ctc.subframes
        outputs["ctc"] = (
            _ctc(graph, values, symbols),
            floats("batch", "ctc_frames", symbols),
        )
    inputs = {
        "features": floats("batch", "frames", width),
        "lengths": integers("batch"),
    }
    return graph.model("encoder", inputs, outputs, notes)


def _annotate(graph: Graph, settings: SpeechSettings) -> tuple[str, str, str]:
    """Return annotations (B, T, E), their lengths (B,) and mask (B, T)."""
    encoder = settings.encoder
    hidden, lengths = _front(graph, "features", "lengths", encoder.kind == "frozen")
    for at in range(encoder.layers):
        if at == encoder.layers_before_reduction:
            hidden, lengths = _halve(graph, hidden, lengths)
        hidden = _layer(graph, hidden, lengths, at)
    graph.scope = "encoder"
    hidden = norm(graph, hidden, "encoder.last_norm")
    mask = graph.mask(lengths, graph.size(hidden, 0))
    values = graph.add("Transpose", hidden, perm=[1, 0, 2])
    return masked(graph, values, mask, [2]), lengths, mask


def _front(graph: Graph, features: str, lengths: str, frozen: bool) -> tuple[str, str]:
    """Convolve normalised features (B, F, ·), and enter: (T, B, E), lengths (B,)."""
    graph.scope = "encoder.front"
    if frozen:
        frames = graph.add("Transpose", features, perm=[1, 0, 2])
        return graph.linear(frames, "encoder.enter"), lengths
    hidden = graph.add("Unsqueeze", features, graph.constant([1]))  # (B, 1, F, mels)
    for part in ("first", "second"):
        name = f"encoder.front.{part}"
        parameters = [
            graph.constant(graph.weight(f"{name}.{each}"), f"{name}.{each}")
            for each in ("weight", "bias")
        ]
        hidden = graph.add("Conv", hidden, *parameters, strides=[2, 2], pads=[1, 1, 1, 1])
        hidden = graph.add("Relu", hidden)
        lengths = _half(graph, lengths)
        mask = graph.mask(lengths, graph.size(hidden, 2))
        hidden = masked(graph, hidden, mask, [1, 3])
    by_time = graph.add("Transpose", hidden, perm=[2, 0, 1, 3])  # (T, B, C, mels / 4)
    flat = graph.add("Reshape", by_time, graph.constant([0, 0, -1]))
    return graph.linear(flat, "encoder.enter"), lengths


def _layer(graph: Graph, hidden: str, lengths: str, at: int) -> str:
    """x + BiLSTM(LayerNorm(x)) of x (T, B, E)."""
    name = graph.scope = f"encoder.layers.{at}"
    normalised = norm(graph, hidden, f"encoder.norms.{at}")
    return graph.add("Add", hidden, bilstm(graph, name, normalised, lengths))


def _halve(graph: Graph, hidden: str, lengths: str) -> tuple[str, str]:
    """Join each pair of annotations: (T, B, E) → (⌈T/2⌉, B, E)."""
    graph.scope = "encoder.reduce"
    mask = graph.mask(lengths, graph.size(hidden, 0))
    hidden = masked(graph, hidden, graph.add("Transpose", mask, perm=[1, 0]), [2])
    count = graph.add("Shape", hidden, start=0, end=1)
    odd = graph.add("Mod", count, graph.constant([2]))
    before, after = graph.constant([0, 0, 0]), graph.constant([0, 0])
    hidden = graph.add("Pad", hidden, graph.add("Concat", before, odd, after, axis=0))
    rest = graph.add("Shape", hidden, start=1, end=3)
    pairs = graph.add("Concat", graph.constant([-1, 2]), rest, axis=0)
    hidden = graph.add("Reshape", hidden, pairs)  # (⌈T/2⌉, 2, B, E)
    hidden = graph.add("Transpose", hidden, perm=[0, 2, 1, 3])
    joined = graph.add("Reshape", hidden, graph.constant([0, 0, -1]))
    return graph.linear(joined, "encoder.reduce"), _half(graph, lengths)


def _ctc(graph: Graph, values: str, symbols: int) -> str:
    """Return log-probabilities (B, T·subframes, V)."""
    graph.scope = "ctc"
    logits = graph.linear(values, "ctc.output")
    split = graph.add("Reshape", logits, graph.constant([0, -1, symbols]))
    return graph.add("LogSoftmax", split, axis=-1)


def _half(graph: Graph, lengths: str) -> str:
    """⌈lengths / 2⌉."""
    return graph.add("Div", graph.add("Add", lengths, graph.constant([1])), graph.constant([2]))
