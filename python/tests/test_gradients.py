"""First and second derivatives of every differentiable operator of the op tables, against finite differences.

Nobody lists operators here: they come from the registry, and arguments are made from their schemas by rules. CONSTRAINTS has what the rules cannot know (domains,
shapes that belong together), SKIPPED the operators that cannot be checked this way. Operators whose results change with the seed are left out by a rule, too.
"""

import itertools
import math

import pytest
import tessera
from tessera._ops import FunctionSchema, ops
from tessera.autograd import gradcheck, gradgradcheck

SKIPPED = {}  # name.overload: reason
SKIPPED_COMPLEX = {"embedding": "the backward adds real rows only", "glu": "documented for real inputs", "glu_backward": "documented for real inputs"}
# Floating arguments that are constants by definition.
CONSTANTS = {"binary_cross_entropy": ["weight"], "binary_cross_entropy_with_logits": ["weight", "pos_weight"], "binary_cross_entropy_backward": ["weight"]}


class Given:
    """Arguments of one call by name; what is not named follows the rules."""

    def __init__(self, /, **arguments):
        self.arguments = arguments


def floats(*shape, low=0.3, high=0.9):
    return lambda dtype: _values(shape, dtype, low, high)


def integers(*values):
    return lambda dtype: tessera.tensor(values)


# Domains of functions that are not defined, or not smooth, between 0.3 and 0.9: (lowest, highest) value of all tensors.
DOMAINS = {"acosh": (1.2, 2.5), "arccosh": (1.2, 2.5)}

# Arguments that have to fit each other.
CONSTRAINTS = {
    "_softmax": [Given(half_to_float=False)],
    "_log_softmax": [Given(half_to_float=False)],
    "scatter.src": [Given(self=floats(3, 3), dim=0, index=integers([0, 1, 2], [1, 2, 0], [2, 0, 1]), src=floats(3, 3))],
    "mv": [Given(self=floats(2, 3), vec=floats(3))],
    "addmv": [Given(self=floats(2), mat=floats(2, 3), vec=floats(3))],
    "addr": [Given(self=floats(2, 3), vec1=floats(2), vec2=floats(3))],
    "addmm": [Given(self=floats(2, 4), mat1=floats(2, 3), mat2=floats(3, 4))],
    "addbmm": [Given(self=floats(3, 3), batch1=floats(2, 3, 4), batch2=floats(2, 4, 3))],
    "mm": [Given(self=floats(2, 3), mat2=floats(3, 4))],
    "bmm": [Given(self=floats(2, 3, 2), mat2=floats(2, 2, 4))],
    "linear": [Given(input=floats(2, 3), weight=floats(4, 3)), Given(input=floats(2, 3), weight=floats(4, 3), bias=floats(4))],
    "bilinear": [Given(input1=floats(2, 3), input2=floats(2, 4), weight=floats(2, 3, 4), bias=floats(2))],
    "chain_matmul": [Given(matrices=[floats(2, 3), floats(3, 4), floats(4, 2)])],
    "linalg_multi_dot": [Given(tensors=[floats(2, 3), floats(3, 4), floats(4, 2)])],
    "einsum": [Given(equation="ij,jk->ki", tensors=[floats(2, 3), floats(3, 4)])],
    "tensordot": [Given(self=floats(2, 3), other=floats(3, 4), dims_self=[1], dims_other=[0])],
    "view_as_complex": [Given(self=floats(3, 2))],
    "unflatten.int": [Given(self=floats(2, 4), dim=1, sizes=[2, 2])],
    "take": [Given(self=floats(2, 3), index=integers(0, 5, 2))],
    "put": [Given(self=floats(2, 3), index=integers(0, 5, 2), source=floats(3))],
    "as_strided": [Given(self=floats(6), size=[2, 2], stride=[2, 1])],
    "as_strided_backward": [Given(grad=floats(2, 2), input_sizes=[6], input_strides=[1], input_offset=0, sizes=[2, 2], strides=[2, 1], storage_offset=0)],
    "repeat_interleave.self_Tensor": [Given(self=floats(2, 3), repeats=integers(2, 1), dim=0)],
    "split_with_sizes": [Given(self=floats(3), split_sizes=[1, 2])],
    "split.sizes": [Given(self=floats(3), split_size=[1, 2])],
    "masked_scatter": [Given(source=floats(6))],
    "as_strided_scatter": [Given(self=floats(6), src=floats(2, 2), size=[2, 2], stride=[2, 1])],
    "max_unpool2d": [Given(self=floats(1, 1, 2, 2), indices=lambda dtype: tessera.tensor([[[[0, 3], [9, 14]]]]), output_size=[4, 4])],
    "conv1d": [Given(input=floats(1, 2, 5), weight=floats(3, 2, 2), bias=floats(3))],
    "conv2d": [Given(input=floats(1, 2, 4, 4), weight=floats(2, 2, 3, 2), bias=floats(2), padding=[1, 0])],
    "conv3d": [Given(input=floats(1, 1, 3, 3, 3), weight=floats(2, 1, 2, 2, 2), bias=floats(2))],
}


