"""CUDA graphs of the fused loop: a GPU starts the kernels of all steps together.

A step of the decoder has dozens of small kernels, and to start one from Python takes several times
as long as the kernel itself. A graph of all steps is recorded for batches of a size, and replayed
for the next ones. So that sizes recur, batches are padded to multiples; this changes no result:
annotations in the padding have no weight, and steps in the padding follow all others and have no
gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from asr.models.fused.steps import StepsBackward, forward_steps
from asr.models.fused.tensors import Inputs, Options, Weights

Result = TypeVar("Result")
Outputs = tuple[Tensor, Tensor, Tensor]

BATCH_MULTIPLE = 8
LENGTH_MULTIPLE = 32  # of steps, and of annotations
SHARE = 0.3  # of the GPU's memory, for the graphs of all sizes, unless it proves too much


class Sizes(NamedTuple):
    """Steps U, utterances B and annotations T."""

    steps: int
    batch: int
    length: int

    @classmethod
    def of(cls, inputs: Inputs) -> Sizes:
        """Return the sizes of a batch."""
        return cls(inputs.token_gates.size(0), len(inputs.start), inputs.values.size(1))

    def padded(self) -> Sizes:
        """Return the sizes of the graph that a batch fits."""
        multiples = (LENGTH_MULTIPLE, BATCH_MULTIPLE, LENGTH_MULTIPLE)
        return Sizes(*(-(-size // each) * each for size, each in zip(self, multiples, strict=True)))


class Graphs:
    """The graphs of all sizes that recur; the oldest are dropped if they take too much memory."""

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()
        self._graphs: dict[Hashable, LoopGraph] = {}
        self._share = SHARE

    def find(self, inputs: Inputs, weights: Weights, options: Options) -> LoopGraph | None:
        """Return the graph for a batch; None without a GPU, for a window, and for a new size."""
        device = inputs.start.device
        # Without location features, and with a window, the loop waits for numbers from the GPU.
        if device.type != "cuda" or options.window is not None or weights.spread is None:
            return None
        sizes = Sizes.of(inputs).padded()
        widths = tuple(None if each is None else (each.shape, each.dtype) for each in weights)
        key = (sizes, widths, options, device, inputs.values.size(2))
        graph = self._graphs.get(key)
        if graph is None and key in self._seen:
            graph = self._record(key, sizes, inputs, weights, options)
        self._seen.add(key)
        return graph

    def release(self) -> bool:
        """Drop all graphs, and keep half as many from now on; False if there are none."""
        if not self._graphs:
            return False
        self._graphs.clear()
        self._share /= 2
        return True

    def _record(
        self, key: Hashable, sizes: Sizes, inputs: Inputs, weights: Weights, options: Options
    ) -> LoopGraph:
        device = inputs.start.device
        limit = self._share * torch.cuda.get_device_properties(device).total_memory
        while sum(each.memory for each in self._graphs.values()) > limit:
            del self._graphs[next(iter(self._graphs))]
        before = torch.cuda.memory_reserved(device)
        self._graphs[key] = graph = LoopGraph(sizes, inputs, weights, options)
        graph.memory = torch.cuda.memory_reserved(device) - before
        return graph


class LoopGraph:
    """The forward and the backward pass for batches of at most some sizes.

    On a CPU, which has no graphs, it computes the same in the ordinary way (for tests).
    """

    def __init__(self, sizes: Sizes, inputs: Inputs, weights: Weights, options: Options) -> None:
        """Record both passes; inputs and weights: of a first batch."""
        steps, batch, length = sizes
        self.runs = 0  # forward passes so far
        self.memory = 0  # bytes
        self._inputs = Inputs(
            token_gates=inputs.token_gates.new_zeros(steps, batch, inputs.token_gates.size(2)),
            start=inputs.start.new_zeros(batch, inputs.start.size(1)),
            values=inputs.values.new_zeros(batch, length, inputs.values.size(2)),
            keys=inputs.keys.new_zeros(batch, length, inputs.keys.size(2)),
            mask=torch.zeros(batch, length, dtype=torch.bool, device=inputs.start.device),
        )
        self._weights = Weights._make(
            None if each is None else torch.empty_like(each).contiguous() for each in weights
        )
        self._load(inputs, weights)
        record = _recorded if inputs.start.is_cuda else _as_it_is
        self._forward = record(lambda: forward_steps(self._inputs, self._weights, options))
        self._trace = self._forward()
        self._d_outputs = tuple(torch.zeros_like(each) for each in self._outputs())
        self._backward = record(lambda: self._gradients(options))

    def forward(self, inputs: Inputs, weights: Weights) -> Outputs:
        """Return s_1 … s_U, c_1 … c_U and α_1 … α_U of a batch, each (U, B, ·)."""
        self.runs += 1
        self._load(inputs, weights)
        self._trace = self._forward()
        steps, batch, length = Sizes.of(inputs)
        states, contexts, alphas = (each[:steps, :batch] for each in self._outputs())
        return states.clone(), contexts.clone(), alphas[:, :, :length].clone()

    def backward(self, d_outputs: Outputs) -> tuple[Inputs, Weights]:
        """Return the gradients of inputs and weights for the batch of the last `forward`."""
        for mine, given in zip(self._d_outputs, d_outputs, strict=True):
            mine.zero_()
            mine[tuple(slice(size) for size in given.shape)] = given
        d_inputs, d_weights = self._backward()
        (steps, batch), length = d_outputs[0].shape[:2], d_outputs[2].size(2)
        return (
            Inputs(
                token_gates=d_inputs.token_gates[:steps, :batch].clone(),
                start=d_inputs.start[:batch].clone(),
                values=d_inputs.values[:batch, :length].clone(),
                keys=d_inputs.keys[:batch, :length].clone(),
                mask=None,
            ),
            Weights._make(None if each is None else each.clone() for each in d_weights),
        )

    def _load(self, inputs: Inputs, weights: Weights) -> None:
        """Copy a batch to where the graph reads it, with 0 in the padding, where 0 · NaN is NaN."""
        for each in self._inputs:
            if each is not None:
                each.zero_()
        mask = self._inputs.mask
        assert mask is not None
        mask[len(inputs.start) :, 0] = True  # no utterance may be without annotations
        for mine, given in zip((*self._inputs, *self._weights), (*inputs, *weights), strict=True):
            if mine is not None and given is not None:
                mine[tuple(slice(size) for size in given.shape)] = given

    def _outputs(self) -> Outputs:
        trace = self._trace
        return trace.states[1:], trace.contexts, trace.weights(self._inputs.values.size(1))[1:]

    def _gradients(self, options: Options) -> tuple[Inputs, Weights]:
        # The token gates of a batch are part of the gates of its trace.
        inputs = self._inputs._replace(token_gates=self._trace.gates)
        steps = StepsBackward(inputs, self._weights, self._trace, options)
        d_start = steps.run(*self._d_outputs)
        return steps.input_gradients(d_start), steps.weight_gradients()


def _recorded(function: Callable[[], Result]) -> Callable[[], Result]:
    """Record the kernels of a function in a graph; return what replays it."""
    graph: Any = torch.cuda.CUDAGraph()
    # Other threads may use the GPU meanwhile, such as the one that pins memory.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = function()

    def replay() -> Result:
        graph.replay()
        return result

    return replay


def _as_it_is(function: Callable[[], Result]) -> Callable[[], Result]:
    return function


GRAPHS = Graphs()
