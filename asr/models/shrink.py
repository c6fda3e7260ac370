"""A smaller copy of a model folder: weights in 8, 4 or 3 bits, and fewer units where need be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from torch import Tensor

from asr.errors import UserError
from asr.model_folder import BOUNDARIES, LANGUAGE_MODEL, PRETRAINED, VOICE_ACTIVITY, ModelFolder
from asr.models.folder import (
    WEIGHTS,
    copy_companions,
    pack,
    read_folder,
    read_weights,
    save_folder,
)
from asr.models.pruning import choose_units, prune, shrunk_settings
from asr.models.settings import SpeechSettings
from asr.tables import from_table, to_table

BITS: Final = (8, 4, 3)  # of a stored weight; the first that fits with all units
SHARES: Final = 256  # candidates for the share of units that is kept


class Shrunk(NamedTuple):
    """What became smaller: pairs of the model before and after.

    sizes: bytes of the file of weights. parameters: numbers of them. encoder: units of each
    direction of its LSTMs. decoder: units of its cell. bits: of the copy's weights.
    """

    sizes: tuple[int, int]
    parameters: tuple[int, int]
    encoder: tuple[int, int]
    decoder: tuple[int, int]
    bits: int

    @property
    def is_pruned(self) -> bool:
        """Whether units were removed, so that the copy needs training."""
        return self.encoder[0] != self.encoder[1] or self.decoder[0] != self.decoder[1]


def shrink(source: Path, target: Path, most: float, bits: int | None = None) -> Shrunk:
    """Write a copy of a speech model whose weights need at most `most` bytes.

    bits: of a weight, 8, 4 or 3; None: the most that suffice for all units. If 3, or those given,
    do not suffice either, the largest share of units is kept that fits.
    Language models, boundary and voice activity models of the package are used by name; others are
    copied.

    Raises:
        UserError: no speech model, one that cannot be pruned, or none as small as that; the target
            exists.
    """
    folder = read_folder(source, "speech")
    if target.exists():
        raise UserError(f"{target}: exists; name a new folder")
    settings = from_table(SpeechSettings, folder.model, f"{folder.path}: model")
    state = read_weights(folder.path / WEIGHTS)
    smaller, pruned = settings, state
    for each in BITS if bits is None else (bits,):
        chosen, size = each, len(pack(state, each, target))
        if size <= most:
            break
    else:
        smaller, pruned, size = _largest(state, settings, target, most, chosen)
    shrunk = Shrunk(
        ((folder.path / WEIGHTS).stat().st_size, size),
        (_count(state), _count(pruned)),
        (settings.encoder.state_size, smaller.encoder.state_size),
        (settings.decoder.state_size, smaller.decoder.state_size),
        chosen,
    )
    _write(folder, target, smaller, pruned, shrunk)
    return shrunk


def _largest(
    state: dict[str, Tensor], settings: SpeechSettings, target: Path, most: float, bits: int
) -> tuple[SpeechSettings, dict[str, Tensor], int]:
    """Return settings, weights and bytes of the largest pruned model that fits, by bisection."""
    found = None
    least, beyond = 0, SHARES  # candidates that fit, or are not known to; that do not
    while beyond - least > 1 or found is None:
        share = (least + beyond) // 2
        smaller = shrunk_settings(settings, share / SHARES)
        pruned = prune(state, settings, choose_units(state, settings, smaller))
        size = len(pack(pruned, bits, target))
        if size <= most:
            found, least = (smaller, pruned, size), share
        elif share == 0:
            raise UserError(f"{most / 1e6:g} MB are too few; the least is {size / 1e6:.1f} MB")
        else:
            beyond = share
    return found


def _write(
    folder: ModelFolder,
    target: Path,
    settings: SpeechSettings,
    state: dict[str, Tensor],
    shrunk: Shrunk,
) -> None:
    usage = folder.usage
    if is_packaged := folder.path.parent == PRETRAINED:
        usage = replace(
            usage,
            language_model=_named_by(folder, usage.language_model, LANGUAGE_MODEL),
            boundaries=_named_by(folder, usage.boundaries, BOUNDARIES),
            voice_activity=_named_by(folder, usage.voice_activity, VOICE_ACTIVITY),
        )
    if shrunk.is_pruned:
        usage = replace(usage, confidence={}, plausibility={})
    save_folder(
        target,
        folder.task,
        to_table(settings),
        folder.vocabularies,
        state,
        {**folder.notes, "shrunk_from": folder.path.name},
        shrunk.bits,
        usage,
    )
    if not is_packaged:
        copy_companions(folder.path, target)


def _named_by(folder: ModelFolder, name: str, file: str) -> str:
    """Return the model of the package that has a file: that named already, or the folder itself."""
    return name or (folder.path.name if (folder.path / file).is_file() else "")


def _count(state: dict[str, Tensor]) -> int:
    return sum(value.numel() for value in state.values())
