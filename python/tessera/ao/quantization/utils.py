"""What the parts of quantization ask about dtypes, schemes, ranges and modules."""

import enum
import warnings

import tessera

__all__ = [
    "MatchAllNode", "activation_dtype", "activation_is_dynamically_quantized", "activation_is_int32_quantized",
    "activation_is_int8_quantized", "activation_is_statically_quantized", "calculate_qmin_qmax", "check_min_max_valid",
    "check_node", "determine_qparams", "get_fqn_to_example_inputs", "get_qparam_dict", "get_qconfig_dtypes",
    "get_quant_type", "get_swapped_custom_module_class", "getattr_from_fqn",
    "has_no_children_ignoring_parametrizations",
    "is_per_channel", "is_per_tensor", "op_is_int8_dynamically_quantized", "to_underlying_dtype",
    "validate_qmin_qmax", "weight_dtype", "weight_is_quantized", "weight_is_statically_quantized",
]  # fmt: skip

_INT8 = (tessera.quint8, tessera.qint8, tessera.uint8, tessera.int8)
_INTEGER = (*_INT8, tessera.int16, tessera.uint16, tessera.int32, tessera.qint32)
_UNDERLYING = {
    tessera.quint8: tessera.uint8, tessera.qint8: tessera.int8, tessera.qint32: tessera.int32,
    tessera.quint4x2: tessera.uint8, tessera.quint2x4: tessera.uint8, tessera.uint8: tessera.uint8,
    tessera.int8: tessera.int8, tessera.uint16: tessera.uint16, tessera.int16: tessera.int16,
    tessera.int32: tessera.int32, tessera.float8_e5m2: tessera.float8_e5m2,
    tessera.float8_e4m3fn: tessera.float8_e4m3fn,
}  # fmt: skip


class QuantType(enum.IntEnum):
    """When numbers become integers: before the model runs, while it does, in training, or only the weights."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


class MatchAllNode:
    """A pattern that every node of a graph fits."""


def is_per_tensor(qscheme):
    """Whether one scale serves all elements."""
    return qscheme in (tessera.per_tensor_affine, tessera.per_tensor_symmetric)


def is_per_channel(qscheme):
    """Whether each channel has a scale."""
    return qscheme in (
        tessera.per_channel_affine,
        tessera.per_channel_affine_float_qparams,
        tessera.per_channel_symmetric,
    )


def to_underlying_dtype(qdtype):
    """The dtype of the integers of a quantized dtype. AssertionError for others."""
    if qdtype not in _UNDERLYING:
        raise AssertionError(f"Unsupported dtype: {qdtype}")
    return _UNDERLYING[qdtype]


def getattr_from_fqn(obj, fqn):
    """obj.a.b for "a.b"; obj for ""."""
    for part in fqn.split(".") if fqn else ():
        obj = getattr(obj, part)
    return obj


def _parent_name(target):
    """("a.b", "c") of "a.b.c"; ("", "c") of "c"."""
    parent, _, name = str(target).rpartition(".")
    return parent, name


def get_qparam_dict(observer_or_fake_quant):
    """What an observer knows of its numbers: dtype, qscheme, bounds, and scale, zero_point, axis where it has them."""
    qscheme = getattr(observer_or_fake_quant, "qscheme", None)
    found = {"qscheme": qscheme, "dtype": observer_or_fake_quant.dtype}
    if qscheme is not None:
        scale, zero_point = observer_or_fake_quant.calculate_qparams()
        if is_per_tensor(qscheme):
            found["qscheme"] = tessera.per_tensor_affine
        elif is_per_channel(qscheme):
            if qscheme == tessera.per_channel_symmetric:
                found["qscheme"] = tessera.per_channel_affine
            found["axis"] = observer_or_fake_quant.ch_axis
        else:
            raise RuntimeError(f"Unrecognized qscheme: {qscheme}")
        found.update(scale=scale, zero_point=zero_point)
    for bound in ("quant_min", "quant_max"):
        if hasattr(observer_or_fake_quant, bound):
            found[bound] = getattr(observer_or_fake_quant, bound)
    return found


def check_node(node, modules):
    """Whether a node of a graph is (a function call, a method call, a call of a module) that is quantized."""
    return node.op == "call_function", node.op == "call_method", node.op == "call_module" and node.target in modules


def get_swapped_custom_module_class(custom_module, custom_module_class_mapping, qconfig):
    """The class that a custom module becomes under a qconfig. AssertionError where the mapping lacks it."""
    mapping = custom_module_class_mapping.get(get_quant_type(qconfig), {})
    if type(custom_module) not in mapping:
        raise AssertionError(f"{type(custom_module).__name__} is not in the mapping of custom modules: {mapping}")
    return mapping[type(custom_module)]


def activation_dtype(qconfig):
    """The dtype of a qconfig's activations."""
    return qconfig.activation().dtype


