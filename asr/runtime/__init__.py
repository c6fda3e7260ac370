"""Models at run time: engines that compute them, without gradients."""

from typing import Final

RUNTIMES: Final = ("auto", "numpy", "onnx", "torch")
