"""Operators of any name that stand for nodes of ONNX: tensors of the given sizes here, nodes in a file."""

import json

import tessera
from tessera.onnx._table import aten
from tessera.onnx._types import FROM_ONNX, TO_ONNX

_ARGUMENTS = (
    "(Tensor?[] inputs, str op_type, int{many} onnx_dtype, *, SymInt[] shape, str attrs='{{}}', str domain='', "
    "int? version=None)"
)
_PLAIN = (bool, int, float, str)


def _dtype(value):
    return value if isinstance(value, tessera.dtype) else FROM_ONNX[value]


def _packed(attrs, metadata):
    """Attributes and what stands beside a node as one text."""
    for key, value in (attrs or {}).items():
        values = value if isinstance(value, (list, tuple)) else [value]
        kinds = {type(v) for v in values} - {bool, int}
        if len(kinds - {float}) > 1 or not all(isinstance(v, _PLAIN) for v in values):
            raise ValueError(f"symbolic: attribute {key}: expected an int, float, bool or str or a list of one of "
                             f"them, got {value!r}")  # fmt: skip
    return json.dumps([dict(attrs or {}), dict(metadata or {})])


def _one(_inputs, _op_type, onnx_dtype, *, shape, **_):
    return tessera.zeros(shape, dtype=FROM_ONNX[onnx_dtype])


def _many(_inputs, _op_type, onnx_dtypes, *, shape, **_):
    made, at = [], 0
    for code in onnx_dtypes:
        rank, at = shape[at], at + 1
        made.append(tessera.zeros(shape[at : at + rank], dtype=FROM_ONNX[code]))
        at += rank
    return made


def _define():
    library = tessera.library.Library("onnx_symbolic", "DEF")
    library.define("_symbolic" + _ARGUMENTS.format(many="") + " -> Tensor")
    library.define("_symbolic_multi_out" + _ARGUMENTS.format(many="[]").replace("onnx_dtype", "onnx_dtypes")
                   + " -> Tensor[]")  # fmt: skip
    for name, function in (("_symbolic", _one), ("_symbolic_multi_out", _many)):
        for key in ("CompositeExplicitAutograd", "Meta"):
            library.impl(name, function, key)
    return library


_LIBRARY = _define()


@aten("_symbolic _symbolic_multi_out", namespace="onnx_symbolic")
def _node(b, inputs, op_type, onnx_dtype=None, onnx_dtypes=None, shape=None, attrs="{}", domain="", version=None):
    attrs, metadata = json.loads(attrs)
    if version is not None:
        known = b.model.domains.setdefault(domain, version)
        if known != version:
            raise NotImplementedError(
                f"version {version} of the operators of {domain or 'ai.onnx'!r} in a model of {known}"
            )
    kinds = [onnx_dtype] if onnx_dtypes is None else list(onnx_dtypes)
    names = {k: attrs.pop(k) for k in ("dtype", "outputs", "domain", "op") if k in attrs}
    made = b.op(op_type, *inputs, outputs=len(kinds), domain=domain, **attrs)
    made = (made,) if len(kinds) == 1 else made
    made[0].node.attrs.update(names)
    made[0].node.metadata = metadata
    for value, kind in zip(made, kinds):
        value.dtype = FROM_ONNX[kind]
    return made[0] if onnx_dtypes is None else made


def _place(domain_op):
    if not isinstance(domain_op, str) or domain_op.count("::") > 1 or not domain_op.rpartition("::")[2]:
        raise ValueError(f"symbolic: domain_op: expected 'Operator' or 'domain::Operator', got {domain_op!r}")
    domain, _, op = domain_op.rpartition("::")
    return ("" if domain == "ai.onnx" else domain), op


def symbolic(domain_op, /, inputs, attrs=None, *, dtype, shape, version=None, metadata_props=None):
    """Stands for a node of ONNX with one result.

    Args:
        domain_op: "domain::Operator", or "Operator" of ONNX itself.
        inputs: tensors, None where an input is left out.
        attrs: {name: int, float, bool or str or a list of one of them}.
        dtype: of the result: a dtype, or its number in ONNX.
        shape: of the result.
        version: of the domain's operators.
        metadata_props: {text: text} beside the node.

    Returns: zeros of that shape and dtype.
    """
    domain, op = _place(domain_op)
    return tessera.ops.onnx_symbolic._symbolic(
        list(inputs), op, TO_ONNX[_dtype(dtype)], shape=list(shape), domain=domain, version=version,
        attrs=_packed(attrs, metadata_props),
    )  # fmt: skip


def symbolic_multi_out(domain_op, /, inputs, attrs=None, *, dtypes, shapes, version=None, metadata_props=None):
    """Stands for a node of ONNX with several results.

    Args:
        dtypes, shapes: a dtype and a shape for each result.
        others: as of symbolic().

    Returns: a list of zeros of these shapes and dtypes.
    """
    if len(dtypes) != len(shapes):
        raise ValueError(f"symbolic_multi_out: {len(dtypes)} dtypes for {len(shapes)} shapes; expected as many")
    domain, op = _place(domain_op)
    return tessera.ops.onnx_symbolic._symbolic_multi_out(
        list(inputs), op, [TO_ONNX[_dtype(d)] for d in dtypes], shape=[v for s in shapes for v in (len(s), *s)],
        domain=domain, version=version, attrs=_packed(attrs, metadata_props),
    )  # fmt: skip
