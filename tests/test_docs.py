"""The code and the commands of the README and of every page in `docs/` run."""

import json
import re
import shlex
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.recipes import few_samples
from vitreous.cli import main
from vitreous.data.pairs import Pairs, split_pairs
from vitreous.gallery import ENTRIES
from vitreous.sim.source import powder_source
from vitreous.train.recipes import powder, translate

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
RECORDS = ("performance.md", "serve.md", "deploy.md")  # of measurements, and of what runs until it is stopped


def blocks(language: str, page: Path = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.splitlines()[-1][:40])
def test_readme_code_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})


def test_readme_says_what_loading_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = (block for block in blocks("python") if "timm.safetensors" in block)
    exec(compile(code, "README.md", "exec"), {})
    promised = [line.removeprefix("# ") for line in code.splitlines() if line.startswith("# timm.safetensors: ")]
    assert capsys.readouterr().out.splitlines() == promised


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_runs_from_its_first_block_to_its_last(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(powder, "powder_source", partial(powder_source, train=40, validation=40, test=40))
    monkeypatch.setattr(translate, "en_de", _messages)
    few_samples(monkeypatch)
    _example_data(tmp_path)
    commands, names = 0, dict[str, Any]()
    for language, block in re.findall(r"```(sh|python)\n(.*?)```", page.read_text(), flags=re.DOTALL):
        if language == "python" and page != README:  # each block of the README stands for itself, see above
            exec(compile(block, page.name, "exec"), names)
        for line in block.splitlines() * (language == "sh"):
            if line.startswith("vitreous "):
                commands += 1
                args = shlex.split(line, comments=True)[1:]
                batch = 64 if "translate-en-de" in args else 4 if args[1:2] and args[1] in ENTRIES else None
                few = ["--steps", "4", *(["--batch", str(batch)] if batch else [])]
                main(args + few * (args[0] in ("train", "pretrain", "prune")))
    assert commands >= (0 if page.name in RECORDS else 5)


def _messages() -> Pairs:
    """A few messages, so many times that every part has some."""
    texts = {"The file could not be opened.": "Datei nicht geöffnet.", "The folder is empty.": "Der Ordner ist leer."}
    return split_pairs("en-de", [(f"{a} {i % 10}", f"{b} {i % 10}") for i in range(40) for a, b in texts.items()])


def _example_data(folder: Path) -> None:
    """The files that the README takes for granted."""
    rng = np.random.default_rng(0)
    for name, target in (("spectra.csv", True), ("new.csv", False)):
        x = rng.normal(size=(150, 30)).cumsum(1)
        header = ",".join(str(1100 + 2 * i) for i in range(30)) + ",assay" * target
        table = np.column_stack([x, x[:, 4]]) if target else x
        np.savetxt(folder / name, table, delimiter=",", header=header, comments="")
    for label in ("cat", "dog"):
        (folder / "photos" / label).mkdir(parents=True)
        for i in range(20):
            pixels = rng.integers(0, 255, (16, 16), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / label / f"{i}.png")


def test_the_readme_names_the_test_command_that_ci_runs() -> None:
    command = (ROOT / ".ci" / "run").read_text().strip().splitlines()[-1]
    assert command == "make test"
    assert "make test " in "\n".join(blocks("sh"))


MODELS = {
    "vit": ("ViT", "attention (a set)", "attention with interactions"),
    "resnet-18": ("ResNet-18",),
    "resnet-50": ("ResNet-50",),
    "hexagonal": ("hexagonal convolution (a map)",),
    "plain": ("plain attention",),
    "deep-sets": ("Deep Sets",),
}
GALLERY = ROOT / "docs" / "gallery.md"


def _trainings(entry: str, system: str, model: str) -> list[dict[str, float]]:
    every = json.loads((GALLERY.parent / "gallery" / "table.json").read_text())
    asked = f"{entry}/{system or '[^/]*'}/{model}/"
    return [found for name, found in every.items() if re.match(asked, name)]


@pytest.mark.parametrize("entry", ["ising", "ising-temperature", "showers", "jets", "lensing", "light-curves"])
def test_the_gallery_says_what_was_measured(entry: str) -> None:
    """Every mean and spread of a table is that of a metric of the model's trainings; whole numbers are there too."""
    (table,) = re.findall(rf"<!-- measured table: {entry} -->\n((?:\|.*\n)+)", GALLERY.read_text())
    systems, checked, system = ENTRIES[entry].systems or (), 0, ""
    for line in table.splitlines()[2:]:
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        if entry == "ising":
            system, cells = cells[0] if cells[0] in systems else system, cells[1:]
        models = [model for model, names in MODELS.items() if cells[0] in names]
        if not models:
            continue  # of another benchmark
        found = _trainings(entry, system, models[0])
        metrics = {key: [each[key] for each in found if key in each] for each in found for key in each}
        for cell in cells[1:]:
            if match := re.fullmatch(r"([\d.]+) ± ([\d.]+)( %)?", cell):
                told = match[1], match[2]
                digits, scale = len(told[0].partition(".")[2]), 100 if match[3] else 1
                known = [
                    tuple(f"{scale * value:.{digits}f}" for value in (mean(values), stdev(values)))
                    for values in metrics.values()
                    if len(values) > 1
                ]
                source = entry == "ising" and cell == cells[2]
                assert source or told in known, (line, cell)
                checked += not source
            elif re.fullmatch(r"[\d,]{4,}", cell):
                assert cell in {f"{value:,.0f}" for values in metrics.values() for value in values}, (line, cell)
                checked += 1
    assert checked >= 3
