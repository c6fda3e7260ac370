"""Runs all checks that a change must pass; stops at the first failure."""

import os
import subprocess
import sys
from pathlib import Path

CHECKS = (
    "-m ruff check .",
    "-m ruff format --check .",
    "-m mypy",
    "docs/build.py",
    "-m pytest -q -n 2",
)

# The tests run in two processes, which would disturb each other with several threads each.
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}

for check in CHECKS:
    print(f"$ python {check}", flush=True)
    status = subprocess.call(
        [sys.executable, *check.split()], cwd=Path(__file__).parents[1], env=ENVIRONMENT
    )
    if status:
        sys.exit(f"failed: {check}")
