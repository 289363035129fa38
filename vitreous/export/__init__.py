"""Trained models that leave the training stack: as ONNX, in float32 or int8, or as one file of weights.

`vitreous.predict.load` reads what is written here. Nothing is imported with the package itself: an ONNX model answers
without torch (`session`), and only those who write one need torch's exporter (`onnx_file`, `int8`).
"""
