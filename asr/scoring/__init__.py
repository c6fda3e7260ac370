"""Measures: word and character errors, BLEU, and whether the attention is in good health."""
