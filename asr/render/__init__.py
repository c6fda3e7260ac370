"""Results as files and pictures. Empty, so that writing subtitles does not import matplotlib."""
