"""The encoder of Whisper in torch: a padded batch of samples → frames, on any device.

The weights are those that CTranslate2 runs (`asr.models.encoders.public`), here in 32 bits.
Whisper: Radford et al. 2022, arXiv:2212.04356.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from asr.audio.mel import mel_filters
from asr.audio.read import SAMPLE_RATE
from asr.errors import UserError
from asr.models.encoders.public import (
    LONGEST_PART,
    SAMPLES_PER_FRAME,
    SILENT_FRAMES,
)
from asr.models.encoders.public_weights import checked_weights, known_encoder

WINDOW = 400  # samples
HOP = 160
MELS_PER_FRAME = SAMPLES_PER_FRAME // HOP
HEAD_SIZE = 64  # of every Whisper model

SPECIFICATION = "WhisperSpec"
LAYOUTS = (4, 5, 6)  # versions of CTranslate2's file that have this layout
TYPES = ("<f4", "|i1", "<i2", "<i4", "<f2")  # by their number in the file
PREFIX = "encoder/"

Variables = dict[str, NDArray[Any]]


def read_encoder(path: Path) -> Variables:
    """Read the encoder's variables, by their names, from a Whisper model of CTranslate2.

    Raises:
        UserError: the file is damaged, not complete or of another kind.
    """
    with path.open("rb") as file:
        try:
            return _variables(file, os.fstat(file.fileno()).st_size)
        except _Damaged as error:
            raise UserError(f"{path}: not a Whisper model of CTranslate2: {error}") from error


class _Damaged(ValueError):
    """What is wrong with a file."""


def _variables(file: BinaryIO, size: int) -> Variables:
    version = _number(file, "I")
    if version not in LAYOUTS:
        raise _Damaged(f"version {version}, wanted {LAYOUTS[0]} to {LAYOUTS[-1]}")
    if (found := _name(file)) != SPECIFICATION:
        raise _Damaged(f"{found!r}, wanted {SPECIFICATION!r}")
    _number(file, "I")  # revision of the specification
    variables: Variables = {}
    for _ in range(_number(file, "I")):
        name = _name(file)
        shape = [_number(file, "I") for _ in range(_number(file, "B"))]
        kind = _number(file, "B")
        length = _number(file, "I")
        if file.tell() + length > size:
            raise _Damaged(f"it ends within {name}")
        if name.startswith(PREFIX):
            variables[name] = _array(_bytes(file, length), name, shape, kind)
        else:
            file.seek(length, os.SEEK_CUR)
    for _ in range(_number(file, "I")):  # other names of variables
        _name(file), _name(file)
    if file.tell() != size:
        raise _Damaged(f"{size - file.tell()} bytes follow its end")
    return variables


def _bytes(file: BinaryIO, length: int) -> bytes:
    content = file.read(length)
    if len(content) < length:
        raise _Damaged("it ends too early")
    return content


def _number(file: BinaryIO, code: str) -> int:
    """Read an unsigned integer; code: its letter in `struct`."""
    code = "<" + code
    number: int = struct.unpack(code, _bytes(file, struct.calcsize(code)))[0]
    return number


def _name(file: BinaryIO) -> str:
    content = _bytes(file, _number(file, "H"))
    if not content.endswith(b"\0") or not content.isascii():
        raise _Damaged(f"a name is damaged before byte {file.tell()}")
    return content[:-1].decode("ascii")


def _array(content: bytes, name: str, shape: list[int], kind: int) -> NDArray[Any]:
    if kind >= len(TYPES):
        raise _Damaged(f"{name} is of the unknown type {kind}")
    dtype = np.dtype(TYPES[kind])
    if len(content) != math.prod(shape) * dtype.itemsize:
        raise _Damaged(f"{name} of shape {shape} has {len(content)} bytes")
    return np.frombuffer(content, dtype).reshape(shape)


def load_whisper(name: str, path: Path | None = None) -> WhisperEncoder:
    """Open a public encoder in torch, on the CPU; the arguments are those of `load_public`.

    Raises:
        UserError: the name is unknown, the weights are not installed, or are others.
    """
    folder, _ = checked_weights(name, path)
    return WhisperEncoder(read_encoder(folder / known_encoder(name).weights))


class WhisperEncoder(nn.Module):
    """Samples (B, S) → frames (B, T, size) every 40 ms, as `PublicEncoder` computes them.

    It has no parameters and nothing to save: its weights are buffers, which move with the module
    but are not in `state_dict`.
    """

    def __init__(self, variables: Mapping[str, NDArray[Any]]) -> None:
        """Take variables, by their names, as `read_encoder` returns them."""
        super().__init__()
        for name, values in variables.items():
            if values.dtype.kind == "f":
                weights = torch.from_numpy(values.astype(np.float32))
                self.register_buffer(name.removeprefix(PREFIX), weights, persistent=False)
        self.size = len(self._weights("conv1/bias"))
        self.heads = self.size // HEAD_SIZE
        self.layers = sum(name.endswith("ffn/linear_0/bias") for name in variables)
        filters = mel_filters(SAMPLE_RATE, WINDOW, self._weights("conv1/weight").size(1))
        self.register_buffer("filters", torch.from_numpy(filters), persistent=False)
        self.register_buffer("window", torch.hann_window(WINDOW), persistent=False)
        self.eval()

    @torch.no_grad()
    def forward(self, samples: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encode a padded batch; each utterance as if it were alone.

        The features are computed in 32 bits; autocast applies to the rest.

        Args:
            samples: (B, S) at 16 kHz; beyond its length an utterance is ignored.
            lengths: (B,) in samples, at most 29 s.

        Returns:
            Frames (B, T, size) float32, 0 beyond the number of frames (B,), which is the second
            result.

        Raises:
            ValueError: an utterance is longer than 29 s.
        """
        lengths = lengths.to(samples.device)
        counts = (lengths + SAMPLES_PER_FRAME - 1).div(SAMPLES_PER_FRAME, rounding_mode="floor")
        longest = int(counts.max())
        if longest > LONGEST_PART:
            seconds = int(lengths.max()) / SAMPLE_RATE
            raise ValueError(f"wanted utterances of at most 29 s, got one of {seconds:.2f} s")
        total = longest + SILENT_FRAMES
        padded = functional.pad(samples.float(), (0, total * SAMPLES_PER_FRAME - samples.size(1)))
        padded = padded.masked_fill(~_within(padded.size(1), lengths), 0.0)
        mel = self._mel(padded)  # (B, mels, n)
        silent = counts + SILENT_FRAMES
        mel = mel.masked_fill(~_within(mel.size(2), silent * MELS_PER_FRAME)[:, None], 0.0)
        # The last frame of 20 ms of an utterance is computed from outputs of the first convolution
        # up to its own end, so those beyond it need not be set to zero.
        hidden = self._convolved(self._convolved(mel, "conv1", 1), "conv2", 2).mT  # (B, n / 2, E)
        hidden = hidden + self._weights("position_encodings/encodings")[: hidden.size(1)]
        keys = _within(hidden.size(1), 2 * silent)[:, None, None]
        for layer in range(self.layers):
            hidden = hidden + self._attended(hidden, f"layer_{layer}/self_attention", keys)
            hidden = hidden + self._fed_forward(hidden, f"layer_{layer}/ffn")
        halves = self._normalised(hidden, "layer_norm").float()
        frames = halves.unflatten(1, (total, 2)).mean(2)[:, :longest]
        return frames.masked_fill(~_within(longest, counts)[:, :, None], 0.0), counts

    def _weights(self, name: str) -> Tensor:
        return self.get_buffer(name)

    def _mel(self, padded: Tensor) -> Tensor:
        """Return log-mel features (B, mels, n) of samples (B, n · 160) that end with silence."""
        with torch.autocast(padded.device.type, enabled=False):
            mirrored = functional.pad(padded, (WINDOW // 2, WINDOW // 2), mode="reflect")
            frames = mirrored.unfold(1, WINDOW, HOP)[:, :-1]
            spectrum = torch.fft.rfft(frames * self._weights("window"))
            power = torch.view_as_real(spectrum).square().sum(-1)  # (B, n, bins)
            mel = (self._weights("filters") @ power.mT).clamp(min=1e-10).log10()
            # Silence is at the lowest value: padding does not change the largest.
            mel = torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 8.0)
            return (mel + 4.0) / 4.0

    def _convolved(self, values: Tensor, name: str, stride: int) -> Tensor:
        """Apply a convolution of width 3 and GELU to values (B, channels, n)."""
        weight, bias = self._weights(f"{name}/weight"), self._weights(f"{name}/bias")
        return functional.gelu(functional.conv1d(values, weight, bias, stride, padding=1))

    def _normalised(self, values: Tensor, name: str) -> Tensor:
        gain, bias = self._weights(f"{name}/gamma"), self._weights(f"{name}/beta")
        return functional.layer_norm(values, (self.size,), gain, bias)

    def _product(self, values: Tensor, name: str) -> Tensor:
        weight, bias = self._weights(f"{name}/weight"), self._weights(f"{name}/bias")
        return functional.linear(values, weight, bias)

    def _attended(self, hidden: Tensor, name: str, keys: Tensor) -> Tensor:
        """Apply self-attention to hidden (B, n, E); keys (B, 1, 1, n): True at allowed keys."""
        values = self._product(self._normalised(hidden, f"{name}/layer_norm"), f"{name}/linear_0")
        query, key, value = values.unflatten(2, (3, self.heads, HEAD_SIZE)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=keys)
        return self._product(mixed.transpose(1, 2).flatten(2), f"{name}/linear_1")

    def _fed_forward(self, hidden: Tensor, name: str) -> Tensor:
        values = self._product(self._normalised(hidden, f"{name}/layer_norm"), f"{name}/linear_0")
        return self._product(functional.gelu(values), f"{name}/linear_1")


def _within(size: int, lengths: Tensor) -> Tensor:
    """Return which of `size` positions lie before their lengths (B,), (B, size) bool."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]
