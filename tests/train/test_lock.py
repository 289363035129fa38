"""Two trainings in one folder: the second is refused, and nothing of the first is touched."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.test_resume import begin, supervised
from tests.train.test_run import ONE_THREAD
from vitreous.core.errors import InputError
from vitreous.core.lock import InUseError, lock_folder
from vitreous.train import TrainConfig, train
from vitreous.train.checkpoint import LAST


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_training_is_refused(tmp_path: Path, resume: bool) -> None:
    with lock_folder(tmp_path), pytest.raises(InUseError, match=r"another training .* is running in this folder"):
        train(supervised(), tmp_path, resume=resume, device="cpu", bar=False)
    train(supervised(), tmp_path, resume=resume, device="cpu", bar=False)
    assert not (tmp_path / ".lock").exists()


def test_every_process_of_a_refused_training_ends(tmp_path: Path) -> None:
    """Under torchrun one process asks for the lock; the others must not wait for it."""
    script = tmp_path / "job.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from pathlib import Path\n"
        "from tests.train.test_resume import supervised\n"
        "from vitreous.core.lock import InUseError\n"
        "from vitreous.train import train\n"
        f"try:\n    train(supervised(), Path({str(tmp_path / 'run')!r}), device='cpu', bar=False)\n"
        "except InUseError:\n    print('refused', flush=True)\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    with lock_folder(tmp_path / "run"):
        done = subprocess.run(command, env=ONE_THREAD, capture_output=True, text=True, timeout=120)
    assert done.stdout.count("refused") == 2, done.stderr


def test_temporary_files_of_killed_processes_are_cleared(tmp_path: Path) -> None:
    begin(supervised(), tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = [tmp_path / f".config.json.{ended.pid}", tmp_path / LAST.parent / f".{LAST.name}.{ended.pid}"]
    for path in left:
        path.write_bytes(b"half")
    train(supervised(), tmp_path, resume=True, device="cpu", bar=False)
    assert not any(path.exists() for path in left)


def test_a_mistake_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="7 samples cannot be shared evenly"):
        train(supervised(settings=TrainConfig(batch=7, accumulate=2)), tmp_path / "run", bar=False)
    assert not (tmp_path / "run").exists()
