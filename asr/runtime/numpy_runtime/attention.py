"""Additive attention with location features and a window in NumPy, one step at a time."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from asr.activations import softmax
from asr.alignment.window import check_window, distances
from asr.models.settings import AttentionSettings
from asr.runtime.numpy_runtime.layers import Array, Linear, Weights


class Memory(NamedTuple):
    """As `asr.attention.contract.Memory`: values (B, T, E), mask (B, T), keys (B, T, A)."""

    values: Array
    mask: NDArray[np.bool_]
    keys: Array


class Alignment(NamedTuple):
    """As `asr.attention.contract.Alignment`: weights and cumulative, (B, N, T)."""

    weights: Array
    cumulative: Array


class Group(NamedTuple):
    """Hypotheses whose attention is computed at once: one of each utterance, or several of one.

    utterances, slots: of the batch. rows: among the F hypotheses that are computed. shape: (b, n).
    length: annotations up to the last one that is allowed.
    """

    utterances: slice
    slots: slice | NDArray[np.int64]
    rows: slice
    shape: tuple[int, int]
    length: int


def groups_of(alive: NDArray[np.bool_], memory: Memory) -> list[Group]:
    """Return the groups of the hypotheses alive (B, N), whose rows are in their order.

    The arrays of a group are small enough for the processor's cache, those of a batch are not.
    """
    batch, slots = alive.shape
    ends = (memory.mask * np.arange(1, memory.mask.shape[1] + 1)).max(1, initial=0).tolist()
    if slots == 1 and alive.all():
        every = slice(None)
        return [Group(every, every, every, (batch, 1), max(ends, default=0))]
    groups, start = [], 0
    for at, count in enumerate(alive.sum(1).tolist()):
        if count:
            some = slice(None) if count == slots else np.flatnonzero(alive[at])
            rows = slice(start, start + count)
            groups.append(Group(slice(at, at + 1), some, rows, (1, count), ends[at]))
            start += count
    return groups


class NumpyAttention:
    """`asr.attention.additive.AdditiveAttention` with the softmax normaliser."""

    def __init__(self, weights: Weights, settings: AttentionSettings) -> None:
        """Take the weights of "decoder.attention" of a model folder."""
        name = "decoder.attention"
        check_window(settings)
        self.settings = settings
        self._key = Linear.of(weights, f"{name}.key")
        self.query = Linear.of(weights, f"{name}.query").matrix  # (H, A)
        self._energy: Array = np.asarray(weights[f"{name}.energy"], np.float32)
        self._spread: Array | None = None
        if settings.location_features:
            spread = np.asarray(weights[f"{name}.location.0.weight"], np.float32)  # (F, 2, width)
            project = np.asarray(weights[f"{name}.location.1.weight"], np.float32)[..., 0]  # (A, F)
            self._spread = np.ascontiguousarray(spread.reshape(len(spread), -1).T)
            self._project: Array = np.ascontiguousarray(2 * project.T)

    def windowed(self, settings: AttentionSettings) -> NumpyAttention:
        """Return the same weights with the window of other settings.

        Raises:
            ValueError: it extends to one side only.
        """
        check_window(settings)
        twin = copy.copy(self)
        twin.settings = settings
        return twin

    def prepare(self, values: Array, mask: NDArray[np.bool_]) -> Memory:
        """Make the keys of annotations (B, T, E)."""
        return Memory(values, mask, self._key(values))

    def start(self, memory: Memory) -> Alignment:
        """Return the alignment before the first step, (B, 1, T) zeros."""
        zeros = np.zeros((len(memory.mask), 1, memory.mask.shape[1]), np.float32)
        return Alignment(zeros, zeros)

    def __call__(
        self, query: Array, memory: Memory, previous: Alignment, groups: Sequence[Group]
    ) -> Alignment:
        """Attend: W s of F hypotheses (F, A) → the alignment of this step; arbitrary for others.

        groups: whose hypotheses they are, in order. The caller makes the context.
        """
        if memory.mask.shape[1] == 1:  # one annotation has all the weight
            weights = np.zeros(previous.weights.shape, np.float32)
            weights += memory.mask[:, None]
            return Alignment(weights, previous.cumulative + weights)
        energies = np.zeros(previous.weights.shape, np.float32)  # (B, N, T)
        for group in groups:
            asked = query[group.rows].reshape(*group.shape, -1)
            past = (each[group.utterances, group.slots, : group.length] for each in previous)
            keys = memory.keys[group.utterances, : group.length]
            found = self._energies(asked, keys, Alignment(*past))
            energies[group.utterances, group.slots, : group.length] = found
        allowed = memory.mask[:, None, :]
        if self.settings.has_window:
            energies, allowed = self._windowed(energies, allowed, previous)
        if self.settings.temperature != 1:
            energies /= np.float32(self.settings.temperature)
        weights = _masked_softmax(energies, allowed)
        return Alignment(weights, previous.cumulative + weights)

    def _energies(self, query: Array, keys: Array, past: Alignment) -> Array:
        """Return energies (b, n, T): query (b, n, A), keys (b, T, A), past (b, n, T)."""
        # tanh(x) = 1 − 2 / (1 + e ** 2x), by the exponential, which is the faster one of NumPy's.
        double = np.float32(2)
        if self._spread is None:
            hidden = (double * keys)[:, None] + double * query[:, :, None]  # (b, n, T, A)
        else:
            hidden = self._location_term(past)
            hidden += (double * keys)[:, None]
            hidden += double * query[:, :, None]
        with np.errstate(over="ignore"):  # 1 / (1 + ∞) = 0 is right
            np.exp(hidden, out=hidden)
        hidden += np.float32(1)
        np.divide(np.float32(1), hidden, out=hidden)
        rows: Array = np.matmul(hidden.reshape(-1, hidden.shape[-1]), self._energy)
        energies: Array = self._energy.sum() - double * rows
        return energies.reshape(hidden.shape[:-1])

    def _location_term(self, past: Alignment) -> Array:
        """2 L f_j from past weights: (b, n, T, A)."""
        assert self._spread is not None
        width = len(self._spread) // 2
        batch, hypotheses, length = past.weights.shape
        padded = np.zeros((batch, hypotheses, 2, length + width - 1), np.float32)
        for channel, values in enumerate(past):
            padded[:, :, channel, width // 2 : width // 2 + length] = values
        # A view of all windows, as of `sliding_window_view`, which takes longer than the products.
        *outer, channels, places = padded.strides
        windows: Array = np.ndarray(
            (batch, hypotheses, length, 2, width),
            padded.dtype,
            padded,
            strides=(*outer, places, channels, places),
        )
        features = np.matmul(windows.reshape(-1, 2 * width), self._spread)
        term: Array = np.matmul(features, self._project)
        return term.reshape(batch, hypotheses, length, self._project.shape[1])

    def _windowed(
        self, energies: Array, allowed: NDArray[np.bool_], previous: Alignment
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Restrict energies to the window; see `asr.attention.masks.Window.apply`."""
        settings = self.settings
        distance = distances(previous.weights, settings.window_centre)
        if settings.window_stride:
            distance[..., :: settings.window_stride] = 0
        back, ahead = settings.window_back, settings.window_ahead
        if settings.window_soft:
            deviation = np.where(distance < 0, np.float32(back / 2), np.float32(ahead / 2))
            squares: Array = np.square(distance / deviation).astype(np.float32)
            return energies - squares / np.float32(2), allowed
        inside = allowed & (distance >= -back) & (distance <= ahead)
        kept: NDArray[np.bool_] = np.where(inside.any(-1, keepdims=True), inside, allowed)
        return energies, kept


def _masked_softmax(energies: Array, allowed: NDArray[np.bool_]) -> Array:
    """Return the softmax over the allowed positions; 0 elsewhere, and 0 if none is allowed."""
    lowest = np.finfo(np.float32).min
    weights = softmax(np.where(allowed, energies, lowest))
    weights *= allowed
    return weights
