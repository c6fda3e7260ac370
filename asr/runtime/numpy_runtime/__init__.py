"""Speech models in NumPy alone, for inference without torch."""
