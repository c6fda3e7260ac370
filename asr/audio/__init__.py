"""Audio: from any file, stream or array to normalised log-mel features."""
