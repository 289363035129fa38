"""Shared by all tests: one seed, one browser."""

import pytest
import torch

from tests.browser import browser  # noqa: F401


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
