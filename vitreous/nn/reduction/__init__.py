"""Fewer tokens: merging and dropping tokens between the blocks of a model, and counting what it saves."""
