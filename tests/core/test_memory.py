"""A reader asks for memory before it uses it."""

import pytest

from vitreous.core.errors import InputError
from vitreous.core.memory import check_memory


def test_more_than_the_setting_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITREOUS_MAX_MEMORY", "2")
    check_memory(2 * 10**9, "x.npz")
    with pytest.raises(InputError) as error:
        check_memory(5 * 10**9, "x.npz")
    assert str(error.value) == (
        "x.npz: takes 5 GB of memory, expected 2 GB at most; "
        "the environment variable VITREOUS_MAX_MEMORY sets this limit in GB"
    )


@pytest.mark.parametrize("size", [10**15, 10**400])
def test_more_than_the_machine_has_is_refused_without_a_setting(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.delenv("VITREOUS_MAX_MEMORY", raising=False)
    check_memory(10**7, "x.npz")
    with pytest.raises(InputError, match=r"x.npz: takes .* GB of memory, expected .* GB at most"):
        check_memory(size, "x.npz")


@pytest.mark.parametrize("setting", ["much", "0", "-1", "nan"])
def test_a_setting_that_is_no_size_is_named(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv("VITREOUS_MAX_MEMORY", setting)
    with pytest.raises(InputError, match=f"VITREOUS_MAX_MEMORY: found '{setting}', expected a number of GB"):
        check_memory(1, "x.npz")
