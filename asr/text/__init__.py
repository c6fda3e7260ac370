"""Text: what a model spells with, and what a transcript looks like before it is scored."""
