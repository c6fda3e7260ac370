"""Everything a change must pass, one after the other; stops at the first that fails."""

import subprocess
import sys
from pathlib import Path

CHECKS = ("ruff check .", "ruff format --check .", "mypy", "pytest -q")

for check in CHECKS:
    print(f"$ {check}", flush=True)
    status = subprocess.call([sys.executable, "-m", *check.split()], cwd=Path(__file__).parents[1])
    if status:
        sys.exit(f"failed: {check}")
