"""Unit cells of many patterns, in a table that grows and survives every kind of interruption."""

from vitreous.powder.batch.index_batch import index_batch
from vitreous.powder.batch.shard import WHOLE, Shard
from vitreous.powder.batch.summary import BatchSummary

__all__ = ["WHOLE", "BatchSummary", "Shard", "index_batch"]
