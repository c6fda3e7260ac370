"""Measures: word and character error rates, BLEU, and attention health."""
