"""The encoder of a translation model as an ONNX graph: tokens → annotations, keys, first state."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from asr.models.settings import TranslationSettings
from asr.runtime.numpy_runtime.layers import Weights
from asr.runtime.onnx_runtime.graph import Graph, integers
from asr.runtime.onnx_runtime.layers import bilstm, memory


def text_encoder_graph(
    settings: TranslationSettings, weights: Weights, notes: Mapping[str, str]
) -> onnx.ModelProto:
    """Return the graph of an encoder; see docs/export.md for its inputs and outputs."""
    graph = Graph(weights)
    graph.scope = "encoder"
    owner = "decoder" if settings.joint_embedding else "encoder"
    name = f"{owner}.embedding.weight"
    embedded = graph.add("Gather", graph.constant(graph.weight(name), name), "tokens")
    by_time = graph.add("Transpose", embedded, perm=[1, 0, 2])  # (T, B, M)
    hidden = bilstm(graph, "encoder.first", by_time, "lengths")
    for at in range(settings.encoder.layers - 1):
        graph.scope = f"encoder.rest.{at}"
        hidden = graph.add("Add", hidden, bilstm(graph, graph.scope, hidden, "lengths"))
    values = graph.add("Transpose", hidden, perm=[1, 0, 2])
    mask = graph.mask("lengths", graph.size("tokens", 1))
    outputs = memory(graph, settings, values, mask)
    inputs = {"tokens": integers("batch", "annotations"), "lengths": integers("batch")}
    return graph.model("encoder", inputs, outputs, notes)
