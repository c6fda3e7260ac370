"""`asr export`: write a model as ONNX graphs."""

from __future__ import annotations

from pathlib import Path

from asr.render.tables import text_table


def run(model: Path, folder: Path, int8: bool) -> int:
    """Write the graphs, and print the size of each and its difference from the model; return 0.

    Raises:
        UserError: the model cannot be exported, or the folder is there already.
    """
    from asr.runtime.onnx_runtime.export import export
    from asr.runtime.onnx_runtime.graph import OPSET

    rows = [
        (
            str(each.file.relative_to(folder)),
            f"{each.file.stat().st_size / 1e6:.1f}",
            f"{each.difference:.1e}",
        )
        for each in export(model, folder, int8)
    ]
    print(text_table(("graph", "MB", "largest difference"), rows))
    print(f"{folder}: ONNX, opset {OPSET}")
    return 0
