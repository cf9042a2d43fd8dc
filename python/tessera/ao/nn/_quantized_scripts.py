"""Quantized tensors in programs: their operators with schemas, and packed weights as a class that archives hold.

A call of an operator on a quantized tensor comes to QuantizedTensor.__torch_dispatch__, whoever calls it.
"""

import functools

import tessera
from tessera._root import held_classes
from tessera._C import _jit
from tessera._root import quantized as root

from ._quantized_ops import PackedEmbedding, PackedWeight, operators

_CLASS = "__torch__.torch.classes.quantized.PackedWeight"
_DTYPES = (tessera.qint8, tessera.quint8, tessera.float16, tessera.quint4x2, tessera.qint32)

# Families of operators that have the same arguments; W: a packed weight, C: the two of a cell.
_SCALED = "float output_scale, int output_zero_point"
_SCHEMAS = {
    "(Tensor W, Tensor? B=None) -> W": "linear_prepack linear_prepack_fp16",
    "(W W_prepack) -> (Tensor, Tensor?)": "linear_unpack linear_unpack_fp16 conv1d_unpack conv2d_unpack conv3d_unpack "
    "conv_transpose1d_unpack conv_transpose2d_unpack conv_transpose3d_unpack",
    "(Tensor X, W W_prepack, float Y_scale_i, int Y_zero_point_i) -> Tensor": "linear linear_relu linear_tanh",
    "(Tensor X, W W_prepack, float Y_scale_i, int Y_zero_point_i, float negative_slope) -> Tensor": "linear_leaky_relu",
    "(Tensor X, W W_prepack, bool reduce_range=False) -> Tensor": "linear_dynamic linear_relu_dynamic",
    "(Tensor X, W W_prepack) -> Tensor": "linear_dynamic_fp16 linear_relu_dynamic_fp16",
    "(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> W": "conv1d_prepack "
    "conv2d_prepack conv3d_prepack",
    "(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] output_padding, int[] dilation, int groups) -> W":
    "conv_transpose1d_prepack conv_transpose2d_prepack conv_transpose3d_prepack",
    f"(Tensor qx, W packed_weight, {_SCALED}) -> Tensor": "conv1d conv2d conv3d conv1d_relu conv2d_relu conv3d_relu "
    "conv_transpose1d conv_transpose2d conv_transpose3d",
    f"(Tensor qx, W packed_weight, Tensor qaccum, {_SCALED}) -> Tensor": "conv2d_add conv2d_add_relu",
    "(Tensor qx, W packed_weight, bool reduce_range=False) -> Tensor": "conv1d_dynamic conv2d_dynamic conv3d_dynamic "
    "conv_transpose1d_dynamic conv_transpose2d_dynamic conv_transpose3d_dynamic",
    "(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor": "add add_relu mul mul_relu matmul",
    "(Tensor qa, Scalar b) -> Tensor": "add_scalar add_scalar_relu mul_scalar mul_scalar_relu",
    "(Tensor[] qx, int dim, float? scale=None, int? zero_point=None) -> Tensor": "cat cat_relu",
    "(Tensor qx, bool inplace=False) -> Tensor": "relu6",
    "(Tensor qx, Scalar? min=None, Scalar? max=None) -> Tensor": "clamp",
    "(Tensor qx, Scalar threshold, Scalar value) -> Tensor": "threshold",
    f"(Tensor input, {_SCALED}) -> Tensor": "hardswish sigmoid",
    f"(Tensor qx, int dim, {_SCALED}) -> Tensor": "softmax",
    f"(Tensor self, {_SCALED}, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor": "elu",
    f"(Tensor self, {_SCALED}, Scalar alpha=1) -> Tensor": "celu",
    f"(Tensor qx, Scalar negative_slope, bool inplace, {_SCALED}) -> Tensor": "leaky_relu",
    f"(Tensor qx, Tensor weight, {_SCALED}) -> Tensor": "prelu",
    f"(Tensor self, {_SCALED}, Scalar p=0.5, bool training=False) -> Tensor": "dropout",
    f"(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps, {_SCALED}) -> Tensor":
    "layer_norm",
    f"(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps, {_SCALED}) -> Tensor": "group_norm",
    f"(Tensor input, Tensor? weight, Tensor? bias, float eps, {_SCALED}) -> Tensor": "instance_norm",
    f"(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, {_SCALED}) -> Tensor": "batch_norm "
    "batch_norm1d batch_norm2d batch_norm3d batch_norm1d_relu batch_norm2d_relu batch_norm3d_relu",
    "(Tensor input, Tensor[] hx, C[] cells, int[] config) -> Tensor[]": "recurrent_dynamic",
    "(Tensor weight) -> W": "embedding_bag_prepack",
    "(W W_prepack) -> Tensor": "embedding_bag_unpack",
    "(W weight, Tensor indices, bool pruned_weights=False) -> Tensor": "embedding_byte embedding_4bit",
    "(W weight, Tensor indices, Tensor? offsets=None, bool scale_grad_by_freq=False, int mode=0, bool "
    "pruned_weights=False, Tensor? per_sample_weights=None, Tensor? compressed_indices_mapping=None, bool "
    "include_last_offset=False) -> Tensor": "embedding_bag_byte embedding_bag_4bit",
}  # fmt: skip
_ATEN = {
    "quantize_per_tensor(Tensor self, float scale, int zero_point, ScalarType dtype) -> Tensor": None,
    "quantize_per_tensor.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, ScalarType dtype) -> Tensor":
    None,
    "quantize_per_tensor.tensors(Tensor[] tensors, Tensor scales, Tensor zero_points, ScalarType dtype) -> Tensor[]":
    lambda *args: list(root.quantize_per_tensor(*args)),
    "quantize_per_tensor_dynamic(Tensor self, ScalarType dtype, bool reduce_range) -> Tensor": None,
    "quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, ScalarType dtype) -> Tensor": None,
    "dequantize.self(Tensor self) -> Tensor": lambda self: self._quantizer.numbers(self._ints()),
    "dequantize.tensors(Tensor[] tensors) -> Tensor[]": lambda tensors: list(root.dequantize(tensors)),
    "int_repr(Tensor self) -> Tensor": lambda self: self._ints().clone(),
    "q_scale(Tensor self) -> float": None,
    "q_zero_point(Tensor self) -> int": None,
    "q_per_channel_scales(Tensor self) -> Tensor": None,
    "q_per_channel_zero_points(Tensor self) -> Tensor": None,
    "q_per_channel_axis(Tensor self) -> int": None,
    "_q_axis(Tensor self) -> int": lambda self: -1 if self._quantizer.axis is None else self._quantizer.axis,
    "_make_per_tensor_quantized_tensor(Tensor input, float scale, int zero_point) -> Tensor": None,
    "_make_per_channel_quantized_tensor(Tensor input, Tensor scale, Tensor zero_point, int axis) -> Tensor": None,
}  # fmt: skip


