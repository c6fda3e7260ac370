"""`python -m asr`, the same as `asr`."""

import sys

from asr.cli import main

if __name__ == "__main__":
    sys.exit(main())
