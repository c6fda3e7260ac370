"""Results as files and pictures. Empty on purpose: subtitles must not wait for matplotlib."""
