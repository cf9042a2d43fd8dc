"""Which layer becomes which."""

import copy

import tessera
from tessera import nn
from tessera.ao.nn import intrinsic as nni
from tessera.ao.nn import qat as nnqat
from tessera.ao.nn import quantizable as nnq_able
from tessera.ao.nn import quantized as nnq
from tessera.ao.nn._quantized_ops import operators as _OPS
from tessera.ao.nn.intrinsic import qat as nniqat
from tessera.ao.nn.intrinsic import quantized as nniq
from tessera.ao.nn.quantized import dynamic as nnqd
from tessera.ao.nn.quantized import reference as nnqr
from tessera.nn import functional as F

from .fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from .stubs import DeQuantStub, QuantStub

__all__ = [
    "get_default_compare_output_module_list", "get_default_dynamic_quant_module_mappings",
    "get_default_dynamic_sparse_quant_module_mappings", "get_default_float_to_quantized_operator_mappings",
    "get_default_qat_module_mappings", "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings", "get_default_static_quant_reference_module_mappings",
    "get_default_static_sparse_quant_module_mappings", "get_dynamic_quant_module_class",
    "get_embedding_qat_module_mappings", "get_embedding_static_quant_module_mappings", "get_quantized_operator",
    "get_static_quant_module_class", "no_observer_set",
]  # fmt: skip

_PLAIN_LINEAR = nn.modules.linear.NonDynamicallyQuantizableLinear


def _same_names(names, source, target):
    return {getattr(source, name): getattr(target, name) for name in names.split()}


_CONVS = "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d"
_STATIC = {
    QuantStub: nnq.Quantize,
    DeQuantStub: nnq.DeQuantize,
    **_same_names(
        f"BatchNorm2d BatchNorm3d Dropout {_CONVS} ELU Embedding EmbeddingBag GroupNorm Hardswish InstanceNorm1d "
        "InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU", nn, nnq),
    _PLAIN_LINEAR: nnq.Linear,
    **_same_names("Linear ReLU6 PReLU", nn, nnq),
    nnq.FloatFunctional: nnq.QFunctional,
    **_same_names(
        "BNReLU2d BNReLU3d ConvReLU1d ConvReLU2d ConvReLU3d ConvAdd2d ConvAddReLU2d LinearReLU LinearLeakyReLU "
        "LinearTanh", nni, nniq),
    **{getattr(nniqat, f"ConvBn{n}d"): getattr(nnq, f"Conv{n}d") for n in (1, 2, 3)},
    **{getattr(nniqat, f"ConvBnReLU{n}d"): getattr(nniq, f"ConvReLU{n}d") for n in (1, 2, 3)},
    **_same_names("ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU", nniqat, nniq),
    nniqat.LinearBn1d: nnq.Linear,
    **_same_names("Linear Conv1d Conv2d Conv3d", nnqat, nnq),
}  # fmt: skip
_REFERENCE = {
    QuantStub: nnq.Quantize,
    DeQuantStub: nnq.DeQuantize,
    **_same_names(f"Linear {_CONVS} Embedding EmbeddingBag GRUCell LSTMCell RNNCell LSTM GRU", nn, nnqr),
}
_DYNAMIC = {
    nn.GRUCell: nnqd.GRUCell,
    nn.Linear: nnqd.Linear,
    nnqat.dynamic.Linear: nnqd.Linear,
    _PLAIN_LINEAR: nnqd.Linear,
    **_same_names("LSTM GRU LSTMCell RNNCell", nn, nnqd),
    nni.LinearReLU: nniq.dynamic.LinearReLU,
    **_same_names("EmbeddingBag Embedding", nn, nnq),
}
_QAT = {
    **_same_names("Conv1d Conv2d Conv3d Linear", nn, nnqat),
    _PLAIN_LINEAR: nnqat.Linear,
    **_same_names(
        "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU1d ConvReLU2d ConvReLU3d LinearReLU "
        "LinearBn1d", nni, nniqat),
}  # fmt: skip
_EMBEDDINGS = ("Embedding", "EmbeddingBag")
_OPERATORS = {
    getattr(F, name): getattr(_OPS, name)
    for name in ("elu", "hardswish", "instance_norm", "layer_norm", "leaky_relu", "dropout")
}
DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS = _STATIC, _DYNAMIC
DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS = _REFERENCE, _QAT
DEFAULT_MODULE_TO_ACT_POST_PROCESS = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}


