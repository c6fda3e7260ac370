"""Speech models as ONNX graphs: making them, and an engine that runs them in onnxruntime."""
