"""`ViTClassifier` and `ViTRegressor` follow the scikit-learn API, for `Pipeline`, `cross_val_score`, `GridSearchCV`.

They are trained by the loop of every run, with the template for one's own data, and hold the files of their run.
"""
# ruff: noqa: N803 (scikit-learn's X)

import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # type: ignore[import-untyped]
from sklearn.utils import check_random_state  # type: ignore[import-untyped]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]

from vitreous.core.atomic import make_folder, write_atomically
from vitreous.core.checksums import read_json, write_checksums
from vitreous.core.errors import InputError
from vitreous.data.augment import Augment
from vitreous.data.source import Axis, Source, Target
from vitreous.nn.config import ViTConfig
from vitreous.nn.models import Config
from vitreous.run.familiarity import FAMILIARITY
from vitreous.run.folder import METRICS, RESULT, TASK, WITH_CHECKSUMS, read_result
from vitreous.run.predictor import load as load_run
from vitreous.run.task import Classification, Mixture, Regression
from vitreous.train.finetune import read_start
from vitreous.train.own_data import own_data_job
from vitreous.train.supervised import SupervisedJob
from vitreous.train.trainer import train
from vitreous.zoo.weights import CONFIG, WEIGHTS

__all__ = ["ViTClassifier", "ViTRegressor"]

