"""Make a model to start from: the weights of a trained translator, with a new Chinese vocabulary.

    python recipes/cmn_eng/adopt.py asr/pretrained/english-french pairs/eng-cmn.train.tsv \
        runs/eng-cmn-start --new target --subwords 3500

The vocabulary of the English side, and all weights that depend on neither vocabulary, are those of
the parent. The embedding of the Chinese side is random, and so is the output layer if Chinese is
the target. Source: transfer learning for low-resource translation, Zoph et al. 2016.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

from asr.corpora.pairs import read_pairs
from asr.errors import exit_status
from asr.models.folder import WEIGHTS, read_folder, read_weights, save_folder
from asr.models.settings import TranslationSettings
from asr.models.translation import TranslationModel, build_translation_model
from asr.tables import from_table, to_table
from asr.text.vocabulary import of_both_sides
from asr.training.config import PairDataSettings
from asr.training.tasks.translation_data import learn_subwords

SEED = 1


def take_weights(model: TranslationModel, parent: Path, new: str) -> list[str]:
    """Copy the parent's weights into a model with another vocabulary on the side `new`.

    The English side has the vocabulary of the parent's source; as a target it also needs the
    parent's output layer, so that the parent must have one vocabulary for both sides.
    Returns the names of the weights that stay random.
    """
    state = model.state_dict()
    found = read_weights(parent / WEIGHTS)
    found.setdefault("encoder.embedding.weight", found["decoder.embedding.weight"])  # if joint
    changed = {
        "source": ("encoder.embedding.",),
        "target": ("decoder.embedding.", "decoder.output."),
    }[new]
    kept = {name: found[name] for name in state if not name.startswith(changed)}
    model.load_state_dict(state | kept)
    return sorted(state.keys() - kept.keys())


def main() -> None:
    """Read the arguments, write the model folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parent", type=Path, help="model folder of a translator")
    parser.add_argument("pairs", type=Path, help="training pairs, source<TAB>target")
    parser.add_argument("folder", type=Path, help="model folder to write")
    parser.add_argument("--new", choices=["source", "target"], required=True, help="Chinese side")
    parser.add_argument("--subwords", type=int, default=3500, help="of the Chinese side")
    arguments = parser.parse_args()
    folder = read_folder(arguments.parent, "translation")
    texts = [getattr(pair, arguments.new) for pair in read_pairs(arguments.pairs)]
    settings = PairDataSettings(train="", subwords=arguments.subwords)
    chinese = learn_subwords(texts, settings)
    english, _ = of_both_sides(folder.path, folder.vocabularies)
    source, target = (chinese, english) if arguments.new == "source" else (english, chinese)
    sizes = replace(from_table(TranslationSettings, folder.model), joint_embedding=False)
    torch.manual_seed(SEED)
    model = build_translation_model(sizes, len(source), len(target))
    random = take_weights(model, folder.path, arguments.new)
    save_folder(
        arguments.folder,
        task="translation",
        model=to_table(sizes),
        vocabularies={"source": source.to_json(), "target": target.to_json()},
        state=model.state_dict(),
        notes={"parent": arguments.parent.name, "random": random},
    )
    print(f"{arguments.folder}: {len(source)} and {len(target)} symbols; random: {random}")


if __name__ == "__main__":
    raise SystemExit(exit_status(main))