@functools.cache
def start():
    """Registers the classes and the operators. Returns the classes, and the libraries, which live as long."""
    made = _jit.register_class("quantized", "PackedWeight")
    state = "(int, int, int, Tensor, Tensor?, Tensor?, Tensor?, int[])"
    _jit.register_method(made, "__getstate__", (), state, _state)
    _jit.register_method(made, "__setstate__", (state,), "NoneType", _packed)
    _jit.register_method(made, "unpack", (), "(Tensor, Tensor?)", PackedWeight.unpack)
    _jit.register_method(made, "weight", (), "Tensor", PackedWeight.weight)
    _jit.register_method(made, "bias", (), "Tensor?", PackedWeight.bias)
    rnn = tessera.ao.nn.quantized.dynamic.modules.rnn
    cells = _jit.register_class("quantized", "CellParams")
    state = f"({_CLASS}, {_CLASS})"
    _jit.register_method(cells, "__getstate__", (), state, lambda cell: (cell.ih, cell.hh))
    _jit.register_method(cells, "__setstate__", (state,), "NoneType", lambda pair: rnn.CellParams(*pair))
    aten = tessera.library.Library("aten", "FRAGMENT")
    for schema, function in _ATEN.items():
        short = schema.partition("(")[0]
        if function is None:
            plain = getattr(root, short.partition(".")[0])
            function = getattr(plain, "__wrapped__", plain)
        _add(aten, schema, short, function)
    own = tessera.library.Library("quantized", "DEF")
    for arguments, names in _SCHEMAS.items():
        arguments = arguments.replace("W W_prepack", f"{_CLASS} W_prepack").replace("(W weight", f"({_CLASS} weight")
        arguments = arguments.replace("W packed_weight", f"{_CLASS} packed_weight").replace("-> W", f"-> {_CLASS}")
        arguments = arguments.replace("C[]", f"{_CLASS.replace('PackedWeight', 'CellParams')}[]")
        for name in names.split():
            operator = getattr(operators, name)
            operator._get = tessera._ops.OpOverloadPacket("quantized", name)._get  # as packets of other namespaces
            _add(own, name + arguments, name, operator.__wrapped__)
    return made, cells, aten, own


def _add(library, schema, name, function):
    library.define(schema)
    library.impl(name, function, "CompositeExplicitAutograd")
    root.KERNELS[f"{library.ns}::{name}"] = function


def _state(packed):
    """(whether it is an embedding's, number of the dtype, axis, integers, scale, zero point, bias, geometry)."""
    weight, g = packed.weight(), packed.geometry
    geometry = [g["dims"], int(g.get("transposed", False)), g["groups"]] if g else []
    for name in ("stride", "padding", "dilation", "output_padding"):
        geometry += g.get(name, [])
    kind, dtype = int(isinstance(packed, PackedEmbedding)), _DTYPES.index(weight.dtype)
    if weight.dtype == tessera.float16:
        return kind, dtype, -1, weight, None, None, packed.bias(), geometry
    q = weight._quantizer
    scale = tessera.as_tensor(q.scale, dtype=None if q.axis is not None else tessera.float64)
    return kind, dtype, -1 if q.axis is None else q.axis, weight.int_repr(), scale, tessera.as_tensor(q.zero_point), \
        packed.bias(), geometry  # fmt: skip


def _packed(state):
    """What _state() told."""
    kind, dtype, axis, weight, scale, zero_point, bias, numbers = state
    if _DTYPES[dtype] != tessera.float16:
        parts = (scale, zero_point, axis) if axis >= 0 else (scale.item(), zero_point.item(), None)
        weight = root._wrapped(weight, _DTYPES[dtype], root._Quantizer(*parts))
    if kind:
        return PackedEmbedding(weight)
    geometry = {}
    if numbers:
        n = numbers[0]
        geometry = {"dims": n, "groups": numbers[2], **({"transposed": True} if numbers[1] else {})}
        names = ("stride", "padding", "dilation", "output_padding")[: (len(numbers) - 3) // n]
        geometry.update({name: numbers[3 + i * n : 3 + (i + 1) * n] for i, name in enumerate(names)})
    return PackedWeight(weight, bias, **geometry)


held_classes.CLASSES[PackedWeight] = lambda: start()[0]
