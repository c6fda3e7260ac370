"""A training run from its config to a finished model folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from asr.errors import UserError
from asr.models.folder import copy_companions, load_weights, read_folder
from asr.tables import to_table
from asr.training.card import write_card
from asr.training.config import Config, LanguageConfig, SpeechConfig, load_config
from asr.training.contract import Task
from asr.training.distributed import rank, run_in_processes
from asr.training.fingerprint import fingerprint
from asr.training.journal import dev_metrics, log_line, write_json
from asr.training.loop import model_folder, train
from asr.training.rounding import Rounding
from asr.training.run_folder import make_run_folder
from asr.training.state import Progress, average_weights, open_checkpoint
from asr.training.stopping import on_interrupt, on_sigterm


def run(
    config_file: Path,
    folder: Path,
    data: Path | None,
    overrides: Sequence[str] = (),
    continue_anyway: bool = False,
) -> Path | None:
    """Train from a config in a run folder; resume if the folder has a checkpoint.

    data: the folder that the paths of the config are relative to; None means its own folder.
    continue_anyway: resume although config, seed or data are not those that the run began with.
    Returns the model folder: the average of the best models, or the best one if the average is
    worse on the dev set. None if SIGTERM or Ctrl-C stopped the run, which a checkpoint then holds.

    Raises:
        UserError: the config, the data or the run folder cannot be used.
    """
    config = load_config(config_file, overrides)
    data = data or config_file.parent
    if isinstance(config, SpeechConfig) and not (folder / "config.json").exists():
        _check_manifests(config, data, config_file.parent)
    make_run_folder(folder)
    arguments = (config, folder, data, config_file.parent, continue_anyway)
    with on_sigterm():
        is_finished = run_in_processes(config.training.processes, _run_here, *arguments)
        return folder / "model" if is_finished else None


def run_to_end(config_file: Path, folder: Path, data: Path, overrides: Sequence[str] = ()) -> Path:
    """Do as `run`, for a command that does more after it; return the model folder.

    Raises:
        UserError: as `run`.
        KeyboardInterrupt: a signal stopped the run, and so shall stop the command.
    """
    model = run(config_file, folder, data, overrides)
    if model is None:
        raise KeyboardInterrupt
    return model


def _check_manifests(config: SpeechConfig, data: Path, config_folder: Path) -> None:
    """Check every recording that is used before a run begins."""
    from asr.corpora.manifest_checks import require_clean, require_clean_noise
    from asr.text.lines import read_entries
    from asr.text.vocabulary import Vocabulary

    symbols = Vocabulary.characters().inventory
    audio_in = config.data.audio_folder(data)
    lists = [(each.manifest, each.without) for each in config.data.train]
    for manifest, without in (*lists, (config.data.dev, "")):
        if not (data / manifest).exists():
            raise UserError(
                f"{data / manifest}: no such manifest; --data sets the folder that the paths of "
                f"the config are relative to"
            )
        left_out = read_entries(config_folder / without, comment="#") if without else ()
        require_clean(data / manifest, symbols, {name for _, name in left_out}, audio_in)
    if config.data.noise:
        require_clean_noise(data / config.data.noise, audio_in)


def _run_here(
    config: Config, folder: Path, data: Path, config_folder: Path, continue_anyway: bool
) -> bool:
    """Train in this process, and return whether the run is finished; the first one finishes it."""
    with on_sigterm(), _memory_as_user_error():
        task = _make_task(config, data, config_folder, folder)
        begun_with = fingerprint(config, data, config_folder)
        checkpoint = open_checkpoint(folder / "checkpoints", begun_with, continue_anyway)
        if rank() == 0:  # after the data are known to exist
            write_json(folder / "config.json", to_table(config))
            log_line(_description(task, config))
        with on_interrupt():
            progress = train(task, config.training, folder, config.seed, checkpoint, begun_with)
        if rank() == 0 and progress is not None:
            after = _finish(task, progress, folder, Rounding(task.model, config.training.bits))
            start = config.training.start_from
            source = read_folder(Path(start)).path if start else None
            if source is not None:
                copy_companions(source, folder / "model")
                _log_gain(task, folder, after)
            write_card(folder / "model", config, progress, source)
        return progress is not None


def _description(task: Task, config: Config) -> str:
    """Return the size of the model that is trained, and its attention, for the log."""
    count = sum(each.numel() for each in task.model.parameters())
    if isinstance(config, LanguageConfig):
        return f"{count:,} parameters"
    return f"{count:,} parameters, {config.model.attention.kind} attention"


@contextmanager
def _memory_as_user_error() -> Iterator[None]:
    """Replace the error of an allocator by one line."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # torch raises RuntimeError
        if not isinstance(error, MemoryError) and "allocate" not in str(error):
            raise
        raise UserError(
            "not enough memory: lower batches.size, or the sizes of the model; the same command "
            "resumes from the last checkpoint"
        ) from error


