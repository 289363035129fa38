"""Code and commands of the README and of all pages in `docs/` run, links resolve, tables show what was measured."""

import gzip
import json
import re
import shlex
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.recipes import few_samples
from vitreous.cli import main
from vitreous.recipes import GALLERY, load_recipe

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
FEW_COMMANDS = ("performance.md", "serve.md", "deploy.md", "design.md", "sources.md")


def blocks(language: str, page: Path = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.splitlines()[-1][:40])
def test_readme_code_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})


def test_readme_shows_the_messages_of_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = (block for block in blocks("python") if "timm.safetensors" in block)
    exec(compile(code, "README.md", "exec"), {})
    expected = [line.removeprefix("# ") for line in code.splitlines() if line.startswith("# timm.safetensors: ")]
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_runs_from_its_first_block_to_its_last(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few_samples(monkeypatch)
    if page.name == "translation.md":
        _example_messages(tmp_path)
        monkeypatch.setenv("VITREOUS_DATA", str(tmp_path))
    _example_data(tmp_path)
    commands, names = 0, dict[str, Any]()
    for language, block in re.findall(r"```(sh|python)\n(.*?)```", page.read_text(), flags=re.DOTALL):
        if language == "python" and page != README:  # each block of the README is run by itself, see above
            exec(compile(block, page.name, "exec"), names)
        for line in block.splitlines() * (language == "sh"):
            if line.startswith("vitreous "):
                commands += 1
                args = shlex.split(line, comments=True)[1:]
                batch = 64 if "translate-en-de" in args else 4 if args[1:2] and args[1] in GALLERY else None
                few = ["--steps", "4", *(["--batch", str(batch)] if batch else [])]
                main(args + few * (args[0] in ("train", "pretrain", "prune")))
    assert commands >= (0 if page.name in FEW_COMMANDS else 5)


def _example_messages(folder: Path) -> None:
    """Write a few messages, repeated so that every part has some, where the recipe looks for them."""
    texts = {"The file could not be opened.": "Datei nicht geöffnet.", "The folder is empty.": "Der Ordner ist leer."}
    lines = [f"{a} {i % 10}\t{b} {i % 10}\n" for i in range(40) for a, b in texts.items()]
    (folder / "translation").mkdir()
    (folder / "translation" / "en-de.tsv.gz").write_bytes(gzip.compress("".join(lines).encode()))


def _example_data(folder: Path) -> None:
    """Write the files that the pages use."""
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_named_in_a_page_exist(page: Path) -> None:
    modules = re.findall(r"`((?:\w+/)+\w+\.py)`", page.read_text())
    assert [name for name in modules if not ((ROOT / name).is_file() or (ROOT / "vitreous" / name).is_file())] == []


def test_every_number_of_a_source_document_is_in_docs_sources() -> None:
    files = [*PAGES, *(ROOT / "vitreous").rglob("*.py")]
    used = {number for file in files for number in re.findall(r"\bS\d\.\d+\b", file.read_text())}
    rows = re.findall(r"^\| (S\d\.\d+) \|", (ROOT / "docs" / "sources.md").read_text(), flags=re.MULTILINE)
    assert sorted(used - set(rows)) == []


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
GALLERY_PAGE = ROOT / "docs" / "gallery.md"


def _trainings(entry: str, system: str, model: str) -> list[dict[str, float]]:
    results = json.loads((GALLERY_PAGE.parent / "gallery" / "table.json").read_text())
    pattern = f"{entry}/{system or '[^/]*'}/{model}/"
    return [result for name, result in results.items() if re.match(pattern, name)]


@pytest.mark.parametrize("entry", ["ising", "ising-temperature", "showers", "jets", "lensing", "light-curves"])
def test_the_gallery_says_what_was_measured(entry: str) -> None:
    """Every mean and standard deviation in a table, and every large number, is that of a metric of the trainings."""
    (table,) = re.findall(rf"<!-- measured table: {entry} -->\n((?:\|.*\n)+)", GALLERY_PAGE.read_text())
    systems, checked, system = load_recipe(entry).systems, 0, ""
    for line in table.splitlines()[2:]:
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        if entry == "ising":
            system, cells = cells[0] if cells[0] in systems else system, cells[1:]
        models = [model for model, names in MODELS.items() if cells[0] in names]
        if not models:
            continue  # a row of another benchmark
        trainings = _trainings(entry, system, models[0])
        metrics = {key: [each[key] for each in trainings if key in each] for each in trainings for key in each}
        for cell in cells[1:]:
            if match := re.fullmatch(r"([\d.]+) ± ([\d.]+)( %)?", cell):
                shown = match[1], match[2]
                digits, scale = len(shown[0].partition(".")[2]), 100 if match[3] else 1
                measured = [
                    tuple(f"{scale * value:.{digits}f}" for value in (mean(values), stdev(values)))
                    for values in metrics.values()
                    if len(values) > 1
                ]
                published = entry == "ising" and cell == cells[2]
                assert published or shown in measured, (line, cell)
                checked += not published
            elif re.fullmatch(r"[\d,]{4,}", cell):
                assert cell in {f"{value:,.0f}" for values in metrics.values() for value in values}, (line, cell)
                checked += 1
    assert checked >= 3