def no_observer_set():
    """The layers whose outputs are not watched."""
    return {nnq_able.LSTM, nnq_able.MultiheadAttention}


def get_default_static_quant_module_mappings():
    """{float or trained layer: quantized layer}, a new dict."""
    return copy.copy(_STATIC)


def get_default_static_quant_reference_module_mappings():
    """{float layer: reference layer}, a new dict."""
    return copy.copy(_REFERENCE)


def get_embedding_static_quant_module_mappings():
    """The static mapping with embeddings for training."""
    return {**_STATIC, **{getattr(nnqat, name): getattr(nnq, name) for name in _EMBEDDINGS}}


def get_default_dynamic_quant_module_mappings():
    """{float layer: layer that rounds its input at each call}, a new dict."""
    return copy.copy(_DYNAMIC)


def get_default_qat_module_mappings():
    """{float layer: its form for training}, a new dict."""
    return copy.copy(_QAT)


def get_embedding_qat_module_mappings():
    """The mapping for training, with embeddings."""
    return {**_QAT, **{getattr(nn, name): getattr(nnqat, name) for name in _EMBEDDINGS}}


def get_default_static_sparse_quant_module_mappings():
    """{float layer: quantized layer with a sparse weight}, a new dict."""
    sparse = tessera.ao.nn.sparse.quantized
    return {nn.Linear: sparse.Linear}


def get_default_dynamic_sparse_quant_module_mappings():
    """{float layer: dynamic layer with a sparse weight}, a new dict."""
    return {nn.Linear: tessera.ao.nn.sparse.quantized.dynamic.Linear}


def get_default_qconfig_propagation_list():
    """The layers that get a qconfig from the module around them."""
    return {*_STATIC, *_QAT, *_DYNAMIC, nn.Sequential}


def get_default_compare_output_module_list():
    """The layers whose outputs are compared with the float model's."""
    return {*_STATIC.values(), *_STATIC, *_DYNAMIC.values(), *_QAT.values(), *_QAT}


def get_default_float_to_quantized_operator_mappings():
    """{float function: quantized operator}, a new dict."""
    return copy.copy(_OPERATORS)


def get_quantized_operator(float_op):
    """The quantized operator of a float function. AssertionError where there is none."""
    found = _OPERATORS.get(float_op)
    if found is None:
        raise AssertionError(f"Operator {float_op} does not have corresponding quantized op")
    return found


def _class_of(kind, table, what):
    found = table.get(kind)
    if found is None:
        raise AssertionError(f"Floating point module class {kind} does not have a corresponding {what} class")
    return copy.deepcopy(found)


def get_static_quant_module_class(float_module_class, additional_static_quant_mapping=None, is_reference=False):
    """The quantized (or reference) layer of a float one. AssertionError where there is none."""
    table = {**(_REFERENCE if is_reference else _STATIC), **(additional_static_quant_mapping or {})}
    return _class_of(float_module_class, table, "quantized module")


def get_dynamic_quant_module_class(float_module_class, additional_dynamic_quant_mapping=None):
    """The dynamic layer of a float one. AssertionError where there is none."""
    return _class_of(float_module_class, {**_DYNAMIC, **(additional_dynamic_quant_mapping or {})}, "dynamic")


def _get_special_act_post_process(module):
    """The factory for layers whose range is known (Sigmoid ...), or None."""
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(nn.utils.parametrize.type_before_parametrizations(module))


def _has_special_act_post_process(module):
    """Whether the range of a layer's output is known."""
    return module.training and type(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS
