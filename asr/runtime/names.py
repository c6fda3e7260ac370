"""The names of the runtimes, for arguments and messages."""

from typing import Final

RUNTIMES: Final = ("auto", "numpy", "onnx", "torch")
