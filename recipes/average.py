"""Average the weights of models: close to the quality of their ensemble, at the cost of one model.

    python recipes/average.py runs/one/model runs/two/model runs/three/model runs/mean
    python recipes/average.py runs/one/model runs/two/model runs/mean --shares 0.3 0.7
    python recipes/average.py runs/one/model runs/two/model START runs/both --shares 1 1 -1

The models must have been fine-tuned from the same model (`training.start_from`), with different
seeds or data; averaging independently initialised models fails. The last form adds the changes that
both made to that model. Decoding defaults and the like are those of the first. Sources: Wortsman et
al. 2022, "Model soups: averaging weights of multiple fine-tuned models improves accuracy without
increasing inference time"; Ilharco et al. 2023, "Editing models with task arithmetic".
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from asr.errors import UserError, exit_status
from asr.models.folder import WEIGHTS, read_folder, read_weights, save_folder
from asr.training.state import average_weights


def main() -> None:
    """Read the arguments and average."""
    parser = argparse.ArgumentParser(description="Average the weights of models.")
    parser.add_argument("sources", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("target", type=Path)
    parser.add_argument(
        "--shares", type=float, nargs="+", help="weight of each model (default: equal)"
    )
    given = parser.parse_args()
    shares = given.shares or [1.0] * len(given.sources)
    if len(shares) != len(given.sources) or sum(shares) <= 0:
        raise UserError(
            f"got {len(given.sources)} models and the shares {shares}; wanted one share per model"
        )
    first, *others = [read_folder(path) for path in given.sources]
    for other in others:
        if replace(other, path=first.path, notes=first.notes, usage=first.usage) != first:
            raise UserError(f"{other.path}: sizes or vocabularies differ from {first.path}")
    state = average_weights([read_weights(path / WEIGHTS) for path in given.sources], shares)
    content = (first.task, first.model, first.vocabularies, state, first.notes)
    save_folder(given.target, *content, usage=first.usage)


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
