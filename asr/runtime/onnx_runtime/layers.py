"""Layers that several graphs have."""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray

from asr.models.settings import DecoderSettings, SpeechSettings, TranslationSettings
from asr.runtime.numpy_runtime.layers import NORM_EPSILON
from asr.runtime.onnx_runtime.graph import Graph, Port, floats, truths


def bilstm(graph: Graph, name: str, values: str, lengths: str) -> str:
    """Return states (T, B, 2H) of both directions of values (T, B, I), 0 beyond lengths (B,).

    Time is the first axis, as the LSTM of ONNX wants it.
    """
    inputs, states, biases = (
        graph.constant(_both_ways(graph, name, *parts), f"{name}.{label}")
        for label, parts in (
            ("weight_ih", ("weight_ih_l0",)),
            ("weight_hh", ("weight_hh_l0",)),
            ("bias", ("bias_ih_l0", "bias_hh_l0")),
        )
    )
    counts = graph.add("Cast", lengths, to=onnx.TensorProto.INT32)
    size = graph.weight(f"{name}.ahead.weight_hh_l0").shape[1]
    found = graph.add(  # (T, 2, B, H)
        "LSTM",
        *(values, inputs, states, biases, counts),
        direction="bidirectional",
        hidden_size=size,
    )
    joined = graph.add("Transpose", found, perm=[0, 2, 1, 3])
    return graph.add("Reshape", joined, graph.constant([0, 0, -1]))


def _both_ways(graph: Graph, name: str, *parts: str) -> NDArray[np.float32]:
    """Return parameters of both directions, (2, …), gates in the order that ONNX wants."""
    ways = []
    for way in ("ahead", "back"):
        ordered = []
        for part in parts:
            entry, forget, candidate, output = np.split(graph.weight(f"{name}.{way}.{part}"), 4)
            ordered.append(np.concatenate([entry, output, forget, candidate]))
        ways.append(np.concatenate(ordered))
    return np.stack(ways)


def norm(graph: Graph, values: str, name: str) -> str:
    """Layer normalisation of values (…, E)."""
    parameters = [
        graph.constant(graph.weight(f"{name}.{part}"), f"{name}.{part}")
        for part in ("weight", "bias")
    ]
    return graph.add("LayerNormalization", values, *parameters, axis=-1, epsilon=NORM_EPSILON)


def masked(graph: Graph, values: str, mask: str, axes: list[int]) -> str:
    """Set values to 0 where a mask of two axes is False; axes: what the mask lacks."""
    numbers = graph.add("Cast", mask, to=onnx.TensorProto.FLOAT)
    return graph.add("Mul", values, graph.add("Unsqueeze", numbers, graph.constant(axes)))


def memory(
    graph: Graph, settings: SpeechSettings | TranslationSettings, values: str, mask: str
) -> dict[str, tuple[str, Port]]:
    """Return the outputs of an encoder that the decoder reads: all but lengths and CTC.

    values: annotations (B, T, E); mask: (B, T).
    """
    graph.scope = "memory"
    width, decoder = 2 * settings.encoder.state_size, settings.decoder
    keys = graph.linear(values, "decoder.attention.key")
    hidden = _first_state(graph, decoder, width, values, mask)
    return {
        "annotations": (values, floats("batch", "annotations", width)),
        "mask": (mask, truths("batch", "annotations")),
        "keys": (keys, floats("batch", "annotations", settings.attention.size)),
        "hidden": (hidden, floats("batch", 1, decoder.state_size)),
    }


def _first_state(graph: Graph, decoder: DecoderSettings, width: int, values: str, mask: str) -> str:
    """Return s₀ (B, 1, H) for annotations (B, T, width); see `asr.models.initial`."""
    if decoder.initial == "zero":
        batch = graph.add("Shape", values, start=0, end=1)
        shape = graph.add("Concat", batch, graph.constant([1, decoder.state_size]), axis=0)
        return graph.add("Expand", graph.constant(np.float32(0)), shape)
    if decoder.initial == "mean":
        counted = graph.add("Cast", mask, to=onnx.TensorProto.FLOAT)
        count = graph.add("ReduceSum", counted, graph.constant([1]), keepdims=1)
        count = graph.add("Max", count, graph.constant(np.float32(1)))
        total = graph.add("ReduceSum", values, graph.constant([1]), keepdims=1)
        summary = graph.add("Div", total, graph.add("Unsqueeze", count, graph.constant([2])))
    else:  # the backward half of the first annotation
        edges = ([0, width // 2], [1, width], [1, 2])
        summary = graph.add("Slice", values, *map(graph.constant, edges))
    return graph.add("Tanh", graph.linear(summary, "decoder.initial"))
