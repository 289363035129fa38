"""The code in the README runs, and its commands exist."""

import re
import shlex
from pathlib import Path

import pytest

from vitreous.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


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


@pytest.mark.parametrize(
    "line", [line for block in blocks("sh") for line in block.splitlines() if line.startswith("vitreous ")]
)
def test_readme_commands_run(line: str) -> None:
    main(shlex.split(line, comments=True)[1:])


def test_the_readme_names_the_test_command_that_ci_runs() -> None:
    command = (ROOT / ".ci" / "run").read_text().strip().splitlines()[-1]
    assert command == "make test"
    assert "make test " in "\n".join(blocks("sh"))
