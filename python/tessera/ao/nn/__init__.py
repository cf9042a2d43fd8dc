"""Layers that are quantized, and their forms for training: intrinsic, qat, quantizable, quantized, sparse."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
