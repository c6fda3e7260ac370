"""The HTTP service: recognition, reading tutor and translation behind one address."""
