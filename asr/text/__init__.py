"""Text: vocabularies, normalisation, sentences and files of lines."""
