"""Sources refuse inconsistent data; splits are disjoint, complete, stratified and reproducible."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.data import Axis, Source, Split, Target, split

Parts = dict[str, NDArray[np.intp]]


def classes(*counts: int, parts: Parts | None = None) -> Source:
    """A source with these numbers of samples of each class, shuffled."""
    y = np.random.default_rng(1).permutation(np.repeat(np.arange(len(counts)), counts))
    names = tuple(f"kind {k}" for k in range(len(counts)))
    return Source("kinds", np.zeros((len(y), 1, 4)), y, (Axis(),), ("intensity",), names, parts=parts or {})


def quantities(n: int, parts: Parts | None = None) -> Source:
    y = np.linspace(0, 1, n)[:, None]
    return Source(
        "assays", np.zeros((n, 1, 4)), y, (Axis(),), ("intensity",), targets=(Target("a"),), parts=parts or {}
    )


def rows(*numbers: int) -> NDArray[np.intp]:
    return np.array(numbers, dtype=np.intp)


def all_rows(subsets: Split) -> list[int]:
    return sorted(np.concatenate([subsets.train, subsets.validation, subsets.test]).tolist())


shares = st.floats(0.05, 0.45)
seeds = st.integers(0, 2**32)


@given(counts=st.lists(st.integers(1, 40), min_size=2, max_size=8), validation=shares, test=shares, seed=seeds)
def test_every_class_of_three_or_more_is_in_every_part(
    counts: list[int], validation: float, test: float, seed: int
) -> None:
    source = classes(*counts, 3)
    subsets = split(source, validation, test, seed)
    assert all_rows(subsets) == list(range(len(source)))
    assert source.y is not None
    for kind, count in enumerate([*counts, 3]):
        numbers = [np.sum(source.y[part] == kind) for part in (subsets.train, subsets.validation, subsets.test)]
        assert all(numbers) if count >= 3 else numbers == [count, 0, 0]


@given(n=st.integers(3, 200), validation=shares, test=shares, seed=seeds)
def test_quantities_are_split_by_share(n: int, validation: float, test: float, seed: int) -> None:
    subsets = split(quantities(n), validation, test, seed)
    assert all_rows(subsets) == list(range(n))
    for part, share in ((subsets.train, 1 - validation - test), (subsets.validation, validation), (subsets.test, test)):
        assert len(part) >= 1
        assert abs(len(part) - share * n) <= 2
        assert np.all(np.diff(part) > 0)


@given(seed=seeds)
def test_stratified_parts_have_the_share_of_the_whole_and_of_every_class(seed: int) -> None:
    source = classes(500, 300, 200, 14, 14, 14, 14, 14)
    subsets = split(source, 0.1, 0.2, seed)
    assert abs(len(subsets.validation) - 107) <= 1
    assert abs(len(subsets.test) - 214) <= 1
    assert source.y is not None
    assert np.abs(np.bincount(source.y[subsets.test])[:3] - [100, 60, 40]).max() <= 1


@given(seed=seeds)
def test_equal_seeds_draw_equal_rows_and_others_do_not(seed: int) -> None:
    for source in (classes(50, 50), quantities(100)):
        one, again, other = split(source, seed=seed), split(source, seed=seed), split(source, seed=seed + 1)
        assert np.array_equal(one.test, again.test)
        assert np.array_equal(one.validation, again.validation)
        assert not np.array_equal(one.test, other.test)


def test_predefined_parts_are_used_and_the_rest_is_drawn_from_train() -> None:
    source = quantities(100, {"train": np.arange(60), "test": np.arange(99, 69, -1)})
    subsets = split(source, validation=0.25)
    assert subsets.test.tolist() == list(range(70, 100))
    assert len(subsets.validation) == 15
    assert sorted([*subsets.train, *subsets.validation]) == list(range(60))  # 60 to 69 are in no part


def test_without_train_the_rest_is_drawn_from_all_other_rows() -> None:
    subsets = split(classes(20, 20, parts={"validation": rows(1, 5, 9)}), test=0.2)
    assert subsets.validation.tolist() == [1, 5, 9]
    assert all_rows(subsets) == list(range(40))


def test_a_complete_predefined_split_ignores_the_shares() -> None:
    given_parts = {"train": rows(0, 1), "validation": rows(2), "test": rows(3)}
    subsets = split(quantities(4, given_parts), validation=5, test=-1)
    assert [subsets.train.tolist(), subsets.validation.tolist(), subsets.test.tolist()] == [[0, 1], [2], [3]]


def test_a_share_of_zero_asks_for_no_such_part() -> None:
    subsets = split(classes(20, 20), validation=0.1, test=0)
    assert (len(subsets.train), len(subsets.validation), len(subsets.test)) == (36, 4, 0)


def test_a_source_without_labels_is_split_at_random() -> None:
    source = Source("unknown", np.zeros((10, 1, 4)), None, (Axis(),), ("intensity",))
    assert all_rows(split(source)) == list(range(10))


BAD_SPLITS: list[tuple[Callable[[], object], str]] = [
    (lambda: split(quantities(9), validation=1.5), "validation: found 1.5, expected fractions from 0 to below 1"),
    (lambda: split(quantities(9), test=-0.1), "test: found -0.1"),
    (lambda: split(quantities(9), test=float("nan")), "found nan"),
    (lambda: split(quantities(9), validation=0.5, test=0.5), "that leave rows to train"),
    (lambda: split(quantities(2)), "assays: validation would be empty, with 2 sample"),
    (lambda: split(classes(2, 2)), "kinds: validation would be empty"),
    (lambda: split(quantities(3, {"validation": rows(0), "test": rows(1, 2)})), "train would be empty"),
    (lambda: quantities(3, {"test": rows()}), "part 'test' is empty"),
    (lambda: quantities(3, {"test": rows(0, 3)}), "part 'test' names row 3, but there are 3 samples"),
    (lambda: quantities(3, {"test": rows(-1)}), "part 'test' names row -1"),
    (lambda: quantities(3, {"test": rows(0), "train": rows(0, 1)}), "row 0 is in more than one part"),
    (lambda: quantities(3, {"tset": rows(0)}), "part: unknown choice 'tset'; expected one of: train, validation, test"),
]


@pytest.mark.parametrize(("create", "message"), BAD_SPLITS, ids=[message for _, message in BAD_SPLITS])
def test_a_bad_split_is_reported_in_one_line(create: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as error:
        create()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


X = np.zeros((3, 1, 4))
BAD_SOURCES: dict[str, dict[str, Any]] = {
    "expected (samples, channels, *grid)": {"axes": ()},
    "3 samples but 2 labels": {"y": np.zeros((2, 1))},
    "found no samples": {"x": X[:0], "y": None},
    "one class only, 'a'": {"y": np.zeros(3, dtype=int), "classes": ("a", "b"), "targets": ()},
    "target 'assay' is constant (7)": {"y": np.full((3, 1), 7.0)},
    "target 'assay' has 1 missing or infinite value(s), the first in row 1": {"y": np.array([[1], [np.nan], [2]])},
}


@pytest.mark.parametrize("message", BAD_SOURCES)
def test_a_bad_source_is_reported_in_one_line(message: str) -> None:
    good = {"name": "s", "x": X, "y": np.arange(3.0)[:, None], "axes": (Axis(),), "channels": ("intensity",)}
    good["targets"] = (Target("assay", "mg"),)
    assert Source(**good).input == (1, 4)  # type: ignore[arg-type]
    with pytest.raises(InputError) as error:
        Source(**good | BAD_SOURCES[message])  # type: ignore[arg-type]
    assert message in str(error.value)


def test_labels_contain_the_unit() -> None:
    assert (Axis("wavelength", "nm").label, Axis().label) == ("wavelength (nm)", "index")
    assert (Target("assay", "mg").label, Target("pH").label) == ("assay (mg)", "pH")
