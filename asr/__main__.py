"""The program `asr`, also as `python -m asr`."""

import sys

from asr.errors import exit_status


def main() -> int:
    """Run the command line; Ctrl-C is one line even while it is imported."""
    return exit_status(_run)


def _run() -> int:
    from asr.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
