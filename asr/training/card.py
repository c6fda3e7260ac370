"""The card (README.md) of a trained model: what it was trained on, and what it started from."""

from __future__ import annotations

from pathlib import Path

from asr.checksums import write_whole
from asr.model_folder import CARD
from asr.models.encoders.public_weights import ENCODERS
from asr.training.config import Config, SpeechConfig
from asr.training.state import Progress


def write_card(folder: Path, config: Config, progress: Progress, start: Path | None) -> None:
    """Write the card of a model folder.

    start: the model folder that training started from; its card is appended.
    """
    parts = [_summary(config, progress, start)]
    if start is not None and (start / CARD).is_file():
        parts.append((start / CARD).read_text("utf-8"))
    write_whole(folder / CARD, "\n---\n\n".join(parts).encode())


def _summary(config: Config, progress: Progress, start: Path | None) -> str:
    figure, step = progress.best[0]
    facts = [
        f"- Task: {config.task}. All settings are in `config.json`, under `notes.recipe`.",
        f"- Steps: {progress.step} in {progress.seconds / 3600:.2f} h; seed {config.seed}.",
        f"- Best validation: step {step}, figure {figure:.2f} (see `metrics.jsonl` of the run).",
    ]
    if isinstance(config, SpeechConfig):
        manifests = ", ".join(f"`{each.manifest}`" for each in config.data.train)
        facts.append(f"- Training data: {manifests}; {progress.amount / 3600:.1f} h in all epochs.")
        if config.model.encoder.kind == "frozen":
            known = ENCODERS[config.model.encoder.public]
            facts.append(
                f"- Frozen encoder, not part of this folder: {config.model.encoder.public} "
                f"({known.licence}), trained on {known.trained_on}. Test sets may be among these."
            )
        if config.teacher.model:
            taught = ", ".join(config.teacher.teaches)
            facts.append(f"- Teacher: the model `{Path(config.teacher.model).name}` ({taught}).")
        if config.text.files:
            files = ", ".join(f"`{name}`" for name in dict.fromkeys(config.text.files))
            facts.append(f"- Text without recordings, for the decoder: {files}.")
    if start is not None:
        facts.append(f"- Started from `{start.name}`, whose card follows.")
    return "# Model card\n\nWritten by `asr train`; please add licences and results.\n\n" + (
        "\n".join(facts) + "\n"
    )