def weight_dtype(qconfig):
    """The dtype of a qconfig's weights."""
    return qconfig.weight().dtype


def activation_is_dynamically_quantized(qconfig):
    """Whether scales of activations are found at each call."""
    return getattr(qconfig.activation(), "is_dynamic", False)


def activation_is_statically_quantized(qconfig):
    """Whether activations are integers whose scales are known beforehand."""
    return activation_dtype(qconfig) in (*_INTEGER, tessera.float8_e5m2, tessera.float8_e4m3fn) and (
        not activation_is_dynamically_quantized(qconfig)
    )


def activation_is_int8_quantized(qconfig):
    """Whether activations have eight bits."""
    return activation_dtype(qconfig) in _INT8


def activation_is_int32_quantized(qconfig):
    """Whether activations have 32 bits."""
    return activation_dtype(qconfig) in (tessera.qint32, tessera.int32)


def weight_is_quantized(qconfig):
    """Whether weights become integers (or 8-bit floats)."""
    return weight_dtype(qconfig) in (*_INTEGER, tessera.quint4x2, tessera.float8_e5m2, tessera.float8_e4m3fn)


def weight_is_statically_quantized(qconfig):
    """Whether weights become 8-bit integers."""
    return weight_dtype(qconfig) in _INT8


def op_is_int8_dynamically_quantized(qconfig):
    """Whether activations become 8-bit integers at each call, and weights such integers."""
    activation = qconfig.activation()
    return (
        activation.dtype in (tessera.quint8, tessera.uint8)
        and getattr(activation, "is_dynamic", False)
        and weight_dtype(qconfig) in (tessera.qint8, tessera.int8)
    )


def get_qconfig_dtypes(qconfig):
    """(dtype of activations, dtype of weights, whether activations are dynamic)."""
    activation = qconfig.activation()
    return activation.dtype, qconfig.weight().dtype, getattr(activation, "is_dynamic", False)


def get_quant_type(qconfig):
    """The QuantType of a qconfig. Exception for dtypes that fit none."""
    activation, static = qconfig.activation(), (*_INTEGER, tessera.float16, tessera.float8_e5m2, tessera.float8_e4m3fn)
    if qconfig.weight().dtype in static:
        if getattr(activation, "is_dynamic", False):
            return QuantType.DYNAMIC
        if activation.dtype in static:
            return QuantType.STATIC
        return QuantType.WEIGHT_ONLY
    if qconfig.weight().dtype == tessera.float16 and activation.dtype == tessera.float:
        return QuantType.WEIGHT_ONLY
    raise Exception(  # noqa: TRY002
        f"Unrecognized dtype combination in get_quant_type: activation({activation.dtype}), "
        f"weight({qconfig.weight().dtype})"
    )


def check_min_max_valid(min_val, max_val):
    """Whether bounds were observed: False (with a warning) before; AssertionError if a lower one is above its upper."""
    if min_val.numel() == 0 or max_val.numel() == 0:
        warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=2)
        return False
    if min_val.dim() == 0:
        low, high = float(min_val), float(max_val)
        if low == float("inf") and high == float("-inf"):
            warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=2)
            return False
        if low > high:
            raise AssertionError(f"min {min_val} should be less than max {max_val}")
    elif bool((min_val > max_val).any()):
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


