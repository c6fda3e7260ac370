"""The engine of a model folder: NumPy or torch."""

from __future__ import annotations

from typing import Final

from asr.errors import UserError
from asr.model_folder import WEIGHTS, ModelFolder, read_arrays
from asr.models.settings import SpeechSettings
from asr.runtime.engine import Engine
from asr.runtime.light.engine import LightEngine, unsupported

RUNTIMES: Final = ("auto", "numpy", "torch")


def load_engine(
    folder: ModelFolder,
    settings: SpeechSettings,
    vocabulary_size: int,
    device: str = "cpu",
    runtime: str = "auto",
) -> Engine:
    """Load the weights of a speech model into an engine.

    device, runtime: see `asr.inference.loaded.LoadedModel.load`.

    Raises:
        UserError: the weights are missing or do not fit, the device is missing, or the runtime is
            not known or does not support the model.
    """
    if runtime not in RUNTIMES:
        raise UserError(f"runtime {runtime!r} is not one of: {', '.join(RUNTIMES)}")
    reason = unsupported(settings) if device == "cpu" else f"device {device!r}"
    if runtime == "numpy" and reason is not None:
        raise UserError(f"{folder.path}: {reason} needs torch: use the runtime torch")
    if runtime == "torch" or reason is not None:
        return _torch_engine(folder, vocabulary_size, device)
    weights = read_arrays(folder.path / WEIGHTS)
    try:
        return LightEngine(settings, weights, vocabulary_size)
    except ValueError as error:
        raise UserError(f"{folder.path / WEIGHTS}: {error}") from error


def _torch_engine(folder: ModelFolder, vocabulary_size: int, device: str) -> Engine:
    from asr.models.speech import load_speech_model
    from asr.runtime.device import choose_device
    from asr.runtime.torch_engine import TorchEngine

    return TorchEngine(load_speech_model(folder, vocabulary_size).to(choose_device(device)))
