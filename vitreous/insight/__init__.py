# ruff: noqa: F401, I001
# mypy: implicit-reexport
"""Insight into a run: attention maps, attributions, figures of its predictions and positions, and its report.

Functions take a predictor (`vt.load(run)`) or plain arrays; figures are matplotlib figures. A module is imported on
first use of one of its names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitreous.insight.attention import attention_maps, head_measures, heads_figure, maps_figure, rollout_map
    from vitreous.insight.attribution import ExplainedSample, compute_maps, integrated_gradients
    from vitreous.insight.explanation import Explanation, Faithfulness, deletion_test, explain, explain_heads
    from vitreous.insight.explanation import faithfulness_figure
    from vitreous.insight.positions import bias_figure, similarity_figure, sinusoidal_figure
    from vitreous.insight.report import read_run, write_report
    from vitreous.insight.style import save
    from vitreous.insight.training import effects_figure, pretraining_figure, training_figure

_MODULES = {  # module: its public names
    "attention": ("attention_maps", "head_measures", "heads_figure", "maps_figure", "rollout_map"),
    "attribution": ("ExplainedSample", "compute_maps", "integrated_gradients"),
    "explanation": ("Explanation", "Faithfulness", "deletion_test", "explain", "explain_heads", "faithfulness_figure"),
    "positions": ("bias_figure", "similarity_figure", "sinusoidal_figure"),
    "report": ("read_run", "write_report"),
    "style": ("save",),
    "training": ("effects_figure", "pretraining_figure", "training_figure"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"vitreous.insight.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'vitreous.insight' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
