"""A step of a recurrent language model as an ONNX graph: last words → probabilities of the next.

The model is that of `asr.models.language`: an LSTM and an adaptive softmax (Grave et al. 2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import onnx

from asr.lm.recurrent import EMBEDDING
from asr.models.settings import LanguageSettings
from asr.runtime.onnx_runtime.graph import Graph, floats, integers
from asr.weights import SCALE, StoredWeights


def words_graph(
    settings: LanguageSettings, weights: StoredWeights, notes: Mapping[str, str]
) -> onnx.ModelProto:
    """Return the graph of a step; see docs/export.md for its inputs and outputs.

    weights: with the embedding as it is stored; one in 8 bits stays in 8 bits.
    """
    graph = Graph(weights)
    output, cell = _cell(graph, settings.state_size, _embedded(graph))
    probabilities, words = _softmax(graph, output)
    state = floats("texts", settings.state_size)
    inputs = {"words": integers("texts"), "output": state, "cell": state}
    outputs = {
        "probabilities": (probabilities, floats("texts", words)),
        "next_output": (output, state),
        "next_cell": (cell, state),
    }
    return graph.model("words", inputs, outputs, notes)


def _embedded(graph: Graph) -> str:
    """Return the embeddings (n, M) of the words (n,)."""
    graph.scope = "embedding"
    if not graph.has(EMBEDDING + SCALE):
        return graph.add("Gather", graph.constant(graph.weight(EMBEDDING), EMBEDDING), "words")
    numbers = graph.add("Gather", graph.constant(graph.stored(EMBEDDING), EMBEDDING), "words")
    numbers = graph.add("Cast", numbers, to=onnx.TensorProto.FLOAT)
    scale = graph.constant(graph.weight(EMBEDDING + SCALE)[:, None], EMBEDDING + SCALE)
    return graph.add("Mul", numbers, graph.add("Gather", scale, "words"))


def _cell(graph: Graph, size: int, embedded: str) -> tuple[str, str]:
    """Return output and cell (n, H) of the LSTM after a word."""
    graph.scope = "cell"
    parts = [
        graph.constant(graph.weight(name).T, name)
        for name in ("cell.weight_ih_l0", "cell.weight_hh_l0")
    ]
    matrix = graph.add("Concat", *parts, axis=0)  # (M + H, 4H)
    biases = [graph.weight(f"cell.bias_{part}_l0") for part in ("ih", "hh")]
    joined = graph.add("Concat", embedded, "output", axis=1)
    sums = graph.add("MatMul", joined, matrix)
    sums = graph.add("Add", sums, graph.constant(biases[0] + biases[1], "cell.bias"))
    edges = pairwise(range(0, 5 * size, size))
    entry, forget, candidate, output = (graph.columns(sums, *each) for each in edges)
    kept = graph.add("Mul", graph.add("Sigmoid", forget), "cell")
    new = graph.add("Mul", graph.add("Sigmoid", entry), graph.add("Tanh", candidate))
    cell = graph.add("Add", kept, new)
    return graph.add("Mul", graph.add("Sigmoid", output), graph.add("Tanh", cell)), cell


def _softmax(graph: Graph, output: str) -> tuple[str, int]:
    """Return the probabilities (n, V) of the next words, and V."""
    graph.scope = "vector"
    vectors = graph.add("Tanh", graph.linear(output, "vector"))
    graph.scope = "first"
    first = graph.add("Softmax", graph.linear(vectors, "first"), axis=-1)
    groups = 0
    while graph.has(f"rarer.{groups}.1.weight"):
        groups += 1
    frequent = len(graph.weight("first.bias")) - groups  # words of the first softmax
    parts, words = [graph.columns(first, 0, frequent)], frequent
    for at in range(groups):
        share = graph.columns(first, frequent + at, frequent + at + 1)
        graph.scope = f"rarer.{at}"
        reduced = graph.linear(vectors, f"rarer.{at}.0")
        own = graph.add("Softmax", graph.linear(reduced, f"rarer.{at}.1"), axis=-1)
        parts.append(graph.add("Mul", own, share))
        words += len(graph.weight(f"rarer.{at}.1.bias"))
    return graph.add("Concat", *parts, axis=1), words
