"""The engine of a model folder: NumPy, onnxruntime or torch."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from asr.errors import UserError
from asr.lm.recurrent import LSTMWords, WordStep
from asr.model_folder import ENCODER_GRAPH, STEP_GRAPH, WEIGHTS, ModelFolder
from asr.models.settings import SpeechSettings, TranslationSettings
from asr.runtime.engine import Engine, TextEngine
from asr.runtime.names import RUNTIMES
from asr.runtime.numpy_runtime.decoder import unsupported
from asr.runtime.numpy_runtime.engine import NumpyEngine
from asr.runtime.numpy_runtime.translation import NumpyTextEngine
from asr.runtime.numpy_runtime.translation import unsupported as unsupported_text
from asr.weights import read_arrays

if TYPE_CHECKING:
    from asr.runtime.onnx_runtime.engine import Graphs


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
    device = _resolved(device, runtime)
    if _wants_torch(folder, unsupported(settings.attention, settings.decoder), device, runtime):
        from asr.models.speech import load_speech_model
        from asr.runtime.device import choose_device
        from asr.runtime.torch_engine import TorchEngine

        return TorchEngine(load_speech_model(folder, vocabulary_size).to(choose_device(device)))
    weights, graphs = read_arrays(folder.path / WEIGHTS), _graphs(folder, runtime)
    try:
        if graphs is None:
            return NumpyEngine(settings, weights, vocabulary_size)
        return graphs.engine(settings, weights, vocabulary_size)
    except ValueError as error:
        raise UserError(f"{folder.path / WEIGHTS}: {error}") from error


def load_text_engine(
    folder: ModelFolder,
    settings: TranslationSettings,
    sizes: tuple[int, int],
    device: str = "cpu",
    runtime: str = "auto",
) -> TextEngine:
    """Load the weights of a translation model into an engine; sizes: of the vocabularies.

    Raises:
        UserError: as `load_engine`.
    """
    device = _resolved(device, runtime)
    if _wants_torch(folder, unsupported_text(settings), device, runtime):
        from asr.models.translation import load_translation_model
        from asr.runtime.device import choose_device
        from asr.runtime.torch_engine import TorchTextEngine

        model = load_translation_model(folder, settings, *sizes)
        return TorchTextEngine(model.to(choose_device(device)))
    weights, graphs = read_arrays(folder.path / WEIGHTS), _graphs(folder, runtime)
    try:
        if graphs is None:
            return NumpyTextEngine(settings, weights, *sizes)
        return graphs.text_engine(settings, weights, sizes)
    except ValueError as error:
        raise UserError(f"{folder.path / WEIGHTS}: {error}") from error


def load_word_step(folder: Path, runtime: str = "auto") -> WordStep:
    """Load the recurrent language model of a folder: its graph if there is one, else NumPy.

    Raises:
        UserError: it is missing or damaged.
    """
    if runtime in ("auto", "onnx") and _can_run(folder, STEP_GRAPH):
        from asr.runtime.onnx_runtime.engine import GraphWords

        return GraphWords.load(folder)
    return LSTMWords.load(folder)


def _resolved(device: str, runtime: str) -> str:
    """Return the device that auto means: cuda, or cpu without torch, a GPU or a use for it."""
    if device != "auto":
        return device
    if runtime in ("numpy", "onnx") or find_spec("torch") is None:
        return "cpu"
    from asr.runtime.device import choose_device

    return choose_device(device).type


def _wants_torch(folder: ModelFolder, reason: str | None, device: str, runtime: str) -> bool:
    """Return whether torch is to be used; reason: why the model needs it, None if it does not.

    Raises:
        UserError: an unknown runtime, or another one where torch is needed.
    """
    if runtime not in RUNTIMES:
        raise UserError(f"runtime {runtime!r} is not one of: {', '.join(RUNTIMES)}")
    if device != "cpu":
        reason = f"device {device!r}"
    if runtime in ("numpy", "onnx") and reason is not None:
        raise UserError(f"{folder.path}: {reason} needs torch: use the runtime torch")
    return runtime == "torch" or reason is not None


def _graphs(folder: ModelFolder, runtime: str) -> Graphs | None:
    """Load the graphs of a folder if the runtime, "auto", "numpy" or "onnx", runs them."""
    if runtime != "onnx" and not (runtime == "auto" and _can_run(folder.path, ENCODER_GRAPH)):
        return None
    from asr.runtime.onnx_runtime.engine import Graphs

    return Graphs.load(folder.path)


def _can_run(folder: Path, graph: str) -> bool:
    return (folder / graph).is_file() and find_spec("onnxruntime") is not None
