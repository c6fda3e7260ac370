"""Settings for all tests."""

from hypothesis import settings

# A deadline measures the machine, not the code: on a busy one it fails what is right.
settings.register_profile("asr", deadline=None)
settings.load_profile("asr")
