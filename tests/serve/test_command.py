"""`vitreous serve` as it is started, used and stopped."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.users import fails
from vitreous.data import digits
from vitreous.serve.command import read_token


@contextmanager
def service(*words: str, **environment: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A service in a process of its own, and where it is."""
    process = subprocess.Popen(
        [sys.executable, "-m", "vitreous", "serve", *words, "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield found[0], process
    finally:
        process.kill()
        process.communicate()


def posted(url: str, body: Any, **headers: str) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{url}/v1/predict", json.dumps(body).encode(), {"content-type": "application/json", **headers}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        found: dict[str, Any] = json.load(reply)
    return found


def test_what_was_taken_is_answered_when_the_service_is_stopped(paths: dict[str, Path]) -> None:
    samples = digits().x[:700].tolist()
    with service(str(paths["vit"])) as (url, process):
        posted(url, {"samples": samples[:1]})
        found = list[dict[str, Any]]()
        asking = threading.Thread(target=lambda: found.append(posted(url, {"samples": samples})))
        asking.start()
        while b"vitreous_requests_active 2.0" not in urllib.request.urlopen(f"{url}/metrics").read():
            assert asking.is_alive()
        process.send_signal(signal.SIGTERM)
        asking.join(60)
        assert len(found[0]["rows"]) == 700
        process.wait(30)
        assert process.returncode in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(f"{url}/healthz")


def test_an_exported_model_is_served_without_torch(paths: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch here', name='torch')")
    where = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with service(str(paths["vit.onnx"]), PYTHONPATH=where) as (url, _):
        assert len(posted(url, {"samples": digits().x[:2].tolist()})["rows"]) == 2
        assert urllib.request.urlopen(f"{url}/docs").status == 200


def test_the_token_may_come_from_the_environment_and_is_not_printed(paths: dict[str, Path]) -> None:
    with service(str(paths["vit.onnx"]), VITREOUS_TOKEN="a-good-token") as (url, process):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            posted(url, {"samples": digits().x[:1].tolist()})
        posted(url, {"samples": digits().x[:1].tolist()}, Authorization="Bearer a-good-token")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
        assert out == ""


def test_mistakes_are_told_in_one_line(
    capsys: pytest.CaptureFixture[str], paths: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(paths["vit"])
    assert "neither a run nor --powder" in fails(capsys, "serve")
    assert "is no run folder" in fails(capsys, "serve", str(tmp_path), "--port", "0")
    assert "another model is called 'vit'" in fails(capsys, "serve", run, run, "--port", "0")
    assert "batch: found 0, expected at least 1" in fails(capsys, "serve", run, "--batch", "0")
    assert "none: cannot be read" in fails(capsys, "serve", run, "--token-file", str(tmp_path / "none"))
    assert "cannot listen at 256.0.0.1" in fails(capsys, "serve", run, "--host", "256.0.0.1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot listen at" in fails(capsys, "serve", run, "--port", str(taken.getsockname()[1]))
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert "pip install 'vitreous[serve]'" in fails(capsys, "serve", run)


@pytest.mark.parametrize(
    ("text", "reason"), [("", "is empty"), ("short", "8 letters"), ("two words here", "8 letters")]
)
def test_tokens_that_are_none(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ValueError, match=reason):
        read_token(tmp_path / "token")
    (tmp_path / "token").write_text("  good-token-1234 \n")
    assert read_token(tmp_path / "token") == "good-token-1234"


def test_a_search_ends_with_its_client() -> None:
    with service("--powder") as (url, _):
        host, _, port = url.removeprefix("http://").partition(":")
        body = b'{"example": "triclinic"}'

        def waiting() -> bytes:
            return urllib.request.urlopen(f"{url}/metrics").read()

        head = f"POST /v1/index HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        with socket.create_connection((host, int(port))) as client:
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            while b"vitreous_requests_active 2.0" not in waiting():
                time.sleep(0.01)
        started = time.monotonic()
        while b"vitreous_requests_active 2.0" in waiting():
            time.sleep(0.01)
        assert time.monotonic() - started < 1.5
        assert b'status="499"' in waiting()
