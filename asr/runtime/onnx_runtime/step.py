"""A step of the decoder as an ONNX graph: last tokens and state → log-probabilities, next state."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from asr.models.settings import AttentionSettings, SpeechSettings, TranslationSettings
from asr.runtime.numpy_runtime.layers import Weights
from asr.runtime.onnx_runtime.graph import Graph, floats, integers, truths

Settings = SpeechSettings | TranslationSettings


def step_graph(settings: Settings, weights: Weights, notes: Mapping[str, str]) -> onnx.ModelProto:
    """Return the graph of a decoder step; see docs/export.md for its inputs and outputs."""
    graph = Graph(weights)
    width, size = 2 * settings.encoder.state_size, settings.decoder.state_size
    alignment = _attend(graph, settings.attention)
    graph.scope = "decoder"
    table = graph.constant(graph.weight("decoder.embedding.weight"), "decoder.embedding.weight")
    embedded = graph.add("Gather", table, "tokens")  # (B, N, M)
    context = graph.add("MatMul", alignment, "annotations")  # (B, N, E)
    hidden = _cell(graph, settings, embedded, context)
    log_probs = _read(graph, settings, hidden, embedded, context)
    symbols = len(weights["decoder.embedding.weight"])
    state = floats("batch", "hypotheses", size)
    past = floats("batch", "hypotheses", "annotations")
    inputs = {
        "tokens": integers("batch", "hypotheses"),
        "hidden": state,
        "weights": past,
        "cumulative": past,
        "annotations": floats("batch", "annotations", width),
        "mask": truths("batch", "annotations"),
        "keys": floats("batch", "annotations", settings.attention.size),
    }
    outputs = {
        "log_probs": (log_probs, floats("batch", "hypotheses", symbols)),
        "next_hidden": (hidden, state),
        "next_weights": (alignment, past),
        "next_cumulative": (graph.add("Add", "cumulative", alignment), past),
    }
    return graph.model("step", inputs, outputs, notes)


def _attend(graph: Graph, settings: AttentionSettings) -> str:
    """Return the weights α (B, N, T): softmax of vᵀ tanh(W s + U h + L f)."""
    name = graph.scope = "decoder.attention"
    query = graph.add("Unsqueeze", graph.linear("hidden", f"{name}.query"), graph.constant([2]))
    inner = graph.add("Add", graph.add("Unsqueeze", "keys", graph.constant([1])), query)
    if settings.location_features:
        inner = graph.add("Add", inner, _location_term(graph, settings))  # (B, N, T, A)
    vector = graph.weight(f"{name}.energy") / np.float32(settings.temperature)
    energy = graph.constant(vector[:, None], f"{name}.energy")
    energies = graph.add("MatMul", graph.add("Tanh", inner), energy)
    energies = graph.add("Squeeze", energies, graph.constant([-1]))
    allowed = graph.add("Unsqueeze", "mask", graph.constant([1]))
    lowest = graph.constant(np.finfo(np.float32).min, "lowest")
    weights = graph.add("Softmax", graph.add("Where", allowed, energies, lowest), axis=-1)
    # Where nothing is allowed, all weights are 0.
    return graph.add("Mul", weights, graph.add("Cast", allowed, to=onnx.TensorProto.FLOAT))


def _location_term(graph: Graph, settings: AttentionSettings) -> str:
    """L f of the past weights, (B, N, T, A); f is a convolution over time."""
    name = "decoder.attention.location"
    past = [graph.add("Unsqueeze", each, graph.constant([1])) for each in ("weights", "cumulative")]
    channels = graph.add("Concat", *past, axis=1)  # (B, 2, N, T)
    spread = graph.weight(f"{name}.0.weight")[:, :, None]  # (F, 2, 1, width)
    reach = settings.location_width // 2
    found = graph.add(
        "Conv", channels, graph.constant(spread, f"{name}.0.weight"), pads=[0, reach, 0, reach]
    )
    features = graph.add("Transpose", found, perm=[0, 2, 3, 1])  # (B, N, T, F)
    project = graph.weight(f"{name}.1.weight")[..., 0].T  # (F, A)
    return graph.add("MatMul", features, graph.constant(project, f"{name}.1.weight"))


def _cell(graph: Graph, settings: Settings, embedded: str, context: str) -> str:
    """Return the next state of the GRU, (B, N, H); see `asr.models.cells.gru`."""
    new = graph.linear(context, "decoder.context_gates")
    if settings.decoder.token_to_cell:
        new = graph.add("Add", new, graph.linear(embedded, "decoder.token_gates"))
    old = graph.linear("hidden", "decoder.state_gates")
    size = settings.decoder.state_size

    def gate(values: str, at: int) -> str:
        return graph.columns(values, at * size, (at + 1) * size)

    reset, update = (
        graph.add("Sigmoid", graph.add("Add", gate(new, at), gate(old, at))) for at in (0, 1)
    )
    kept = graph.add("Mul", reset, gate(old, 2))
    candidate = graph.add("Tanh", graph.add("Add", gate(new, 2), kept))
    change = graph.add("Mul", update, graph.add("Sub", "hidden", candidate))
    return graph.add("Add", candidate, change)


def _read(graph: Graph, settings: Settings, hidden: str, embedded: str, context: str) -> str:
    """Return log-probabilities (B, N, V) of state, last token and context."""
    decoder = settings.decoder
    parts = [hidden]
    parts += [embedded] * decoder.readout_token
    parts += [context] * decoder.readout_context
    given = parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=2)
    readout = graph.linear(given, "decoder.readout")
    if decoder.readout == "maxout":
        pairs = graph.add("Reshape", readout, graph.constant([0, 0, -1, 2]))
        readout = graph.add("ReduceMax", pairs, axes=[3], keepdims=0)
    else:
        readout = graph.add("Tanh", readout)
    if not decoder.tied:
        return graph.add("LogSoftmax", graph.linear(readout, "decoder.output"), axis=-1)
    name = "decoder.embedding.weight"  # the same constant as that of the embedding
    table = graph.add("Transpose", graph.constant(graph.weight(name), name), perm=[1, 0])
    bias = graph.constant(graph.weight("decoder.output.bias"), "decoder.output.bias")
    return graph.add(
        "LogSoftmax", graph.add("Add", graph.add("MatMul", readout, table), bias), axis=-1
    )
