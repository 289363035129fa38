"""Pictures of what a model has learnt."""

from vitreous.insight.training import training_figure

__all__ = ["training_figure"]
