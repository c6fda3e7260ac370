"""Add layers to the encoder of a recogniser that change nothing at first, to train it on with them.

    python recipes/deepen.py MODEL OUT --layers 6

The encoder's layers are residual. The cells of an added one stay 0, since the weights of their
candidates are 0, and so does its output; all other weights are drawn at random, so that the
candidates learn from the first step. Decoding defaults and language models are left out. Then
`asr train RECIPE RUN --set training.start_from=OUT --set model.encoder.layers=6`. Source: growing a
network without changing its function, Chen et al. 2016, "Net2Net: accelerating learning via
knowledge transfer".
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from asr.errors import UserError, exit_status
from asr.models.encoders.recurrent import Bidirectional
from asr.models.folder import WEIGHTS, read_folder, read_weights, save_folder


def main() -> None:
    """Read the arguments, add the layers and write the model."""
    parser = argparse.ArgumentParser(description="Add layers to the encoder of a recogniser.")
    parser.add_argument("model", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--layers", type=int, required=True, help="of the encoder, in all")
    given = parser.parse_args()
    folder = read_folder(given.model)
    encoder = dict(folder.model["encoder"]) if folder.task == "speech" else {}
    before = encoder.get("layers", 0)
    if not 0 < before < given.layers:
        raise UserError(
            f"{given.model}: an encoder of {before} layers cannot become one of {given.layers}"
        )
    torch.manual_seed(0)
    state = read_weights(given.model / WEIGHTS)
    for index in range(before, given.layers):
        state |= _idle_layer(index, encoder["state_size"])
    if encoder["layers_before_reduction"] == before:  # no reduction: then there is none after it
        encoder["layers_before_reduction"] = given.layers
    model = folder.model | {"encoder": encoder | {"layers": given.layers}}
    content = (folder.task, model, folder.vocabularies, state, folder.notes)
    save_folder(given.target, *content)


def _idle_layer(index: int, state_size: int) -> dict[str, Tensor]:
    """Return the weights of a layer whose output is 0, by their names in a recogniser."""
    layer = Bidirectional(2 * state_size, state_size)
    norm = torch.nn.LayerNorm(2 * state_size)
    weights = {f"encoder.norms.{index}.{name}": value for name, value in norm.state_dict().items()}
    for name, value in layer.state_dict().items():
        _, _, candidates, _ = value.chunk(4)  # gates of torch's LSTM: input, forget, cell, output
        candidates.zero_()
        weights[f"encoder.layers.{index}.{name}"] = value
    return weights


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
