"""Operators of graphs and of tensor subclasses that nothing here calls: they are made when a program names them.

Their kernels are what the package does without an operator: methods of Tensor, checks, other names.
"""

import tessera

__all__ = ["EXPLICIT", "IMPLICIT"]


def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    """RuntimeError if a tensor differs from what is said of it."""
    wanted = {"sizes": size, "strides": stride, "dtype": dtype, "device": device, "layout": layout}
    found = {"sizes": a.shape, "strides": a.stride(), "dtype": a.dtype, "device": a.device, "layout": a.layout}
    for what, value in wanted.items():
        if value is not None and (tuple(value) if what.endswith("s") else value) != found[what]:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {value}, Got: {found[what]}")


def _constrain(least):
    def check(size, *, min=None, max=None):
        low, high = least if min is None else min, float("inf") if max is None else max
        if not low <= size <= high:
            raise RuntimeError(f"Invalid value range for {size} between [{low}, {high}].")

    return check


def _safe_softmax(self, dim, dtype=None):
    out = tessera.softmax(self, dim, dtype=dtype)
    return tessera.where((self == -float("inf")).all(dim, keepdim=True), 0, out)


def _copy(self, src, non_blocking=False):
    return tessera.empty_like(self).copy_(src, non_blocking)


def _unsafe_index(self, indices):
    return tessera.ops.aten.index.Tensor(self, indices)


_RANGE = "(Scalar size, *, int? min=None, int? max=None) -> ()"
_RNN = (
    "(Tensor input, {} hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first) -> (Tensor, {}Tensor)"
)

# {name: (schema, kernel)} of those that autograd looks into, and of the others.
IMPLICIT = {
    "aten::_unsafe_view": ("(Tensor self, SymInt[] size) -> Tensor", lambda self, size: self.reshape(size)),
    "aten::_unsafe_index.Tensor": ("(Tensor self, Tensor?[] indices) -> Tensor", _unsafe_index),
    "aten::_safe_softmax": ("(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", _safe_softmax),
    "aten::lift": ("(Tensor self) -> Tensor", lambda self: self),
    "aten::lift_fresh": ("(Tensor(a) self) -> Tensor(a)", lambda self: self),
    "aten::lstm.input": (_RNN.format("Tensor[]", "Tensor, "), lambda *args: tessera.lstm(*args)),
    **{f"aten::{name}.input": (_RNN.format("Tensor", ""), lambda *args, _name=name: getattr(tessera, _name)(*args))
       for name in ("gru", "rnn_tanh", "rnn_relu")},
    "prims::convert_element_type": ("(Tensor a, ScalarType dtype) -> Tensor", lambda a, dtype: a.to(dtype)),
}  # fmt: skip
EXPLICIT = {
    "aten::copy": ("(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", _copy),
    "aten::sym_size": ("(Tensor self) -> SymInt[]", lambda self: list(self.shape)),
    "aten::sym_stride": ("(Tensor self) -> SymInt[]", lambda self: list(self.stride())),
    "aten::dim": ("(Tensor self) -> int", lambda self: self.dim()),
    "aten::get_device": ("(Tensor self) -> int", lambda self: self.get_device()),
    "aten::is_contiguous": ("(Tensor self) -> bool", lambda self: self.is_contiguous()),
    "aten::is_contiguous.memory_format": (
        "(Tensor self, MemoryFormat memory_format) -> bool", lambda self, f: self.is_contiguous(memory_format=f)
    ),
    "aten::is_floating_point": ("(Tensor self) -> bool", lambda self: self.is_floating_point()),
    "aten::is_complex": ("(Tensor self) -> bool", lambda self: self.is_complex()),
    "aten::_assert_tensor_metadata": (
        "(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, "
        "Layout? layout=None) -> ()", _assert_tensor_metadata,
    ),
    "aten::sym_constrain_range": (_RANGE, _constrain(-float("inf"))),
    "aten::sym_constrain_range_for_size": (_RANGE, _constrain(0)),
    "prim::layout": ("(Tensor a) -> Layout", lambda a: a.layout),
}  # fmt: skip
