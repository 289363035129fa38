"""`/v1/index` returns a second phase, and the lines that no phase explains."""

import json
from typing import Any

import pytest

from tests.powder import mixtures
from vitreous.powder.indexing import IndexOptions
from vitreous.serve import responses
from vitreous.serve.index_worker import SearchJob, search
from vitreous.serve.limits import Limits


def answer(phases: int) -> dict[str, Any]:
    """The response for a pattern of two phases."""
    options = IndexOptions(systems=mixtures.SYSTEMS, hints=False, phases=phases)
    record: dict[str, Any] = json.loads(search(SearchJob(options, Limits(), pattern=mixtures.two_phases()))[1])
    responses.IndexResponse.model_validate(record)
    return record


def test_a_second_phase_has_its_cell_share_and_reflections() -> None:
    record = answer(2)
    second = record["second"]
    assert (second["system"], second["centring"]) == ("cubic", "P")
    assert second["refined"]["a"] == pytest.approx(mixtures.MINOR[0], rel=1e-3)
    assert second["share"] + second["first_share"] == pytest.approx(1.0, abs=1e-4)
    assert second["share"] == pytest.approx(1 - mixtures.SHARE, abs=0.02)
    assert second["ticks"][0]["hkl"] == [1, 0, 0]
    assert second["cif"].startswith("data_")
    assert record["unexplained"] == []
    assert record["fit"]["a"] == pytest.approx(mixtures.MAJOR[0], rel=1e-3)


def test_without_a_second_phase_its_lines_are_unexplained() -> None:
    record = answer(1)
    assert record["second"] is None
    assert len(record["unexplained"]) > 4
    assert sum(line["share"] for line in record["unexplained"]) == pytest.approx(1 - mixtures.SHARE, abs=0.1)
