"""The table of decompositions: {operator: function that computes the same by others}."""

import functools

import tessera
from tessera import _C
from tessera._ops import _CORE, HigherOrderOperator, OpOverload, OpOverloadPacket

# By when they are for: after autograd has run, before it, or shapes alone.
tables = {"post_autograd": {}, "pre_autograd": {}, "meta": {}}


def overloads_of(op):
    """The operators of an OpOverload, a packet or a list of either. Raises: TypeError for others."""
    if isinstance(op, (OpOverload, HigherOrderOperator)):
        return [op]
    if isinstance(op, OpOverloadPacket):
        return [getattr(op, name) for name in op.overloads()]
    if isinstance(op, (list, tuple, set, frozenset)):
        return [overload for part in op for overload in overloads_of(part)]
    raise TypeError(f"expected an operator (torch.ops.aten.add or torch.ops.aten.add.Tensor), got {type(op).__name__}")


def register_decomposition(aten_op, registry=None, *, type="post_autograd", unsafe=False):
    """Decorator: the function is the decomposition of operators.

    Args:
        aten_op: OpOverload, OpOverloadPacket (all of its overloads), or a list of them.
        registry: the table that it is entered in; the package's own if None.
        type: which of its own tables: "post_autograd", "pre_autograd" or "meta".
        unsafe: the function may be registered as it is, whatever its form; it always may.

    Raises: ValueError for another type, TypeError for what is no operator, RuntimeError if the table has one.
    """
    if type not in tables:
        raise ValueError(f"register_decomposition: expected type to be one of {sorted(tables)}, got {type!r}")
    table = tables[type] if registry is None else registry

    def register(function):
        for overload in overloads_of(aten_op):
            if overload in table:
                raise RuntimeError(f"duplicate registrations for {overload}")
            table[overload] = function
        return function

    return register


def rule(*names):
    """Registers a function for operators of aten by their names ("silu", "all.dim"); what the tables of the extension
    lack is an error.
    """

    def register(function):
        for name in names:
            short, _, overload = name.partition(".")
            packet = getattr(tessera.ops.aten, short)
            tables["post_autograd"][getattr(packet, overload or "default")] = function
        return function

    return register


def widened(function):
    """Computes in float32 what is given in half precision, as kernels do: results are rounded once."""

    @functools.wraps(function)
    def wide(*args, **kwargs):
        first = next(a for a in args if isinstance(a, tessera.Tensor))
        halves = [a.dtype for a in args if isinstance(a, tessera.Tensor) and a.dtype in _HALVES]
        if not halves or first.dtype not in _HALVES:
            return function(*args, **kwargs)
        args = [a.float() if isinstance(a, tessera.Tensor) and a.dtype in _HALVES else a for a in args]
        return function(*args, **kwargs).to(first.dtype)

    return wide


def promoted(*values):
    """(the values as tensors of the dtype that is computed in, the dtype of the result), where results are floating."""
    dtype = functools.reduce(lambda a, b: tessera.result_type(a, b), values[1:], values[0])
    dtype = dtype.dtype if isinstance(dtype, tessera.Tensor) else dtype
    if not isinstance(dtype, tessera.dtype) or not (dtype.is_floating_point or dtype.is_complex):
        dtype = tessera.get_default_dtype()
    used = tessera.float32 if dtype in _HALVES else dtype
    device = next(v.device for v in values if isinstance(v, tessera.Tensor))
    tensors = [
        v.to(used) if isinstance(v, tessera.Tensor) else tessera.scalar_tensor(v, dtype=used, device=device)
        for v in values
    ]
    return tensors, dtype


_HALVES = (tessera.float16, tessera.bfloat16)


@functools.cache
def composites():
    """{name: whether it may stand as one call in a functional graph} of operators that are made of others.

    It may not if a result is its argument, or a view of it, or if it writes somewhere.
    """
    found = {}
    for entry in _C._operator_table():
        name = entry[0].partition("(")[0]
        if entry[3].startswith(("COMPOSITE", "SCALAR_OVERLOAD")) and _made_of_others(name):
            found[name] = "(a" not in entry[0] and not is_hiding(name)
    return found


# Not of the core set, but graphs keep them: they are made by writing to a copy, or are copies of views, whose sizes may
# be symbols.
KEPT = frozenset(
    f"aten::{name}"
    for name in """diagonal_scatter as_strided_scatter as_strided_copy view_copy narrow_copy slice_copy.Tensor
    split_copy.Tensor permute_copy select_copy.int detach_copy unbind_copy.int""".split()
)


@functools.cache
def explicit_composites():
    """Names of the operators of aten that are made of others below autograd: they have derivatives of their own."""
    found = []
    for entry in _C._operator_table():
        name = entry[0].partition("(")[0]
        functional = "(a" not in entry[0] and name.startswith("aten::")
        functional = functional and name not in KEPT
        if functional and entry[3].startswith("COMPOSITE") and name not in composites() and not is_core(name):
            found.append(name)
    return found


class Composition:
    """What an operator is made of, as a function with its arguments."""

    def __init__(self, op):
        self.op = op

    def __call__(self, *args, **kwargs):
        return self.op._redispatch(0, *args, **kwargs)


def _made_of_others(name):
    has = _C._has_op_kernel
    return has(name, "CompositeImplicitAutograd") and not any(
        has(name, key) for key in ("CPU", "CompositeExplicitAutograd", "Autograd")
    )


def is_hiding(name):
    """True for the name of an operator that does more than its schema says."""
    return name.partition("::")[2].partition(".")[0] in _HIDDEN


# Write to running statistics, draw numbers in between, or return what they were given, which their schemas don't say.
_HIDDEN = frozenset(
    "batch_norm native_batch_norm instance_norm dropout feature_dropout alpha_dropout feature_alpha_dropout rrelu "
    "rrelu_with_noise multi_head_attention_forward".split()
)


def is_core(name):
    """True for a name ("aten::gelu") of the documented core set."""
    return name.startswith("aten::") and name[len("aten::") :] in _CORE
