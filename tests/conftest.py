"""Shared by all tests: one seed, one thread a process, and a small model to build upon."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
