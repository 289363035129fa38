"""`vitreous serve`: start, use and stop."""

import http.client
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.serve.visitor import run_service
from tests.users import fails
from vitreous.data import digits
from vitreous.serve.server import read_token


def post(url: str, body: Any, **headers: str) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{url}/v1/predict", json.dumps(body).encode(), {"content-type": "application/json", **headers}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        content: dict[str, Any] = json.load(reply)
    return content


def test_accepted_requests_are_answered_before_the_service_stops(paths: dict[str, Path]) -> None:
    samples = digits().x[:700].tolist()
    with run_service(str(paths["vit"])) as (url, process):
        post(url, {"samples": samples[:1]})
        answers = list[dict[str, Any]]()
        thread = threading.Thread(target=lambda: answers.append(post(url, {"samples": samples})))
        thread.start()
        while b"vitreous_requests_active 2.0" not in urllib.request.urlopen(f"{url}/metrics").read():
            assert thread.is_alive()
        process.send_signal(signal.SIGTERM)
        thread.join(60)
        assert len(answers[0]["rows"]) == 700
        process.wait(30)
        assert process.returncode in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(f"{url}/healthz")


def test_an_exported_model_is_served_without_torch(paths: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch here', name='torch')")
    where = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with run_service(str(paths["vit.onnx"]), PYTHONPATH=where) as (url, _):
        assert len(post(url, {"samples": digits().x[:2].tolist()})["rows"]) == 2
        assert urllib.request.urlopen(f"{url}/docs").status == 200


def test_a_token_from_the_environment_is_used_and_not_printed(paths: dict[str, Path]) -> None:
    with run_service(str(paths["vit.onnx"]), VITREOUS_TOKEN="a-good-token") as (url, process):
        with pytest.raises(urllib.error.HTTPError, match="401"):
            post(url, {"samples": digits().x[:1].tolist()})
        post(url, {"samples": digits().x[:1].tolist()}, Authorization="Bearer a-good-token")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
        assert out == ""


def test_mistakes_give_errors_of_one_line(
    capsys: pytest.CaptureFixture[str], paths: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(paths["vit"])
    assert "neither a run nor --powder" in fails(capsys, "serve")
    assert "is no run folder" in fails(capsys, "serve", str(tmp_path), "--port", "0")
    (tmp_path / "my.db").write_bytes(b"nothing")
    assert "not a database of phases" in fails(capsys, "serve", "--database", str(tmp_path / "my.db"), "--port", "0")
    assert "no such file" in fails(capsys, "serve", "--database", str(tmp_path / "none"), "--port", "0")
    assert "another model has the name 'vit'" in fails(capsys, "serve", run, run, "--port", "0")
    assert "batch: found 0, expected at least 1" in fails(capsys, "serve", run, "--batch", "0")
    assert "none: cannot be read" in fails(capsys, "serve", run, "--token-file", str(tmp_path / "none"))
    assert "cannot listen at 256.0.0.1" in fails(capsys, "serve", run, "--host", "256.0.0.1")
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        assert "cannot listen at" in fails(capsys, "serve", run, "--port", str(occupied.getsockname()[1]))
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert "pip install 'vitreous[serve]'" in fails(capsys, "serve", run)


def test_an_address_for_other_machines_needs_a_token_a_name_or_consent(
    capsys: pytest.CaptureFixture[str], paths: dict[str, Path]
) -> None:
    message = fails(capsys, "serve", str(paths["vit"]), "--host", "0.0.0.0", "--port", "0")
    assert all(word in message for word in ("0.0.0.0", "--token-file", "VITREOUS_TOKEN", "--name", "--open"))


@pytest.mark.parametrize(("words", "status"), [(("--name", "Lab.example"), 403), (("--open",), 200)])
def test_a_service_with_a_name_answers_to_its_names_only(
    words: tuple[str, ...], status: int, paths: dict[str, Path]
) -> None:
    with run_service(str(paths["vit.onnx"]), "--host", "0.0.0.0", *words) as (url, _):
        statuses = dict[str, int]()
        for host in ("lab.example", "evil.example", "127.0.0.1"):
            connection = http.client.HTTPConnection("127.0.0.1", int(url.rpartition(":")[2]))
            connection.request("GET", "/healthz", headers={"Host": host})
            statuses[host] = connection.getresponse().status
            connection.close()
    assert statuses == {"lab.example": 200, "evil.example": status, "127.0.0.1": 200}


@pytest.mark.parametrize(
    ("text", "message"), [("", "is empty"), ("short", "at least 8"), ("two words here", "at least 8")]
)
def test_invalid_tokens_are_errors(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_token(tmp_path / "token")
    (tmp_path / "token").write_text("  good-token-1234 \n")
    assert read_token(tmp_path / "token") == "good-token-1234"


def test_a_search_ends_when_its_client_disconnects() -> None:
    with run_service("--powder") as (url, _):
        host, _, port = url.removeprefix("http://").partition(":")
        body = b'{"example": "triclinic"}'

        def metrics() -> bytes:
            return urllib.request.urlopen(f"{url}/metrics").read()

        head = f"POST /v1/index HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        with socket.create_connection((host, int(port))) as client:
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            while b"vitreous_requests_active 2.0" not in metrics():
                time.sleep(0.01)
        started = time.monotonic()
        while b"vitreous_requests_active 2.0" in metrics():
            time.sleep(0.01)
        assert time.monotonic() - started < 1.5
        assert b'status="499"' in metrics()
