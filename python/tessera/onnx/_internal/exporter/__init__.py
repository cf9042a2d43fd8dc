"""Names where programs look for them."""

from tessera.onnx._program import ONNXProgram

__all__ = ["ONNXProgram"]
