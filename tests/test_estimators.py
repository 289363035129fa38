"""The estimators keep scikit-learn's contract, its own suite says, and give what a run gives."""

import copy
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import vitreous as vt
from tests.users import python
from vitreous import InputError, ViTClassifier, ViTRegressor

Array = NDArray[np.float64]
TINY: dict[str, Any] = {"steps": 80, "lr": 1e-2, "dim": 16, "depth": 1, "augment": False, "device": "cpu"}
BRIEF = TINY | {"steps": 2}
CHECKS = [
    (estimator, check)
    for each in (ViTClassifier(**TINY | {"steps": 50}), ViTRegressor(**TINY))
    for estimator, check in estimator_checks_generator(each)
    if "array_api" not in str(check)  # inputs that are not NumPy arrays, which no parameter here asks for
]


@pytest.mark.parametrize(
    ("estimator", "check"), CHECKS, ids=lambda each: type(each).__name__ if hasattr(each, "fit") else each.func.__name__
)
def test_scikit_learn_finds_no_fault(estimator: Any, check: Any) -> None:
    check(estimator)


def peaks(count: int = 120, points: int = 24, seed: int = 0) -> tuple[Array, Array]:
    """Spectra of one peak, and its place in nm."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(6, points - 6, count)
    x = np.exp(-(((np.arange(points) - place[:, None]) / 3) ** 2)) + rng.normal(0, 0.02, (count, points))
    return x, 2 * place + 500


def sides(count: int = 120, seed: int = 0) -> tuple[Array, NDArray[np.str_]]:
    x, place = peaks(count, seed=seed)
    return x, np.where(place > 524, "right", "left")


def test_the_package_loads_neither_torch_nor_scikit_learn_until_they_are_needed() -> None:
    code = "import sys, vitreous; print('ViTRegressor' in dir(vitreous), {'torch', 'sklearn'} & set(sys.modules))"
    assert python(code).split("\n")[0] == "True set()"


def test_both_work_in_a_pipeline_and_under_cross_validation() -> None:
    classifier = make_pipeline(StandardScaler(), ViTClassifier(**TINY))
    assert cross_val_score(classifier, *sides(), cv=3).mean() > 0.9
    regressor = make_pipeline(StandardScaler(), ViTRegressor(**TINY))
    assert cross_val_score(regressor, *peaks(), cv=3).mean() > 0.8


def test_a_grid_search_finds_that_one_step_is_too_few() -> None:
    search = GridSearchCV(ViTRegressor(**TINY), {"steps": np.array([1, 80])}, cv=2).fit(*peaks())
    assert search.best_params_ == {"steps": 80}
    assert search.score(*peaks(seed=1)) > 0.8


@pytest.mark.parametrize(("kind", "data"), [(ViTClassifier, sides), (ViTRegressor, peaks)])
def test_saved_and_loaded_it_predicts_the_same(kind: Any, data: Any, tmp_path: Path) -> None:
    x, y = data()
    fitted = kind(**TINY).fit(x, y)
    fitted.save(tmp_path / "run")
    loaded = kind.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict(x), fitted.predict(x))
    assert loaded.predict(x).dtype == fitted.predict(x).dtype
    assert loaded.get_params() == fitted.get_params()
    assert loaded.score(x, y) == fitted.score(x, y) > 0.8
    answer = vt.load(tmp_path / "run")(x)  # and it is a run like any other
    one = answer.labels if answer.values is None else answer.values[:, 0]
    np.testing.assert_array_equal(one, fitted.predict(x))
    with pytest.raises(InputError, match="holds a run already"):
        fitted.save(tmp_path / "run")


@pytest.mark.parametrize("y", [[3, 7] * 5, [True, False] * 5, [1.0, 2.0] * 5, np.array(["a", "b"] * 5, dtype=object)])
def test_classes_come_back_as_they_were_given(y: Any, tmp_path: Path) -> None:
    fitted = ViTClassifier(**BRIEF).fit(peaks(10)[0], y)
    fitted.save(tmp_path / "run")
    loaded = ViTClassifier.load(tmp_path / "run")
    assert loaded.classes_.dtype == fitted.classes_.dtype
    assert loaded.classes_.tolist() == fitted.classes_.tolist()


def test_a_run_of_the_command_line_is_loaded_too(tmp_path: Path) -> None:
    from vitreous.data import Axis, Source, Target
    from vitreous.train import SupervisedJob, TrainConfig, train

    x, y = peaks(40)
    source = Source("peaks", x[:, None], y[:, None], (Axis(),), ("i",), (), (Target("at", "nm"),))
    model = vt.ViTConfig(input=(1, 24), patch=(4,), dim=16, depth=1, heads=2)
    train(SupervisedJob(source, model, TrainConfig(steps=2, batch=8)), tmp_path / "run", device="cpu", bar=False)
    loaded = ViTRegressor.load(tmp_path / "run")
    assert loaded.predict(x).shape == (40,)
    with pytest.raises(InputError, match="holds a regression, expected a classification for ViTClassifier"):
        ViTClassifier.load(tmp_path / "run")


def test_copies_and_pickles_predict_the_same_and_no_folder_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    x, y = peaks(30)
    fitted = ViTRegressor(**BRIEF).fit(x, y)
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.predict(x), fitted.predict(x))
    assert not list(tmp_path.iterdir())


def test_intervals_cover_as_promised_and_follow_the_noise() -> None:
    def spectra(count: int, seed: int) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(seed)
        place, height = rng.uniform(8, 24, count), rng.uniform(0.3, 3, count)
        x = height[:, None] * np.exp(-(((np.arange(32) - place[:, None]) / 3) ** 2))
        noise = 0.2 + 2 * (place - 8) / 16
        return x, place + noise * rng.normal(size=count), noise

    x, y, _ = spectra(5000, seed=0)
    settings = TINY | {"steps": 400, "lr": 5e-3, "depth": 2, "patch": 4}
    fitted = ViTRegressor(loss="gaussian", validation_fraction=0.5, **settings).fit(x, y)
    fresh, truth, noise = spectra(10_000, seed=1)
    lower, upper = fitted.predict_interval(fresh, coverage=0.9)
    inside = (lower <= truth) & (truth <= upper)
    assert 0.88 <= inside.mean() <= 0.92
    assert inside[noise < 0.7].mean() == pytest.approx(0.9, abs=0.06)  # where it is quiet as where it is loud
    assert inside[noise > 1.7].mean() == pytest.approx(0.9, abs=0.06)
    assert np.corrcoef(upper - lower, noise)[0, 1] > 0.9


@pytest.mark.parametrize("count", [2, 3, 5, 19, 20])
@pytest.mark.parametrize("points", [1, 2, 130])
def test_any_number_of_samples_and_points_will_do(count: int, points: int) -> None:
    x = np.random.default_rng(0).normal(size=(count, points))
    assert ViTRegressor(**BRIEF).fit(x, x[:, 0]).predict(x).shape == (count,)
    assert set(ViTClassifier(**BRIEF).fit(x, x[:, 0] > np.median(x[:, 0])).predict(x)) <= {True, False}


@pytest.mark.parametrize("model", ["vit", "cnn"])
def test_images_with_and_without_channels(model: str) -> None:
    x = np.random.default_rng(0).normal(size=(30, 3, 8, 9))
    settings = {"model": model, "steps": 2, "device": "cpu"}
    fitted = ViTClassifier(**settings).fit(x, ["a", "b", "c"] * 10)
    assert fitted.predict_proba(x).shape == (30, 3)
    assert fitted.predictor_.model.config.input == (3, 8, 9)
    grey = ViTRegressor(**settings).fit(x[:, 0], x[:, 0, 0, 0])
    assert grey.predictor_.model.config.input == (1, 8, 9)
    assert grey.predict(x[:, 0]).shape == (30,)


def test_many_targets_each_keep_their_own_scale() -> None:
    x, y = peaks(200)
    both = np.stack([y, -1e-3 * y], axis=1)
    fitted = ViTRegressor(**TINY).fit(x, both)
    assert fitted.predict(x).shape == (200, 2)
    assert fitted.score(x, both) > 0.8
    assert [bound.shape for bound in fitted.predict_interval(x, 0.8)] == [(200, 2)] * 2
    assert ViTRegressor(**BRIEF).fit(x, y[:, None]).predict(x).shape == (200, 1)


def test_a_target_that_never_changes_is_predicted_exactly() -> None:
    x, y = peaks(30)
    np.testing.assert_allclose(ViTRegressor(**BRIEF).fit(x, np.full(30, 1e-5)).predict(x), 1e-5, rtol=1e-12)
    mixed = ViTRegressor(**TINY).fit(x, np.stack([np.full(30, 7.0), y], axis=1))
    np.testing.assert_array_equal(mixed.predict(x)[:, 0], 7.0)
    assert mixed.predict(x)[:, 1].std() > 0.1


def test_a_small_spread_about_a_large_mean_is_resolved() -> None:
    x, y = peaks()
    assert ViTRegressor(**TINY).fit(x, 1e9 + 0.01 * y).score(x, 1e9 + 0.01 * y) > 0.8


def test_what_a_parameter_says_is_what_is_trained() -> None:
    x, y = peaks(100)
    fitted = ViTRegressor(
        epochs=2, batch=10, dim=18, depth=1, patch=5, scale="sample", validation_fraction=0.2, device="cpu"
    ).fit(x, y)
    config = fitted.predictor_.model.config
    assert (config.dim, config.depth, config.patch) == (18, 1, (5,))
    assert fitted.predictor_.scaling.kind == "sample"
    assert fitted.result_["steps"] == 16  # twice 80 samples in tens
    assert len(fitted.predictor_.task.scores[0]) == 20


def test_the_seed_decides() -> None:
    x, y = peaks(30)
    one, other, same = (ViTRegressor(**BRIEF, random_state=seed).fit(x, y).predict(x) for seed in (1, 2, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    drawn = ViTRegressor(**BRIEF, random_state=np.random.RandomState(5)).fit(x, y)
    assert np.isfinite(drawn.predict(x)).all()


def wrong(**parameters: Any) -> Any:
    return lambda: ViTRegressor(**BRIEF | parameters).fit(*peaks(20))


BAD = {
    "model: unknown choice 'resnet'; expected one of: vit, cnn": wrong(model="resnet"),
    "loss: unknown choice 'cosine'": wrong(loss="cosine"),
    "scale: unknown choice 'minmax'": wrong(scale="minmax"),
    "device: unknown choice 'tpu'": wrong(device="tpu"),
    "patch: (25,) is larger than the grid (24,)": wrong(patch=25),
    "dim: found '16', expected a whole number": wrong(dim="16"),
    "dim: is a setting of the model vit, not of cnn": wrong(model="cnn"),
    "steps: found 0, expected at least 1": wrong(steps=0),
    "steps: found 2 beside epochs = 1": wrong(epochs=1),
    "epochs: found -1, expected a number above 0": wrong(epochs=-1, steps=None),
    "augment: found 'no', expected True or False": wrong(augment="no"),
    "validation_fraction: found 1.0, expected a number from 0 to below 1": wrong(validation_fraction=1.0),
    "X: sample 3 has NaN": lambda: ViTRegressor(**BRIEF).fit(
        np.where(np.arange(20)[:, None] == 3, np.nan, 0), [0] * 20
    ),
    "too large for float32": lambda: ViTRegressor(**BRIEF).fit(peaks(20)[0] * 1e300, peaks(20)[1]),
    "one class only, 'a'": lambda: ViTClassifier(**BRIEF).fit(peaks(20)[0], ["a"] * 20),
    "loss: 'mse' is for regression": lambda: ViTClassifier(**BRIEF, loss="mse").fit(*sides(20)),
    "X has 23 features, but ViTRegressor is expecting 24": lambda: wrong()().predict(peaks(20)[0][:, 1:]),
    "found samples of shape (1, 24, 24), expected (1, 24)": lambda: wrong()().predict(np.zeros((2, 24, 24))),
    "intervals need a run that was calibrated": lambda: wrong(validation_fraction=0)().predict_interval(peaks(20)[0]),
    "coverage: 2 validation samples bound 0.667 at most": lambda: wrong()().predict_interval(peaks(20)[0]),
    "nowhere: is no run folder": lambda: ViTRegressor.load("nowhere"),
}


@pytest.mark.parametrize("message", BAD)
def test_a_mistake_is_answered_in_one_line(message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is compared below)
        BAD[message]()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unfitted_estimator_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        ViTRegressor().save(tmp_path / "run")


def test_a_damaged_note_of_the_estimator_is_named(tmp_path: Path) -> None:
    ViTRegressor(**BRIEF).fit(*peaks(20)).save(tmp_path)
    (tmp_path / "estimator.json").write_text('{"parameters": {"colour": 1}}')
    with pytest.raises(InputError, match=r"estimator\.json: is damaged"):
        ViTRegressor.load(tmp_path)
