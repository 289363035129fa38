"""Shared by all tests: one seed, one browser."""

import pytest
import torch
from hypothesis import settings

from tests.browser import browser  # noqa: F401

settings.register_profile("tests", deadline=None)  # the machine may be busy
settings.load_profile("tests")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