def _make_task(config: Config, data: Path, config_folder: Path, folder: Path) -> Task:
    if isinstance(config, SpeechConfig):
        from asr.training.tasks.speech import SpeechTask

        return SpeechTask(config, data, config_folder, folder)
    if isinstance(config, LanguageConfig):
        from asr.training.tasks.language import LanguageTask

        return LanguageTask(config, data, config_folder)
    from asr.training.tasks.translation import TranslationTask

    return TranslationTask(config, data, config_folder)


def _finish(task: Task, progress: Progress, folder: Path, rounding: Rounding) -> dict[str, float]:
    """Save the average of the best models, or the best one if it is better on the dev set.

    rounding: of the weights that are saved.

    Returns the figures of the saved model on the dev set.
    """
    if not progress.best:
        raise UserError(f"{folder}: no validation has run yet; set training.validate_every lower")
    kept = _best_models(task, progress, folder)
    best = kept[0]
    metrics = dev_metrics(folder, best.step)
    if len(kept) > 1:
        task.model.load_state_dict(average_weights([each.weights for each in kept]))
        rounding.apply()
        task.model.eval()
        with torch.no_grad():
            average = task.validate(progress.step, folder)
        is_better = average.figure < best.figure
        log_line(
            f"average of {len(kept)} models: {_first(average.metrics, average.figure)}; "
            f"best single model, of step {best.step}: {_first(metrics, best.figure)}; "
            f"kept: the {'average' if is_better else 'best one'}"
        )
        if is_better:
            task.save(folder / "model")
            return average.metrics
    if not best.step:
        log_line("no step was better than step 0: the model keeps the weights that it began with")
    task.model.load_state_dict(best.weights)
    rounding.apply()
    task.save(folder / "model")
    return metrics


def _first(metrics: Mapping[str, float], figure: float) -> str:
    """Return the first figure with its name, such as `wer 12.34`; without any, the given one."""
    return next((f"{name} {value:.2f}" for name, value in metrics.items()), f"{figure:.2f}")


def _log_gain(task: Task, folder: Path, after: Mapping[str, float]) -> None:
    """Log the word error rates before and after the fine-tuning of a recogniser, if known."""
    from asr.training.tasks.speech import SpeechTask

    before = dev_metrics(folder, 0)
    if isinstance(task, SpeechTask) and "wer" in before and "wer" in after:
        noun = "utterance" if len(task.data.dev) == 1 else "utterances"
        log_line(
            f"WER on the {len(task.data.dev)} {noun} to validate on, greedy search: before "
            f"{before['wer']:.1f} %, after {after['wer']:.1f} %; next, with recordings of neither "
            f"part: asr evaluate TEST.jsonl -m {folder / 'model'}"
        )


class _Kept(NamedTuple):
    """One of the best models of a run: its figure on the dev set, its step and its weights."""

    figure: float
    step: int
    weights: dict[str, Tensor]


def _best_models(task: Task, progress: Progress, folder: Path) -> list[_Kept]:
    """Return the best models, best first; damaged ones are named and left out."""
    kept: list[_Kept] = []
    for figure, step in progress.best:
        try:
            load_weights(task.model, model_folder(folder, step))
        except UserError as error:
            log_line(f"{error}; left out of the average")
            continue
        weights = {name: each.clone() for name, each in task.model.state_dict().items()}
        kept.append(_Kept(figure, step, weights))
    if not kept:
        raise UserError(f"{folder}: none of its best models can be read")
    return kept
