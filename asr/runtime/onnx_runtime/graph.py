"""A graph of ONNX operators under construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper

from asr.runtime.numpy_runtime.layers import Weights
from asr.weights import SCALE

OPSET = 17  # the first with LayerNormalization; onnxruntime reads it since 1.12
IR_VERSION = 8  # of the file, that of opset 17
LEAST = 4096  # numbers of a constant that is stored in fewer bits
LEAST_OF_A_FACTOR = 16  # numbers that share a factor

Attribute = int | float | str | Sequence[int]


class Port(NamedTuple):
    """An input or output of a graph: kind of its numbers, and sizes; a name is a free size."""

    kind: int
    sizes: tuple[str | int, ...]


def floats(*sizes: str | int) -> Port:
    """Return a port of float32 numbers."""
    return Port(TensorProto.FLOAT, sizes)


def integers(*sizes: str | int) -> Port:
    """Return a port of int64 numbers."""
    return Port(TensorProto.INT64, sizes)


def truths(*sizes: str | int) -> Port:
    """Return a port of bool."""
    return Port(TensorProto.BOOL, sizes)


class Graph:
    """Operators, joined by the names of their results; weights keep the names of the model folder.

    A result is named after its scope and operator, such as "encoder.layers.0/LSTM_27".
    """

    def __init__(self, weights: Weights) -> None:
        """Take the weights of a model folder."""
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, NDArray[np.generic]] = {}
        self.scope = ""

    def add(self, kind: str, *inputs: str, **attributes: Attribute) -> str:
        """Add an operator with one result, which is named in return."""
        name = f"{self.scope}/{kind}_{len(self._nodes)}"
        node = helper.make_node(kind, inputs, [name], name)
        node.attribute.extend(
            helper.make_attribute(each, value) for each, value in attributes.items()
        )
        self._nodes.append(node)
        return name

    def weight(self, name: str) -> NDArray[np.float32]:
        """Return a weight of the model folder, in float32."""
        return np.asarray(self._weights[name], np.float32)

    def stored(self, name: str) -> NDArray[np.generic]:
        """Return a weight as it is stored."""
        return np.asarray(self._weights[name])

    def has(self, name: str) -> bool:
        """Return whether the model folder has a weight."""
        return name in self._weights

    def constant(self, value: ArrayLike, name: str = "") -> str:
        """Add a constant, and return its name. Numbers without a name are shared."""
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = name or f"{array.dtype}{array.tolist()}"
        self._constants[name] = np.ascontiguousarray(array)
        return name

    def linear(self, values: str, name: str) -> str:
        """Multiply (…, I) by the matrix of a layer, and add its bias, if it has one."""
        matrix = self.constant(self.weight(f"{name}.weight").T, f"{name}.weight")
        product = self.add("MatMul", values, matrix)
        if not self.has(f"{name}.bias"):
            return product
        return self.add("Add", product, self.constant(self.weight(f"{name}.bias"), f"{name}.bias"))

    def columns(self, values: str, first: int, after: int) -> str:
        """Return the columns first … after − 1 on the last axis of values."""
        edges = ([first], [after], [-1])
        return self.add("Slice", values, *map(self.constant, edges))

    def size(self, values: str, axis: int) -> str:
        """Return one size of a result, a scalar."""
        shape = self.add("Shape", values, start=axis, end=axis + 1)
        return self.add("Squeeze", shape, self.constant([0]))

    def mask(self, lengths: str, longest: str) -> str:
        """Return (B, longest) bool, True inside each length of lengths (B,)."""
        places = self.add("Range", self.constant(0), longest, self.constant(1))
        return self.add("Less", places, self.add("Unsqueeze", lengths, self.constant([1])))

    def model(
        self,
        name: str,
        inputs: Mapping[str, Port],
        outputs: Mapping[str, tuple[str, Port]],
        notes: Mapping[str, str],
    ) -> onnx.ModelProto:
        """Return the finished graph; outputs: name → (result, its sizes). notes: its metadata.

        Raises:
            onnx.checker.ValidationError: the graph is not valid.
        """
        ends = [
            helper.make_node("Identity", [result], [output], output)
            for output, (result, _) in outputs.items()
        ]
        graph = helper.make_graph(
            [*self._nodes, *ends],
            name,
            [_info(each, port) for each, port in inputs.items()],
            [_info(each, port) for each, (_, port) in outputs.items()],
            [numpy_helper.from_array(each, at) for at, each in self._constants.items()],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        helper.set_model_props(model, dict(notes))
        onnx.checker.check_model(model, full_check=True)
        return model


def as_stored(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a graph whose constants are in 8 or 16 bits wherever they fit into these.

    Weights that the model folder has in these bits are therefore as small here. In 8 bits a matrix
    is whole numbers times a factor for each row or each column. The operators Cast and Mul make it
    float32 again; onnxruntime computes them once, when it loads the graph.
    """
    kept: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []
    for each in model.graph.initializer:
        value = numpy_helper.to_array(each)
        parts = _smaller(value) if value.dtype == np.float32 and value.size >= LEAST else None
        if parts is None:
            kept.append(each)
            continue
        names = [f"{each.name}.stored", f"{each.name}{SCALE}"][: len(parts)]
        kept += [numpy_helper.from_array(*pair) for pair in zip(parts, names, strict=True)]
        single = each.name if len(parts) == 1 else f"{each.name}.unscaled"
        nodes.append(helper.make_node("Cast", names[:1], [single], single, to=TensorProto.FLOAT))
        if len(parts) == 2:
            nodes.append(helper.make_node("Mul", [single, names[1]], [each.name], each.name))
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.initializer[:], found.graph.node[:]
    found.graph.initializer.extend(kept)
    found.graph.node.extend([*nodes, *model.graph.node])
    onnx.checker.check_model(found, full_check=True)
    return found


def _smaller(value: NDArray[np.float32]) -> tuple[NDArray[Any], ...] | None:
    """Return float16 equal to value; or int8 (…, R, C) and its factors (…, R, 1) or (…, 1, C).

    None if it is neither.
    """
    with np.errstate(over="ignore"):
        half = value.astype(np.float16)
    if (half == value).all():
        return (half,)
    for axis in (-1, -2):
        if value.ndim < 2 or value.shape[axis] < LEAST_OF_A_FACTOR:
            continue
        factors = np.abs(value).max(axis, keepdims=True) / np.float32(127)
        np.maximum(factors, np.finfo(np.float32).tiny, out=factors)
        numbers = np.round(value / factors)
        if np.allclose(numbers * factors, value, rtol=1e-6, atol=0):
            return numbers.astype(np.int8), factors
    return None


def _info(name: str, port: Port) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, port.kind, port.sizes)
