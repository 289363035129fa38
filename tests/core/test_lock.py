"""Locks: one process at a time writes to a folder, however the one before it ended."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from vitreous.core.atomic import clear_temporaries
from vitreous.core.errors import InputError
from vitreous.core.lock import InUseError, lock_folder

HOLDER = "import sys, time; from pathlib import Path; from vitreous.core.lock import lock_folder\n"
HOLDER += "with lock_folder(Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[bytes]:
    """A process that holds the lock of a folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "run")], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    return process


def test_a_lock_is_held_until_its_process_is_killed(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    message = rf"run: another training \(process {holder.pid}\) is running in this folder"
    with pytest.raises(InUseError, match=message), lock_folder(tmp_path / "run"):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with lock_folder(tmp_path / "run"):
        pass
    assert not (tmp_path / "run" / ".lock").exists()


def test_a_process_locks_a_folder_once(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(InUseError), lock_folder(tmp_path):
        pass
    with lock_folder(tmp_path):
        pass


def test_a_new_folder_without_files_is_removed_at_the_end(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert not (tmp_path / "a").exists()
    with lock_folder(tmp_path):
        pass
    assert tmp_path.is_dir()


def test_a_place_that_cannot_be_a_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = r"run: cannot be created as a folder \(Not a directory\)"
    with pytest.raises(InputError, match=message), lock_folder(tmp_path / "file" / "run"):
        pass


def test_only_temporary_files_of_ended_processes_are_cleared(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stays = {f".model.safetensors.{os.getpid()}", ".cache.2024", "model.safetensors", ".lock"}
    for name in (*stays, f".model.safetensors.{ended.pid}"):
        (tmp_path / name).write_text("")
    clear_temporaries(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == stays
