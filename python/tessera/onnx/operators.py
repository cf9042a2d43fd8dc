"""Functions for programs that are exported to ONNX by tracing: sizes stay part of the graph."""

import tessera


def shape_as_tensor(x):
    """The shape of a tensor as a tensor of int64."""
    return tessera.tensor(list(x.shape), dtype=tessera.int64)


def reshape_from_tensor_shape(x, shape):
    """A tensor in the shape that a tensor says."""
    return x.reshape(shape.tolist())
