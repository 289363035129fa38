"""The study of width, patch and depth: every combination once, going on where it stopped."""

import json
from pathlib import Path

import pytest

from vitreous.cli import main
from vitreous.core.lock import lock_folder
from vitreous.train import SupervisedJob, sweep, train

SPACE = ["--dim", "16", "32", "--patch", "2", "4", "--depth", "1"]


def test_a_sweep_tries_every_combination_once_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained: list[str] = []

    def counting(job: SupervisedJob, folder: Path, **settings: object) -> dict[str, object]:
        if len(trained) == 2:
            raise KeyboardInterrupt
        trained.append(folder.name)
        return train(job, folder, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(sweep, "train", counting)
    arguments = ["sweep", "digits", "--out", str(tmp_path / "study"), *SPACE, "--steps", "3", "--device", "cpu"]
    with pytest.raises(SystemExit):
        main(arguments)
    monkeypatch.setattr(sweep, "train", train)
    main(arguments)
    assert "Sweep, best test accuracy first" in capsys.readouterr().out
    folders = {path.parent.name for path in (tmp_path / "study").glob("*/result.json")}
    assert folders == {f"dim{d}-patch{p}-depth1" for d in (16, 32) for p in (2, 4)}
    assert (tmp_path / "study" / "effects.png").stat().st_size > 5_000
    config = json.loads((tmp_path / "study" / "dim32-patch4-depth1" / "config.json").read_text())
    assert (config["dim"], config["patch"], config["depth"]) == (32, [4, 4], 1)


def test_a_width_that_the_heads_do_not_divide_is_told_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["sweep", "digits", "--out", str(tmp_path / "study"), "--dim", "30"])
    assert end.value.code == 2
    assert "heads do not divide the width dim = 30" in capsys.readouterr().err
    assert not (tmp_path / "study").exists()


def test_a_combination_that_another_process_trains_is_left_to_it(tmp_path: Path) -> None:
    study = tmp_path / "study"
    with lock_folder(study / "dim32-patch4-depth1"):
        main(["sweep", "digits", "--out", str(study), *SPACE, "--steps", "2", "--device", "cpu"])
    assert len(list(study.glob("*/result.json"))) == 3
