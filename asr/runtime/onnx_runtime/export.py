"""Writing a model folder that also holds its ONNX graphs; see docs/export.md."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from math import isinf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from asr.checksums import CHECKSUMS, digest, write_checksums
from asr.errors import UserError
from asr.model_folder import (
    CARD,
    ENCODER_GRAPH,
    FEATURES_GRAPH,
    STEP_GRAPH,
    WEIGHTS,
    ModelFolder,
    read_folder,
)
from asr.models.settings import SpeechSettings
from asr.runtime.numpy_runtime import decoder
from asr.runtime.numpy_runtime.engine import NumpyEngine
from asr.runtime.numpy_runtime.layers import Weights
from asr.runtime.onnx_runtime.encoder import encoder_graph
from asr.runtime.onnx_runtime.engine import BITS, WEIGHTS_DIGEST
from asr.runtime.onnx_runtime.features import features_graph
from asr.runtime.onnx_runtime.step import step_graph
from asr.runtime.onnx_runtime.verify import largest_differences
from asr.tables import from_table
from asr.weights import read_arrays

LARGEST_DIFFERENCE = 1e-4  # of a float32 graph from the NumPy engine
Write = Callable[[SpeechSettings, Weights, Mapping[str, str]], onnx.ModelProto]


class Exported(NamedTuple):
    """A graph: its file, and the largest difference of its outputs from the NumPy engine."""

    file: Path
    difference: float


def not_exported(settings: SpeechSettings) -> str | None:
    """Return the first setting of a model that the graphs do not have; None if they have all."""
    attention = settings.attention
    if (reason := decoder.unsupported(attention, settings.decoder)) is not None:
        return reason
    if attention.has_window:
        return f"attention.window_back = {attention.window_back}"
    return "attention.silence_mask = true" if attention.silence_mask else None


def export(source: Path, target: Path, int8: bool = False) -> list[Exported]:
    """Copy a speech model to a new folder, together with its graphs, and verify these.

    int8: the encoder computes in 8 bits.

    Raises:
        UserError: the source is no speech model, or has a setting that is not exported; the target
            exists; a float32 graph differs from the NumPy engine by more than 1e-4, or a graph of 8
            bits gives what is not finite.
    """
    folder = read_folder(source, "speech")
    settings = from_table(SpeechSettings, folder.model)
    if (reason := not_exported(settings)) is not None:
        raise UserError(f"{folder.path}: not exported: the graphs have no {reason}")
    if target.exists():
        raise UserError(f"{target}: exists; name a new folder")
    weights = read_arrays(folder.path / WEIGHTS)
    try:
        engine = NumpyEngine(settings, weights, len(weights["decoder.embedding.weight"]))
    except (ValueError, KeyError) as error:
        raise UserError(f"{folder.path / WEIGHTS}: {error}") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as place:
        written = Path(place) / "model"
        shutil.copytree(folder.path, written)
        _write_graphs(folder, settings, weights, written, int8)
        differences = largest_differences(engine, written)
        for name, difference in differences.items():
            exact = not (int8 and name == ENCODER_GRAPH)
            if difference > LARGEST_DIFFERENCE and (exact or isinf(difference)):
                raise UserError(f"{target}: not written: {name} differs by {difference:.1e}")
        write_checksums(written, {each.name for each in written.iterdir()} - {CHECKSUMS, CARD})
        written.rename(target)
    return [Exported(target / name, difference) for name, difference in differences.items()]


def _write_graphs(
    folder: ModelFolder, settings: SpeechSettings, weights: Weights, written: Path, int8: bool
) -> None:
    notes = {WEIGHTS_DIGEST: digest((folder.path / WEIGHTS).read_bytes())}
    notes["vocabulary"] = folder.vocabularies["vocabulary"]
    graphs: dict[str, Write] = {ENCODER_GRAPH: encoder_graph, STEP_GRAPH: step_graph}
    if settings.encoder.kind != "frozen":
        graphs[FEATURES_GRAPH] = features_graph
    for name, build in graphs.items():
        if int8 and name == ENCODER_GRAPH:
            _quantise(build(settings, weights, {**notes, BITS: "8"}), written / name)
        else:
            onnx.save(build(settings, weights, notes), written / name)


def _quantise(model: onnx.ModelProto, file: Path) -> None:
    """Write a graph whose LSTMs are in 8 bits, with a scale for each row of their weights.

    Activations get their scales while the graph runs, one for each input of an operator. The other
    matrix products stay in float32: they take a tenth of the time, and that of `encoder.reduce`,
    whose inputs are not normalised, would double the error.
    """
    inferred = onnx.shape_inference.infer_shapes(model)
    # The mark of a graph with inferred sizes, without which quantize_dynamic warns.
    inferred.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    quantize_dynamic(
        inferred,
        file,
        op_types_to_quantize=["LSTM"],
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,  # 7 bits: sums of 8 × 8 bits overflow on processors without VNNI
    )