def _values(shape, dtype, low, high):
    t = tessera.rand(shape, dtype=tessera.float64) * (high - low) + low
    if dtype.is_complex:
        t = tessera.complex(t, tessera.rand(shape, dtype=tessera.float64) * (high - low) + low)
    return t.requires_grad_()


SHAPES = [(2, 3), (3,), (3, 3), (), (2, 3, 3), (1, 2, 4, 4), (1, 2, 4), (1, 2, 3, 4, 4)]
INT_NAMES = {"dim": [-1, 0], "dim0": [0], "dim1": [-1], "axis0": [0], "axis1": [-1], "k": [1, 2], "n": [2], "chunks": [2], "sections": [1], "split_size": [1], "index": [0],
             "repeats": [2], "start": [0], "length": [1], "end": [2], "step": [1], "size": [2], "dimension": [0], "correction": [1], "decimals": [1], "shifts": [1]}


class Unknown(Exception):
    """No rule for an argument."""


def candidates(argument, shape, bounds, dtype, index_shape, wide):
    """Possible values of one argument."""
    kind, name = argument.type, argument.name
    if kind in ("Tensor", "Tensor?"):
        if kind == "Tensor?" and not wide:
            return [None]
        if "mask" in name or name == "condition":
            return [tessera.arange(max(math.prod(shape), 1)).reshape(shape) % 2 == 0]
        if name in ("index", "indices", "repeats"):
            many = math.prod(index_shape) if index_shape else 1
            top = max(shape[-1] if shape else 1, 1)
            return [(tessera.arange(many) % min(top, shape[0] if shape else 1)).reshape(index_shape)]
        return [_values(shape, dtype, *bounds)]
    if kind == "Tensor[]":
        return [[_values(shape, dtype, *bounds) for _ in range(2)]]
    if kind == "Tensor?[]":
        return [[tessera.arange(2) % (shape[0] if shape else 1)]]
    if argument.has_default_value():
        return [argument.default_value] + ([not argument.default_value] if wide and kind == "bool" else [])
    if kind.endswith("?"):
        return [None]
    if kind in ("int", "SymInt"):
        return INT_NAMES.get(name, [1])
    if kind in ("float", "Scalar"):
        return [0.7]
    if kind == "bool":
        return [False, True]
    if kind == "ScalarType":
        return [dtype]
    if kind.startswith(("int[", "SymInt[", "int1[")):
        if name in ("size", "sizes", "shape", "other_size"):
            return [list(shape)]
        if name in ("dims", "dim", "permutation") and shape:
            return [list(range(len(shape)))[::-1], [0], [0, 1]]
        return [[1] * max(len(shape), 1), [0], [1]]
    raise Unknown(f"{kind} {name}")


def flatten(value):
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in flatten(v)]
    return [value]


