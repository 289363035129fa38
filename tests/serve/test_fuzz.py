"""Mutated uploads: each gets an answer or a 4xx error of one line, and the service is not affected."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.mutations import Upload, mutate_uploads, send_upload, valid_uploads


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory, paths: dict[str, Path]) -> list[Upload]:
    """Valid uploads."""
    return valid_uploads(tmp_path_factory.mktemp("seeds"), paths["run"].parent / "spectra.csv")


def send_mutations(client: TestClient, seeds: list[Upload], count: int) -> dict[str, int]:
    """Send mutated uploads; return the number of responses by status."""
    counts: dict[str, int] = {}
    before = _answers(client, seeds)
    for how, upload in mutate_uploads(seeds, count):
        reply = send_upload(client, upload)
        assert reply.status_code == 200 or 400 <= reply.status_code < 500, (how, upload[:3], reply.text)
        assert reply.status_code != 429, (how, upload[:3])
        if reply.status_code != 200:
            (reason,) = reply.json().values()
            assert len(reason.splitlines()) == 1, (how, reason)
        counts[str(reply.status_code)] = counts.get(str(reply.status_code), 0) + 1
    assert _answers(client, seeds) == before
    return counts


def _answers(client: TestClient, seeds: list[Upload]) -> list[tuple[int, str]]:
    return [(reply.status_code, reply.text) for reply in (send_upload(client, seed) for seed in seeds)]


def test_a_few_hundred_mutated_uploads(client: TestClient, seeds: list[Upload]) -> None:
    counts = send_mutations(client, seeds, 13 * len(seeds))
    assert counts["200"] > 30
    assert counts["422"] > 100