_QUANT_RANGE = {
    tessera.qint8: (-128, 127), tessera.int8: (-128, 127), tessera.quint8: (0, 255), tessera.uint8: (0, 255),
    tessera.qint32: (-(2**31), 2**31 - 1), tessera.int32: (-(2**31), 2**31 - 1), tessera.int16: (-(2**15), 2**15 - 1),
    tessera.uint16: (0, 2**16 - 1), tessera.quint4x2: (0, 15),
}  # fmt: skip


def calculate_qmin_qmax(quant_min, quant_max, has_customized_qrange, dtype, reduce_range):
    """(lowest, highest) integer: the given bounds, or those of the dtype, halved by `reduce_range`."""
    if has_customized_qrange:
        if dtype in (tessera.qint32, tessera.int32):
            return quant_min, quant_max
        low, high = quant_min, quant_max
        if high - low + 1 > 256 and dtype in _INT8:
            raise AssertionError(f"quantization range should be positive and not exceed 256, but got [{low}, {high}]")
        return (low // 2, high // 2) if reduce_range else (low, high)
    low, high = _QUANT_RANGE.get(dtype, (0, 15))
    if reduce_range and dtype in _INT8:
        return (low // 2, high // 2)
    return low, high


def has_no_children_ignoring_parametrizations(module):
    """Whether a module has no modules below it, but for those of its parametrizations."""
    children = list(module._modules)
    return not children or (children == ["parametrizations"] and tessera.nn.utils.parametrize.is_parametrized(module))


def validate_qmin_qmax(quant_min, quant_max):
    """AssertionError unless quant_min <= 0 <= quant_max and quant_min < quant_max."""
    if not quant_min <= 0 <= quant_max:
        raise AssertionError("Used-specified quantization range must include 0.")
    if not quant_min < quant_max:
        raise AssertionError("qmin must be strictly less than qmax for user-specified quantization range.")


def determine_qparams(
    min_val, max_val, quant_min, quant_max, dtype, eps, has_customized_qrange, qscheme=tessera.per_tensor_affine
):
    """(scale, zero point) that bring [min_val, max_val], widened to 0, to the integers [quant_min, quant_max].

    min_val, max_val: float tensors, 0-D or with an element for each channel. Returns float32 and int32 tensors of that
    many elements (a float zero point for per_channel_affine_float_qparams); 1 and 0 where nothing was observed.
    """
    device = min_val.device
    if not check_min_max_valid(min_val, max_val):
        return tessera.tensor([1.0], device=device), tessera.tensor([0], device=device)
    low, high = min_val.clamp(max=0).float(), max_val.clamp(min=0).float()
    eps = eps.to(device)
    if qscheme in (tessera.per_tensor_symmetric, tessera.per_channel_symmetric):
        scale = tessera.max(-low, high) / (float(quant_max - quant_min) / 2)
        scale = tessera.max(scale, eps)
        middle = 0
        if dtype in (tessera.quint8, tessera.uint8):
            middle = (quant_min + quant_max) // 2 if has_customized_qrange else 128
        elif dtype == tessera.uint16:
            middle = (quant_min + quant_max) // 2 if has_customized_qrange else 2**15
        zero_point = tessera.full(scale.shape, middle, dtype=tessera.int64, device=device)
    elif qscheme == tessera.per_channel_affine_float_qparams:
        scale = (max_val - min_val) / float(quant_max - quant_min)
        scale = tessera.where(scale > eps, scale, tessera.ones_like(scale))
        zero_point = -1 * min_val / scale
    else:
        scale = tessera.max((high - low) / float(quant_max - quant_min), eps)
        zero_point = (quant_min - tessera.round(low / scale).to(tessera.int32)).clamp(quant_min, quant_max)
    if scale.dim() == 0:
        scale = scale.reshape(1)
    if zero_point.dim() == 0:
        zero_point = zero_point.reshape(1)
    return scale, zero_point


def get_fqn_to_example_inputs(model, example_inputs):
    """{name of each module below `model`: the inputs that its last call had} of model(*example_inputs)."""
    found, handles = {}, []
    try:
        for name, module in model.named_modules():
            keep = lambda _, args, name=name: found.__setitem__(name, args)  # noqa: E731
            handles.append(module.register_forward_pre_hook(keep))
        model(*example_inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found