_RUN = (CONFIG, WEIGHTS, TASK, METRICS, RESULT, FAMILIARITY)
_TOGETHER = 8  # fewer samples are computed in another order, and their last digits differ
_ABOUT = "estimator.json"  # beside them in a saved folder: what scikit-learn wants to know and a run does not


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """`X` is `(samples, points)` for spectra, `(samples, height, width)` or `(samples, channels, height, width)` for
    images. Fitted attributes: `predictor_` (see `Predictor`), `result_` (scores and time), `run_` (files).
    A parameter that is None is chosen to fit the data.

    Args:
        model: vit | cnn.
        epochs, steps: how long to train; give one of them at most.
        batch: samples of a step.
        lr: highest learning rate.
        dim, depth, patch: width, blocks and patch of a `vit`; the patch in points along each axis.
        loss: of a regressor, one of `LOSSES`; `gaussian` learns how uncertain each prediction is.
        scale: how samples are scaled, one of `SCALINGS`.
        pretrained: folder of a finished run, of `vitreous pretrain` or of other labels, whose encoder is trained
            further; the model's settings are then those of that run.
        layer_decay: with `pretrained`, factor of the learning rate from each layer to the one below.
        freeze: with `pretrained`, train the head alone.
        augment: whether training samples are shifted, tilted and made noisy a little. That is for points in the order
            of a spectrum or an image; turn it off for features of another kind.
        validation_fraction: share of the samples that choose the best weights and calibrate the intervals; with too
            few samples there is no such part, and neither are there intervals.
        random_state: seed of the split, the initialisation and the training.
        device: auto | cpu | cuda.
        verbose: whether to show a progress bar.
    """

    _kinds: tuple[str, ...]  # of tasks, in `task.json`

    def __init__(
        self,
        *,
        model: str = "vit",
        epochs: float | None = None,
        steps: int | None = None,
        batch: int | None = None,
        lr: float | None = None,
        dim: int | None = None,
        depth: int | None = None,
        patch: int | tuple[int, ...] | None = None,
        loss: str | None = None,
        scale: str | None = None,
        pretrained: str | PathLike[str] | None = None,
        layer_decay: float | None = None,
        freeze: bool = False,
        augment: bool = True,
        validation_fraction: float = 0.1,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "auto",
        verbose: bool = False,
    ) -> None:
        self.model, self.epochs, self.steps, self.batch, self.lr = model, epochs, steps, batch, lr
        self.dim, self.depth, self.patch, self.loss, self.scale = dim, depth, patch, loss, scale
        self.pretrained, self.layer_decay, self.freeze, self.augment = pretrained, layer_decay, freeze, augment
        self.validation_fraction, self.random_state = validation_fraction, random_state
        self.device, self.verbose = device, verbose

    def save(self, folder: str | PathLike[str]) -> None:
        """Write a run folder, which `vitreous.load`, the commands and `load` read."""
        check_is_fitted(self)
        folder = Path(folder)
        if (folder / CONFIG).exists():
            raise InputError(f"{folder}: holds a run already; choose another folder")
        make_folder(folder)
        about = json.dumps(self._about(), indent=1, default=_plain) + "\n"
        for name, content in {_ABOUT: about.encode(), **self.run_}.items():
            write_atomically(folder / name, content)
        write_checksums(folder, WITH_CHECKSUMS)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """The fitted estimator of a folder that `save` or `vitreous train` wrote."""
        folder = Path(folder)
        try:
            about = read_json(folder / _ABOUT) if (folder / _ABOUT).is_file() else {}
            estimator = cls(**about.get("parameters", {}))
        except InputError:
            raise
        except (ValueError, TypeError, AttributeError) as fault:
            raise InputError(f"{folder / _ABOUT}: is damaged ({fault})") from None
        estimator._take(folder)
        if (kind := estimator.predictor_.task.kind) not in cls._kinds:
            raise InputError(f"{folder}: holds a {kind}, expected a {cls._kinds[0]} for {cls.__name__}")
        channels, first, *_ = estimator.predictor_.model.config.input
        estimator.n_features_in_ = about.get("features", first if channels == 1 else channels)
        if "names" in about:
            estimator.feature_names_in_ = np.array(about["names"], dtype=object)
        estimator._restore(about)
        return estimator

    def _fit(self, source: Source) -> Self:
        """Train in a folder that does not outlast it."""
        with TemporaryDirectory(prefix="vitreous-") as folder:
            run = Path(folder) / type(self).__name__
            train(self._job(source), run, device=self.device, bar=bool(self.verbose))
            return self._take(run)

    def _take(self, run: Path) -> Self:
        """Keep a run's files, and what can be made from them."""
        device = "cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu"
        self.predictor_ = load_run(run, device)
        self.run_ = {name: (run / name).read_bytes() for name in _RUN if (run / name).is_file()}
        self.result_ = read_result(run)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """The files instead of the predictor, so that what was trained on a GPU is unpickled anywhere."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "predictor_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "run_" in state:
            with TemporaryDirectory(prefix="vitreous-") as folder:
                for name, content in self.run_.items():
                    (Path(folder) / name).write_bytes(content)
                self._take(Path(folder))

    def _source(self, X: NDArray[np.float32], y: NDArray[Any], **labels: Any) -> Source:
        """Samples from memory, on axes that count points."""
        x = _with_channels(X)
        axes, channels = (Axis(),) * (x.ndim - 2), tuple(map(str, range(x.shape[1])))
        return Source(type(self).__name__, x, y, axes, channels, **labels)

    def _job(self, source: Source) -> SupervisedJob:
        """The template for this data, changed by the parameters."""
        if self.augment not in (True, False):
            raise InputError(f"augment: found {self.augment!r}, expected True or False")
        if self.epochs is not None and not (_is(self.epochs, Real) and self.epochs > 0):
            raise InputError(f"epochs: found {self.epochs!r}, expected a number above 0")
        if self.epochs is not None and self.steps is not None:
            raise InputError(f"steps: found {self.steps} beside epochs = {self.epochs}; give one of them")
        start = None if self.pretrained is None else read_start(self.pretrained)
        job = own_data_job(source, self.model, self.scale or "")
        if start is not None and start.model.config.kind != job.config.kind:
            raise InputError(f"pretrained: {start.name} is a {type(start.model).__name__}, expected a {self.model}")
        config = self._shaped(job.config if start is None else start.model.config)
        augment, loss = job.augment if self.augment else Augment(), self.loss or job.loss_name
        share = self._validation(source)
        job = replace(job, config=config, start=start, augment=augment, loss_name=loss, validation=share, test=0.0)
        changes = {name: getattr(self, name) for name in ("epochs", "steps", "batch", "lr", "layer_decay")}
        return job.with_changes(changes | {"seed": self._seed(), "freeze": self.freeze})

    def _shaped(self, config: Config) -> Config:
        names = [name for name in ("dim", "depth", "patch") if getattr(self, name) is not None]
        if not isinstance(config, ViTConfig):
            if names:
                raise InputError(f"{names[0]}: is a setting of the model vit, not of {self.model}")
            return config
        changes: dict[str, Any] = {name: getattr(self, name) for name in names}
        if _is(self.dim, Integral):
            changes["heads"] = math.gcd(changes["dim"], config.heads)
        return replace(config, **changes)

    def _seed(self) -> int:
        state: Any = self.random_state
        return int(state if _is(state, Integral) else check_random_state(state).randint(2**31 - 1))

    def _validation(self, source: Source) -> float:
        """The share to validate on: none where that would be fewer than two samples, or than one of each class."""
        share = self.validation_fraction
        if not _is(share, Real) or not 0 <= share < 1:
            raise InputError(f"validation_fraction: found {share!r}, expected a number from 0 to below 1")
        least = max(2, len(source.classes))
        if source.classes and np.bincount(np.asarray(source.y)).max() < 3:
            return 0.0  # such small classes train whole
        return float(share) if round(float(share) * len(source)) >= least else 0.0

    def _check(self, X: Any, *y: Any, **options: Any) -> Any:
        """`X`, or `X` and `y`, as scikit-learn checks them; without `y`, of the shape that was fitted."""
        with np.errstate(over="ignore"):  # what overflows is found below
            options |= {"dtype": np.float32, "allow_nd": True, "ensure_all_finite": False, "reset": bool(y)}
            checked = validate_data(self, X, *y, **options)
        samples = checked[0] if y else checked
        if samples.ndim > 5:
            raise InputError(f"X: found {samples.ndim} axes, expected (samples, points) or (samples, channels, *grid)")
        finite = np.isfinite(samples).reshape(len(samples), -1).all(axis=1)
        if not finite.all():
            row = int(np.flatnonzero(~finite)[0])
            raise InputError(f"X: sample {row} has NaN, infinity or a value too large for float32")
        return checked

    def _predict(self, X: Any, *names: str, coverage: float | None = None) -> list[NDArray[np.float64]]:
        """What a `Prediction` says under the given names."""
        check_is_fitted(self)
        samples = _with_channels(self._check(X))
        together = np.resize(samples, (_TOGETHER, *samples.shape[1:])) if len(samples) < _TOGETHER else samples
        prediction = self.predictor_(together, coverage)
        return [getattr(prediction, name)[: len(samples)] for name in names]

    def familiarity(self, X: ArrayLike) -> NDArray[np.float64]:
        """How much each sample resembles the training data: the share of such samples that are as unusual as it is.

        Below 0.01 a sample is unlike them, and its prediction should not be trusted.
        """
        check_is_fitted(self)
        if self.predictor_.familiarity is None:
            raise InputError("familiarity: is not known; the model was fitted by an earlier version, or to few samples")
        return self._predict(X, "familiarity")[0]

    def _about(self) -> dict[str, Any]:
        """What `load` needs beside the run."""
        parameters = self.get_params(deep=False)
        if not _is(self.random_state, Integral):
            parameters["random_state"] = None  # a generator has no place in JSON
        about = {"parameters": parameters, "features": self.n_features_in_}
        return about | ({"names": list(self.feature_names_in_)} if hasattr(self, "feature_names_in_") else {})

    def _restore(self, about: Mapping[str, Any]) -> None:
        """Set the attributes of one kind of estimator from what `_about` returned, or from the run if that is empty."""
        raise NotImplementedError


class ViTClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A Vision Transformer or CNN that classifies samples. Fitted attributes: those below and `classes_`.

    >>> import numpy as np
    >>> X = np.eye(4)[[0, 3] * 10] + np.linspace(0, 0.1, 20)[:, None]
    >>> model = ViTClassifier(steps=60, lr=0.01, dim=16, depth=1).fit(X, ["left", "right"] * 10)
    >>> model.predict(X[:2]).tolist()
    ['left', 'right']
    """

    __doc__ = f"{__doc__}\n{_Estimator.__doc__}"
    _kinds = (Classification.kind,)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on samples and their classes, which may be numbers or words."""
        samples, labels = self._check(X, y, ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        names = tuple(map(str, self.classes_.tolist()))
        return self._fit(self._source(samples, numbers, classes=names))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likeliest class of each sample."""
        probabilities = self.predict_proba(X)  # checks that the estimator is fitted
        likeliest: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return likeliest

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities `(samples, classes)`, in the order of `classes_`."""
        return self._predict(X, "probabilities")[0]

    def _about(self) -> dict[str, Any]:
        return super()._about() | {"classes": self.classes_.tolist(), "type": self.classes_.dtype.str}

    def _restore(self, about: Mapping[str, Any]) -> None:
        self.classes_ = np.array(about.get("classes", self.predictor_.task.classes), dtype=about.get("type"))


class ViTRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """A Vision Transformer or CNN that predicts one or many quantities.

    `y` is `(samples,)` or `(samples, targets)`, and so is what is predicted, in the same units.

    >>> import numpy as np
    >>> X = np.linspace(0, 1, 40)[:, None] * np.ones(8)
    >>> ViTRegressor(steps=40, dim=16, depth=1).fit(X, X[:, 0]).predict(X).shape
    (40,)
    """

    __doc__ = f"{__doc__}\n{_Estimator.__doc__}"
    _kinds = (Regression.kind, Mixture.kind)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on samples and their quantities."""
        samples, values = self._check(X, y, ensure_min_samples=2, multi_output=True, y_numeric=True)
        self._flat = values.ndim == 1
        values = values.reshape(len(values), -1).astype(np.float64)
        names = ["y"] if self._flat else [f"y {k + 1}" for k in range(values.shape[1])]
        return self._fit(self._source(samples, values, targets=tuple(map(Target, names)), allow_constant=True))

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """The quantities of each sample, in the units of the `y` that was fitted."""
        return self._like_y(*self._predict(X, "values"))

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper bounds between which the truth lies with the probability `coverage`, for each target.

        Split conformal: calibrated on the validation part, whatever the errors' distribution; of one width for all
        samples unless the loss is `gaussian`.
        """
        lower, upper = map(self._like_y, self._predict(X, "lower", "upper", coverage=coverage))
        return lower, upper

    def _like_y(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """`(samples,)` where the fitted `y` was that, else `(samples, targets)`."""
        return values[:, 0] if self._flat else values

    def _about(self) -> dict[str, Any]:
        return super()._about() | {"flat": self._flat}

    def _restore(self, about: Mapping[str, Any]) -> None:
        self._flat = bool(about.get("flat", len(self.predictor_.task.targets) == 1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _with_channels(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """`(n, points)` and `(n, H, W)` with their one channel; more axes have channels already."""
    return X[:, None] if X.ndim < 4 else X


def _is(value: Any, kind: type) -> bool:
    """Whether a number, NumPy's included, is of a kind of `numbers`; parameters are what the user made them."""
    return isinstance(value, kind)


def _plain(value: Any) -> Any:
    """Paths and NumPy's numbers, as a grid search sets them, for JSON."""
    return os.fspath(value) if isinstance(value, PathLike) else value.item()
