"""The study of S1.4: the effect of width, patch and depth on a recipe's score, as an Optuna study in a folder.

Every combination is trained once. The study is stored in one journal file, so it continues after a stop, and several
processes on the same folder share the work.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.core.lock import InUseError
from vitreous.nn import ViTConfig
from vitreous.run.folder import RESULT, read_result
from vitreous.run.provenance import Provenance
from vitreous.train.supervised import SupervisedJob
from vitreous.train.trainer import train
from vitreous.zoo.weights import read_config

FACTORS = ("dim", "patch", "depth")
STUDY = "study.log"


def sweep(
    job: SupervisedJob, folder: Path, space: dict[str, Sequence[int]], device: str = "auto"
) -> list[dict[str, Any]]:
    """Train every combination of the factors that is not finished yet; returns a record of each finished one."""
    optuna = load_extra("optuna", "sweep")
    base = job.config
    if not isinstance(base, ViTConfig):
        raise InputError("sweep: the factors are those of a Vision Transformer; use --model vit")
    if not all(space.values()):
        raise InputError("sweep: found a factor without values, expected one or more of each")
    for dim in space["dim"]:  # report a mistake before the first training
        replace(base, dim=dim)
    folder.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    journal = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / STUDY)))
    name, sense = ("accuracy", "maximize") if job.source.classes else ("rmse", "minimize")
    sampler = optuna.samplers.GridSampler(space, seed=job.settings.seed)
    study = optuna.create_study(
        study_name="sweep", storage=journal, sampler=sampler, direction=sense, load_if_exists=True
    )

    def objective(trial: Any) -> float:
        chosen = {factor: trial.suggest_categorical(factor, list(space[factor])) for factor in FACTORS}
        place = folder / _name(chosen)
        config = base.replace(dim=chosen["dim"], patch=(chosen["patch"],), stride=(), depth=chosen["depth"])
        trial_job = replace(job, config=config, provenance=Provenance())
        try:
            result = train(trial_job, place, resume=(place / "last").is_dir(), device=device)
        except InUseError:  # another process trains it
            raise optuna.TrialPruned from None
        return float(result["validation"][name])

    study.optimize(objective)
    for chosen in (dict(zip(FACTORS, c, strict=True)) for c in itertools.product(*(space[f] for f in FACTORS))):
        if not (folder / _name(chosen) / RESULT).is_file():  # begun once, and stopped
            study.enqueue_trial(chosen)
            study.optimize(objective, n_trials=1)
    return _list_results(folder, name)


def _name(chosen: dict[str, int]) -> str:
    return "-".join(f"{factor}{value}" for factor, value in chosen.items())


def _list_results(folder: Path, score: str) -> list[dict[str, Any]]:
    """The factors, size, time and test score of every finished training of a sweep."""
    records = []
    for path in sorted(folder.glob(f"*/{RESULT}")):
        result, config = read_result(path.parent), read_config(path.parent)
        assert isinstance(config, ViTConfig)
        factors = {"dim": config.dim, "patch": config.patch[0], "depth": config.depth}
        try:
            numbers = {"parameters": result["parameters"], "seconds": result["seconds"], "score": result["test"][score]}
        except KeyError as missing:
            raise InputError(f"{path}: is damaged ({missing} is missing)") from None
        records.append(factors | numbers)
    return records
