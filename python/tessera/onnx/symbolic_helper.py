"""What symbolic functions of the older exporter use: `function(g, *args)`, where `g.op("Add", x, y)` writes
a node and `args` are values."""

import functools

import tessera
from tessera.onnx import _types
from tessera.onnx._build import Value
from tessera.onnx._types import JitScalarType
from tessera.onnx.errors import OnnxExporterError, SymbolicValueError

cast_pytorch_to_onnx = {r[3]: r[2] for r in _types._ROWS if r[2]}
scalar_name_to_pytorch = {"uint8_t": "Byte", "int8_t": "Char", "double": "Double", "float": "Float", "half": "Half",
                          "int": "Int", "int64_t": "Long", "int16_t": "Short", "bool": "Bool"}  # fmt: skip
scalar_type_to_pytorch_type = [None if r[1] is None else getattr(tessera, r[1]) for r in _types._ROWS[:-1]]
scalar_type_to_onnx = [r[2] for r in _types._ROWS[:-1]]
pytorch_name_to_type = {r[3]: getattr(tessera, r[1]) for r in _types._ROWS if r[1]}
_SUFFIXES = ("_i", "_f", "_s", "_t", "_g")


class Constant(Value):
    """A plain argument of an operator, which becomes a constant of the graph where a node reads it."""

    __slots__ = ("plain",)

    def __init__(self, graph, plain):
        super().__init__(graph, "constant", _types.INT64 if isinstance(plain, int) else _types.FLOAT)
        self.plain = plain


class GraphContext:
    """The graph as symbolic functions write it.

    Attributes:
        opset: version of ONNX's operators.
        graph: the Graph that nodes go to.
    """

    def __init__(self, graph):
        self.graph, self.opset = graph, graph.opset

    def op(self, opname, *raw_args, outputs=1, **kwargs):
        """Adds a node.

        Args:
            opname: "Name" or "domain::Name".
            raw_args: values, tensors, numbers, None.
            outputs: how many results.
            kwargs: attributes, each with the letter of its type behind it: axis_i=1, axes_i=[0, 1], alpha_f=0.5,
                mode_s="linear", value_t=tensor.

        Returns: a value, or a tuple of values.
        """
        domain, _, name = opname.rpartition("::")
        attrs = {}
        for key, value in kwargs.items():
            if key[-2:] not in _SUFFIXES:
                raise ValueError(f"g.op: attribute {key!r}: expected one of {_SUFFIXES} at the end of its name")
            if key.endswith("_f"):
                value = [float(v) for v in value] if isinstance(value, (list, tuple)) else float(value)
            attrs[key[:-2]] = value
        if name == "Constant" and not domain:
            return self.graph.value(attrs["value"]) if isinstance(attrs["value"], tessera.Tensor) else self.graph.const(
                attrs["value"]
            )  # fmt: skip
        inputs = [_lifted(self.graph, a) for a in raw_args]
        domain = "" if domain == "onnx" else domain
        held = {k: attrs.pop(k) for k in ("op", "outputs", "domain", "dtype") if k in attrs}
        made = self.graph.op(name, *inputs, outputs=outputs, domain=domain, **attrs)
        (made if outputs == 1 else made[0]).node.attrs.update(held)
        return made

    def at(self, operator, *args, overload_name="", **kwargs):
        """A node of the domain "org.pytorch.aten"."""
        return self.op("org.pytorch.aten::ATen", *args, operator_s=operator, overload_name_s=overload_name, **kwargs)


def _lifted(graph, value):
    if isinstance(value, Constant):
        return None if value.plain is None else graph.value(value.plain)
    return value


def _plain(value):
    """(whether a value is a constant, the constant)."""
    if isinstance(value, Constant):
        return True, value.plain
    if isinstance(value, Value):
        stored = value.graph.model.initializers.get(value.name)
        if stored is not None and stored[0] is value and stored[1] is not None:
            t = stored[1]
            return True, t.item() if t.dim() == 0 else t
        return False, None
    return True, value


