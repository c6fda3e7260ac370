"""Settings for all tests."""

from hypothesis import settings

# No deadline: on a busy machine a correct test could exceed it.
settings.register_profile("asr", deadline=None)
settings.load_profile("asr")
