"""The physics gallery (S2.8 to S2.12): a folder for each entry, with its simulator, its recipe and its figures.

Entries differ in their simulator, their tokenizer and their settings; none has a model of its own. Their recipes are
listed in `vitreous.recipes`.
"""
