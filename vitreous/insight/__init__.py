"""Insight into a run: attention maps, attributions, figures of its predictions and positions, and its report.

Functions take a predictor (`vt.load(run)`) or plain arrays; figures are matplotlib figures. A module is imported on
first use of one of its names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitreous.insight.attention import attention_maps as attention_maps
    from vitreous.insight.attention import head_measures as head_measures
    from vitreous.insight.attention import heads_figure as heads_figure
    from vitreous.insight.attention import maps_figure as maps_figure
    from vitreous.insight.attention import rollout_map as rollout_map
    from vitreous.insight.attribution import ExplainedSample as ExplainedSample
    from vitreous.insight.attribution import compute_maps as compute_maps
    from vitreous.insight.attribution import integrated_gradients as integrated_gradients
    from vitreous.insight.explanation import Explanation as Explanation
    from vitreous.insight.explanation import explain as explain
    from vitreous.insight.explanation import explain_heads as explain_heads
    from vitreous.insight.faithfulness import Faithfulness as Faithfulness
    from vitreous.insight.faithfulness import deletion_test as deletion_test
    from vitreous.insight.faithfulness import faithfulness_figure as faithfulness_figure
    from vitreous.insight.positions import bias_figure as bias_figure
    from vitreous.insight.positions import similarity_figure as similarity_figure
    from vitreous.insight.positions import sinusoidal_figure as sinusoidal_figure
    from vitreous.insight.report import read_run as read_run
    from vitreous.insight.report import write_report as write_report
    from vitreous.insight.style import save as save
    from vitreous.insight.training import effects_figure as effects_figure
    from vitreous.insight.training import pretraining_figure as pretraining_figure
    from vitreous.insight.training import training_figure as training_figure

_MODULES = {  # module: its public names
    "attention": ("attention_maps", "head_measures", "heads_figure", "maps_figure", "rollout_map"),
    "attribution": ("ExplainedSample", "compute_maps", "integrated_gradients"),
    "explanation": ("Explanation", "explain", "explain_heads"),
    "faithfulness": ("Faithfulness", "deletion_test", "faithfulness_figure"),
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