def samples(schema, dtype):
    """Argument lists that the operator takes and whose results depend differentiably on them: [(operator, arguments, numbers of those results)]."""
    name = schema.name.split("::")[1]
    full = f"{name}.{schema.overload_name}" if schema.overload_name else name
    bounds = DOMAINS.get(name.rstrip("_"), (0.3, 0.9))
    given = CONSTRAINTS.get(full) or CONSTRAINTS.get(name)
    op = getattr(getattr(ops.aten, name), schema.overload_name or "default")
    found = []
    for fixed, shape, wide in itertools.product(given or [None], SHAPES if given is None else SHAPES[:1], (False, True)):
        for index_shape in [shape, (2,)]:
            tessera.manual_seed(0)
            try:
                choices = []
                for a in schema.arguments:
                    value = fixed.arguments.get(a.name, Unknown) if fixed else Unknown
                    if value is Unknown:
                        choices.append(candidates(a, shape, bounds, dtype, index_shape, wide))
                    else:
                        choices.append([[v(dtype) for v in value] if isinstance(value, list) and value and callable(value[0]) else value(dtype) if callable(value) else value])
            except Unknown:
                return found
            for position, a in enumerate(schema.arguments):
                if a.name in CONSTANTS.get(name, ()):
                    choices[position] = [v if v is None else v.detach() for v in choices[position]]
            for arguments in itertools.islice(itertools.product(*choices), 12):
                tensors = [t for t in flatten(arguments) if isinstance(t, tessera.Tensor) and t.requires_grad]
                if not tensors or len(found) >= 3 or any(t.dtype != dtype for t in tensors):
                    continue
                outputs = differentiable_outputs(op, schema, arguments)
                if outputs and not draws_random_numbers(op, schema, arguments):
                    found.append((op, arguments, outputs))
    return found


def split_arguments(schema, arguments):
    positional = [v for a, v in zip(schema.arguments, arguments) if not a.kwarg_only]
    return positional, {a.name: v for a, v in zip(schema.arguments, arguments) if a.kwarg_only}


def call(op, schema, arguments):
    positional, keywords = split_arguments(schema, arguments)
    return flatten(op(*positional, **keywords))


def differentiable_outputs(op, schema, arguments):
    """The numbers of the results with a history; none if the arguments do not fit."""
    try:
        results = call(op, schema, arguments)
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
        return []
    return [i for i, r in enumerate(results) if isinstance(r, tessera.Tensor) and r.requires_grad and r.numel()]


def draws_random_numbers(op, schema, arguments):
    states = []
    for seed in (1, 2, 3):
        tessera.manual_seed(seed)
        states.append(tessera.get_rng_state().tolist())
        call(op, schema, arguments)
        states[-1] = states[-1] != tessera.get_rng_state().tolist()
    return any(states)


def as_function(schema, op, arguments, outputs):
    """The operator as a function of its differentiable tensors, and these."""
    leaves = [t for t in flatten(arguments) if isinstance(t, tessera.Tensor) and t.requires_grad]

    def rebuild(value, fresh):
        if isinstance(value, list):
            return [rebuild(v, fresh) for v in value]
        return next(fresh) if isinstance(value, tessera.Tensor) and value.requires_grad else value

    def function(*tensors):
        fresh = iter(tensors)
        results = call(op, schema, [rebuild(v, fresh) for v in arguments])
        return tuple(results[i] for i in outputs)

    return function, tuple(leaves)


def functional_schemas():
    for text, *_ in tessera._C._operator_table():
        schema = FunctionSchema(text)
        if not schema.is_mutable and schema.name.startswith("aten::") and any("Tensor" in a.type for a in schema.arguments):
            yield schema


def identify(schema):
    return schema.name.split("::")[1] + ("." + schema.overload_name if schema.overload_name else "")


SCHEMAS = sorted(functional_schemas(), key=identify)


@pytest.mark.parametrize("dtype", [tessera.float64, tessera.complex128], ids=["real", "complex"])
@pytest.mark.parametrize("schema", [s for s in SCHEMAS if identify(s) not in SKIPPED], ids=identify)
def test_derivatives(schema, dtype):
    if dtype.is_complex and identify(schema) in SKIPPED_COMPLEX:
        pytest.skip(SKIPPED_COMPLEX[identify(schema)])
    found = samples(schema, dtype)
    for sample in found if dtype == tessera.float64 else found[:1]:
        function, leaves = as_function(schema, *sample)
        assert gradcheck(function, leaves)
        if any(g.requires_grad for g in _gradients(function, leaves)):
            assert gradgradcheck(function, leaves)


def _gradients(function, leaves):
    results = function(*leaves)
    grads = tessera.autograd.grad(results, leaves, [tessera.ones_like(r).requires_grad_() for r in results], create_graph=True, allow_unused=True)
    return [g for g in grads if g is not None]


def test_the_rules_reach_most_operators():
    """Operators with floating inputs for which nothing differentiable was found have no derivative by their tables; there are not many of them."""
    unreached = [identify(s) for s in SCHEMAS if identify(s) not in SKIPPED and not samples(s, tessera.float64)]
    assert len(unreached) < len(SCHEMAS) * 0.35, unreached
