"""`vitreous index --out`: every pattern is answered exactly once, whatever interrupts the command."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vitreous.cli import main
from vitreous.powder.batch import index_batch, workers
from vitreous.powder.batch import row as rows_of_files
from vitreous.powder.batch.results import locked
from vitreous.powder.batch.row import Row, Task, index_row
from vitreous.powder.batch.shard import Shard
from vitreous.powder.index_options import IndexOptions

SQUARES = np.array([3, 4, 8, 11, 12, 16, 19, 20, 24, 27])
WORDS = ["--peaks", "--anode", "Cu", "--system", "cubic"]
OPTIONS = IndexOptions(anode="Cu", peaks=True, systems=("cubic",))
posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


def write_lines(path: Path, edge: float) -> None:
    """The lines of a face-centred cubic cell."""
    angles = 2 * np.degrees(np.arcsin(1.540593 / 2 / edge * np.sqrt(SQUARES)))
    path.write_text("\n".join(f"{angle:.4f}" for angle in angles))


def make_folder(folder: Path, count: int = 5) -> Path:
    folder.mkdir()
    for i in range(count):
        write_lines(folder / f"{i:03}.txt", edge_of(i))
    return folder


def edge_of(number: int) -> float:
    return 5.5 + number / 500


def run(capsys: pytest.CaptureFixture[str], *args: Path | str) -> tuple[int, str]:
    """Exit code, and what was printed."""
    capsys.readouterr()
    try:
        main(["index", *map(str, args), *WORDS])
    except SystemExit as end:
        printed = capsys.readouterr()
        return int(end.code or 0), printed.out + printed.err
    return 0, capsys.readouterr().out


def read_rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist())
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as file:
        return [{name: value or None for name, value in row.items()} for row in csv.DictReader(file)]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_folder_becomes_a_table_and_an_unreadable_file_a_row_with_its_reason(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    folder, out = make_folder(tmp_path / "patterns"), tmp_path / f"results{suffix}"
    (folder / "bad.txt").write_text("ten eleven\n")
    code, text = run(capsys, folder, "--out", out)
    assert code == 1
    assert "6 indexed now, 0 finished before, 1 failed" in text
    assert re.search(r"cubic\W+5\W+0\W+0\W+5", text)
    *rows, bad = read_rows(out)
    for i, row in enumerate(rows):
        assert row["file"] == f"patterns/{i:03}.txt"
        assert (row["system"], row["centring"], row["fault"]) == ("cubic", "F", None)
        assert float(row["a"]) == pytest.approx(edge_of(i), rel=1e-4)
    assert (bad["file"], bad["system"]) == ("patterns/bad.txt", None)
    assert "expected numbers" in bad["fault"]
    content = out.read_bytes()
    assert run(capsys, folder, "--out", out)[0] == 1
    assert out.read_bytes() == content
    assert not (tmp_path / f"results{suffix}.parts").exists()


def test_json_lines_hold_the_whole_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = make_folder(tmp_path / "patterns", 2), tmp_path / "results.jsonl"
    assert run(capsys, folder, "--out", out)[0] == 0
    main(["index", str(folder), *WORDS, "--json"])
    assert [row["result"] for row in read_rows(out)] == json.loads(capsys.readouterr().out)


def test_only_new_and_changed_files_are_indexed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_folder(tmp_path / "patterns")
    out = folder / "results.csv"  # in the folder of the patterns, of which it is none
    run(capsys, folder, "--out", out)
    write_lines(folder / "001.txt", 6.5)
    write_lines(folder / "0001.txt", 6.6)
    code, text = run(capsys, folder, "--out", out)
    assert code == 0
    assert "2 indexed now, 4 finished before" in text
    edges = {row["file"]: round(float(row["a"]), 3) for row in read_rows(out)}
    expected = {f"{i:03}.txt": edge_of(i) for i in range(5)} | {"001.txt": 6.5, "0001.txt": 6.6}
    assert edges == pytest.approx(expected, abs=1e-3)
    assert list(edges) == sorted(edges)
    (folder / "002.txt").unlink()
    assert "0 indexed now, 5 finished before" in run(capsys, folder, "--out", out)[1]
    assert len(read_rows(out)) == 6  # a pattern that is gone keeps its row


def test_the_working_directory_does_not_matter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(tmp_path / "patterns", 2)
    run(capsys, folder, "--out", tmp_path / "results.csv")
    monkeypatch.chdir(folder)
    assert "0 indexed now, 2 finished" in run(capsys, ".", "--out", "../results.csv")[1]


def test_shards_are_joined_by_a_last_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out, whole = make_folder(tmp_path / "patterns"), tmp_path / "results.csv", tmp_path / "whole.csv"
    assert "2 indexed now" in run(capsys, folder, "--out", out, "--shard", "1/3")[1]
    assert "2 indexed now" in run(capsys, folder, "--out", out, "--shard", "2/3")[1]
    assert "0 indexed now, 2 finished" in run(capsys, folder, "--out", out, "--shard", "2/3")[1]
    assert not out.exists()
    assert "1 indexed now, 4 finished before" in run(capsys, folder, "--out", out)[1]  # the job 3/3 was lost
    run(capsys, folder, "--out", whole)
    assert out.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "results.csv.parts").exists()


def test_any_exception_in_one_pattern_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index_file = rows_of_files.index_file

    def fail(path: Path, options: IndexOptions) -> Any:
        if path.name == "001.txt":
            raise ZeroDivisionError("division by zero")
        return index_file(path, options)

    monkeypatch.setattr(rows_of_files, "index_file", fail)
    folder, out = make_folder(tmp_path / "patterns", 3), tmp_path / "results.csv"
    summary = index_batch(sorted(folder.iterdir()), out, OPTIONS)
    assert (summary.indexed, summary.failed) == (3, 1)
    assert [row["fault"] for row in read_rows(out)] == [
        None, "001.txt: internal error, ZeroDivisionError: division by zero", None,
    ]  # fmt: skip


def test_a_line_that_was_cut_off_is_computed_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out, whole = make_folder(tmp_path / "patterns"), tmp_path / "results.csv", tmp_path / "whole.csv"
    run(capsys, folder, "--out", whole)
    run(capsys, folder, "--out", out, "--shard", "1/1000")
    run(capsys, folder, "--out", out, "--shard", "2/1000")
    journal = tmp_path / "results.csv.parts" / "2-of-1000" / "results.jsonl"
    journal.write_bytes(journal.read_bytes()[:-5])
    assert "4 indexed now, 1 finished before" in run(capsys, folder, "--out", out)[1]
    assert out.read_bytes() == whole.read_bytes()


def end_the_process(task: Task) -> Row:
    if task.name == "patterns/001.txt":
        os._exit(1)
    return index_row(task)


def test_a_pattern_that_ends_its_process_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "index_row", end_the_process)
    folder = make_folder(tmp_path / "patterns", 3)
    tasks = [Task(path, f"patterns/{path.name}", OPTIONS, "", False) for path in sorted(folder.iterdir())]
    faults = {row["file"]: row["fault"] for row in workers.index_in_processes(tasks, 1)}
    assert [faults.pop(f"patterns/{name}.txt") for name in ("000", "002")] == [None, None]
    message = "the process that indexed it ended unexpectedly, perhaps for lack of memory"
    assert faults == {"patterns/001.txt": f"001.txt: {message}"}


FULL = """
import resource, sys
from vitreous.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
main(sys.argv[2:])
"""


@posix
def test_a_disk_that_is_full_stops_the_command_and_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = make_folder(tmp_path / "patterns"), tmp_path / "results.csv"
    command = [sys.executable, "-c", FULL, "2500", "index", str(folder), "--out", str(out), *WORDS]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "cannot be written (File too large); the same command continues" in ended.stderr
    journal = tmp_path / "results.csv.parts" / "1-of-1" / "results.jsonl"
    finished = journal.read_text().count("\n")
    assert finished > 0
    assert journal.read_bytes().endswith(b"\n")
    code, text = run(capsys, folder, "--out", out)
    assert code == 0
    assert f"{5 - finished} indexed now, {finished} finished before" in text
    assert len(read_rows(out)) == 5


@posix
def test_no_signal_loses_a_pattern_or_leaves_a_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = 24
    folder, out = make_folder(tmp_path / "patterns", count), tmp_path / "results.csv"
    journal = tmp_path / "results.csv.parts" / "1-of-1" / "results.jsonl"
    finished = 0
    for number, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)):
        jobs = "1" if number == signal.SIGINT else "2"
        command = [sys.executable, "-m", "vitreous", "index", str(folder), "--out", str(out), "--jobs", jobs, *WORDS]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") > finished + 2)  # noqa: B023
        process.send_signal(number)
        message = process.communicate(timeout=60)[1]  # comes when no process is left that could write to stderr
        assert process.returncode == code
        finished = journal.read_bytes().count(b"\n")
        assert finished < count
        assert "Traceback" not in message
    assert message == f"vitreous: stopped; {finished} of {count} patterns are finished, the same command continues\n"
    text = run(capsys, folder, "--out", out, "--jobs", "1")[1]
    assert f"{count - finished} indexed now, {finished} finished before, 0 failed" in text
    assert [row["file"] for row in read_rows(out)] == [f"patterns/{i:03}.txt" for i in range(count)]


def wait_until(condition: Any) -> None:
    end = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "results.txt"], "out: found 'results.txt', expected a name that ends with .csv, .jsonl, .parquet"),
        (["--out", "results.csv", "--json"], "json: found with out, expected without it"),
        (["--out", "results.csv", "--figure", "fit.png"], "figure: found with out, expected without it"),
        (["--out", "results.csv", "--shard", "0/3"], "shard: found '0/3', expected i/n"),
        (["--out", "results.csv", "--shard", "4/3"], "shard: found '4/3', expected i/n"),
        (["--out", "results.csv", "--jobs", "-1"], "jobs: found -1, expected 1 or more"),
        (["--shard", "1/3"], "shard: found without out, expected with it"),
        (["--out", "foreign.csv"], "foreign.csv: is no table of vitreous index; choose another name, or delete it"),
        (["--out", "foreign.jsonl"], "foreign.jsonl: is no table of vitreous index"),
        (["--out", "foreign.parquet"], "foreign.parquet: is no table of vitreous index"),
        (["--out", "other.csv"], "other.csv: found results of other settings ("),
        (["--out", "patterns/000.txt/results.csv"], "cannot be created as a folder (Not a directory)"),
    ],
)
def test_bad_input_is_one_line_and_overwrites_nothing(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "foreign.parquet" in words:
        pytest.importorskip("pyarrow")
    folder = make_folder(tmp_path / "patterns", 1)
    monkeypatch.chdir(tmp_path)
    for suffix in ("csv", "jsonl", "parquet"):
        (tmp_path / f"foreign.{suffix}").write_text("name,value\none,1\n")
    if "other.csv" in words:
        run(capsys, folder, "--out", "other.csv", "--zero", "0")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, text = run(capsys, folder, *words)
    assert code == 2
    assert text.count("\n") == 1
    assert message in text
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_two_commands_do_not_write_the_same_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = make_folder(tmp_path / "patterns", 2), tmp_path / "results.csv"
    run(capsys, folder, "--out", out, "--shard", "1/2")
    with locked(out, Shard(1, 2)):
        code, text = run(capsys, folder, "--out", out)
    assert code == 2
    assert "results.csv: another process writes these results; wait for its end" in text
    assert run(capsys, folder, "--out", out)[0] == 0
