"""Symbolic functions by the names of operators. See _symbolic_opset."""

from tessera.onnx._symbolic_opset import attach as _attach

__getattr__, __dir__ = _attach(__name__)