def _parse_arg(value, desc, arg_name=None):
    """A value as a descriptor of parse_args() says."""
    if desc in ("none", "v"):
        return None if desc == "v" and _is_none(value) else value
    constant, plain = _plain(value)
    if not constant:
        raise SymbolicValueError(
            f"Failed to export a node: the argument {arg_name or ''} has to be a constant that is known when the model "
            f"is exported, for the descriptor {desc!r}", value,
        )  # fmt: skip
    if plain is None:
        return None
    if desc == "t":
        return plain if isinstance(plain, tessera.Tensor) else tessera.tensor(plain)
    if isinstance(plain, tessera.Tensor):
        plain = plain.tolist()
    if desc in ("i", "f", "b", "s"):
        return {"i": int, "f": float, "b": bool, "s": str}[desc](plain)
    if desc in ("is", "fs"):
        of = int if desc == "is" else float
        return [of(_plain(v)[1]) for v in (plain if isinstance(plain, (list, tuple)) else [plain])]
    raise OnnxExporterError(f"parse_args: expected one of v, i, is, f, fs, b, s, t, none, got {desc!r}")


def parse_args(*arg_descriptors):
    """Decorator of symbolic functions, which get their arguments as plain values.

    Args:
        arg_descriptors: for each argument behind g: "v" a value of the graph, "i" a whole number, "is" a list of them,
            "f" and "fs" numbers, "b" a bool, "s" a text, "t" a tensor, "none" as it is.

    The function raises OnnxExporterError for more arguments than descriptors, SymbolicValueError where a value is no
    constant.
    """

    def decorator(fn):
        fn._arg_descriptors = arg_descriptors

        @functools.wraps(fn)
        def wrapper(g, *args, **kwargs):
            if len(args) > len(arg_descriptors):
                raise OnnxExporterError(
                    f"A mismatch between the number of arguments ({len(args)}) and their descriptors "
                    f"({len(arg_descriptors)}) was found at symbolic function '{fn.__name__}'."
                )
            given = [_parse_arg(a, d, f"{i} of {fn.__name__}") for i, (a, d) in enumerate(zip(args, arg_descriptors))]
            return fn(g, *given, **kwargs)

        return wrapper

    return decorator


def quantized_args(*arg_q_descriptors, scale=None, zero_point=None, quantize_output=True):
    """Decorator of symbolic functions of operators that take quantized tensors as well.

    Args:
        arg_q_descriptors: which arguments may be quantized: given as tuples (values, scale, zero point).
        scale, zero_point: of the result; None: of the first quantized argument.
        quantize_output: whether the result is quantized again.
    """

    def decorator(fn):
        @functools.wraps(fn)
        def wrapper(g, *args, **kwargs):
            found = [a for a, q in zip(args, arg_q_descriptors) if q and isinstance(a, tuple)]
            if not found:
                return fn(g, *args, **kwargs)
            of = lambda a: g.op("DequantizeLinear", *a) if isinstance(a, tuple) else a  # noqa: E731
            made = fn(g, *[of(a) for a in args], **kwargs)
            if not quantize_output:
                return made
            at = (found[0][1] if scale is None else scale), (found[0][2] if zero_point is None else zero_point)
            return g.op("QuantizeLinear", made, *at), *at

        return wrapper

    return decorator


def _get_const(value, desc, arg_name):
    """A constant argument in the form of a descriptor. SymbolicValueError for values that are none."""
    return _parse_arg(value, desc, arg_name)


def _maybe_get_const(value, descriptor):
    """A constant argument in the form of a descriptor; other values as they are."""
    return _parse_arg(value, descriptor) if _plain(value)[0] else value


def _maybe_get_scalar(value):
    """The tensor of one element that a constant is; others as they are."""
    constant, plain = _plain(value)
    return tessera.tensor(plain) if constant and isinstance(plain, (bool, int, float)) else value


def _is_none(x):
    """Whether an argument is None."""
    constant, plain = _plain(x)
    return constant and plain is None


def _is_value(x):
    """Whether an argument is a value of a graph."""
    return isinstance(x, Value)


def _is_constant(value):
    """Whether an argument is known when the model is exported."""
    return not _is_value(value) or _plain(value)[0]


def _is_tensor(x):
    return isinstance(x, Value) and not isinstance(x, Constant)


def _is_fp(value):
    """Whether a value has a floating dtype."""
    return isinstance(value, Value) and value.dtype.is_floating_point


def _is_bool(value):
    return isinstance(value, Value) and value.dtype == tessera.bool


def _get_tensor_sizes(x, allow_nonstatic=True):
    """Sizes of a value, None for those that may differ; None if they are not known, or one of them is not and
    allow_nonstatic is false."""
    sizes = x.type().sizes()
    return None if sizes is None or (not allow_nonstatic and None in sizes) else sizes


def _get_tensor_rank(x):
    """How many dimensions a value has; None if that is not known."""
    return x.type().dim() if isinstance(x, Value) else None


def _get_tensor_dim_size(x, dim):
    """A size of a value, None if it is not known."""
    sizes = _get_tensor_sizes(x)
    return None if sizes is None else sizes[dim]


def _get_dim_for_cross(x, dim):
    return next((i for i, s in enumerate(_get_tensor_sizes(x)) if s == 3), None) if dim == -1 else dim


def _scalar(x):
    """The number in a tensor of one element."""
    return x.item() if isinstance(x, tessera.Tensor) else x


def _unimplemented(op, msg, value=None):
    """Raises the error of an operator that cannot be exported."""
    raise SymbolicValueError(f"ONNX export failed on {op}, which is not implemented: {msg}", value)


def _onnx_unsupported(op_name, value=None):
    raise OnnxExporterError(f"Unsupported: ONNX export of operator {op_name}.")


def _type_promote_from_values(*args):
    """The JitScalarType that values are promoted to."""
    kinds = [a.dtype for a in args if isinstance(a, Value)]
    return JitScalarType.from_dtype(functools.reduce(tessera.promote_types, kinds))


def _g(g):
    return getattr(g, "graph", g)


def _unsqueeze_helper(g, input, axes_i):
    """Dimensions of size 1 at the places of a list."""
    return _g(g).unsqueeze(input, *axes_i)


def _squeeze_helper(g, input, axes_i):
    """A value without the dimensions of a list, which have size 1."""
    return _g(g).squeeze(input, *axes_i)


def _slice_helper(g, input, axes, starts, ends, steps=None):
    """Slices of some dimensions."""
    return _g(g).op("Slice", input, starts, ends, axes, steps)


def _reducesum_helper(g, input, axes_i=None, keepdims_i=1):
    """Sums over dimensions."""
    return _g(g).reduce("ReduceSum", input, axes_i, keepdims_i)


def _reshape_helper(g, input, shape, allowzero=0):
    """A value in another shape, a list or a value."""
    return _g(g).op("Reshape", input, _lifted(_g(g), shape), **({"allowzero": 1} if allowzero else {}))


def _if_scalar_type_as(self, tensor):
    """A constant in the dtype of a value."""
    return self.to(tensor.dtype) if isinstance(self, tessera.Tensor) and isinstance(tensor, Value) else self


def _scatter_helper(g, self, dim, index, src):
    return _g(g).op("ScatterElements", self, index, src, axis=dim)


def _sort_helper(g, input, dim, decending=True):
    from tessera.onnx._all import TABLE

    return TABLE["aten::sort"](_g(g), input, dim=dim, descending=decending)


def _topk_helper(g, input, k, dim, largest=True, sorted=False):
    return _g(g).op("TopK", input, [_plain(k)[1] if _plain(k)[0] else k], axis=dim, largest=int(largest),
                    sorted=int(sorted), outputs=2)  # fmt: skip


def check_training_mode(op_train_mode, op_name):
    """Warns where an operator is in another mode than the export's, that of inference."""
    if op_train_mode:
        import warnings

        warnings.warn(f"ONNX export mode is set to TrainingMode.EVAL, but operator '{op_name}' is set to train=True. "
                      "Exporting with train=True.", stacklevel=2)  # fmt: skip


def args_have_same_dtype(args):
    """Whether values have one dtype."""
    return len({a.dtype for a in args}) <= 1


def is_caffe2_aten_fallback():
    return False


def is_complex_value(x):
    """Whether a value has a complex dtype."""
    return isinstance(x, Value) and x.dtype.is_complex
