"""Operators against NumPy over random shapes, strides and dtypes: values, result dtypes, in-place and out= forms,
views, indexing.
"""

import math

import numpy as np
import pytest
import scipy.special
import tessera
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FAST = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
MORE = settings(FAST, max_examples=80)

FLOATS = [tessera.float32, tessera.float64]
INTS = [tessera.uint8, tessera.int8, tessera.int16, tessera.int32, tessera.int64]
TO_NUMPY = {
    tessera.float32: np.float32,
    tessera.float64: np.float64,
    tessera.uint8: np.uint8,
    tessera.int8: np.int8,
    tessera.int16: np.int16,
    tessera.int32: np.int32,
    tessera.int64: np.int64,
    tessera.bool: np.bool_,
    tessera.complex64: np.complex64,
    tessera.complex128: np.complex128,
}
TOLERANCE = {
    np.dtype(np.float32): (2e-5, 1e-6),
    np.dtype(np.float64): (1e-11, 1e-12),
    np.dtype(np.complex64): (5e-5, 1e-5),
    np.dtype(np.complex128): (1e-11, 1e-12),
}


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def random_values(rng, shape, dtype, low=-3.0, high=3.0):
    kind = TO_NUMPY[dtype]
    if dtype == tessera.bool:
        return rng.integers(0, 2, shape).astype(bool)
    if np.issubdtype(kind, np.integer):
        return rng.integers(max(int(low), 0) if dtype == tessera.uint8 else int(low), int(high) + 1, shape).astype(kind)
    values = rng.uniform(low, high, shape)
    return np.asarray(
        values + 1j * rng.uniform(low, high, shape) if np.issubdtype(kind, np.complexfloating) else values
    ).astype(kind)


@st.composite
def shapes(draw, max_dim=4, max_side=4, min_dim=0, min_side=0):
    return tuple(draw(st.lists(st.integers(min_side, max_side), min_size=min_dim, max_size=max_dim)))


@st.composite
def strided(draw, shape, dtype, low=-3.0, high=3.0, quarters=False):
    """(array, tensor) with these elements; the tensor may be permuted, stepped through, offset or expanded. `quarters`:
    floats are multiples of 1/4.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rank = len(shape)
    order = draw(st.permutations(range(rank)))
    steps = draw(st.lists(st.integers(1, 2), min_size=rank, max_size=rank))
    starts = draw(st.lists(st.integers(0, 1), min_size=rank, max_size=rank))
    broadcast = (
        draw(st.lists(st.booleans(), min_size=rank, max_size=rank)) if draw(st.integers(0, 4)) == 0 else [False] * rank
    )
    inner = [1 if broadcast[d] else shape[d] for d in range(rank)]
    base = random_values(rng, [starts[d] + inner[d] * steps[d] for d in order], dtype, low, high)
    base = np.asarray(np.round(base * 4) / 4).astype(base.dtype) if quarters and dtype in FLOATS else base
    tensor = tessera.from_numpy(base.copy())
    window = tuple(slice(starts[d], None, steps[d]) for d in order)
    inverse = [list(order).index(d) for d in range(rank)]
    array = base[window].transpose(inverse) if rank else base
    tensor = tensor[window].permute(inverse) if rank else tensor
    narrow = tuple(slice(0, n) for n in inner)
    return np.broadcast_to(array[narrow], shape), tensor[narrow].expand(shape)


def check(result, wanted, dtype=None):
    wanted = np.asarray(wanted)
    got = result.numpy()
    assert got.shape == wanted.shape, f"shape {got.shape}, NumPy's is {wanted.shape}"
    if dtype is not None:
        assert result.dtype == dtype
    if np.issubdtype(got.dtype, np.inexact):
        relative, absolute = TOLERANCE[got.dtype]
        np.testing.assert_allclose(got, wanted.astype(got.dtype), rtol=relative, atol=absolute)
    else:
        np.testing.assert_array_equal(got, wanted.astype(got.dtype))


def wide(array):
    """The array in double precision: what float results are compared with."""
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


# ---- elementwise
# ------------------------------------------------------------------------------------------------------------

SIGMOID = lambda x: 1 / (1 + np.exp(-x))
UNARY_FLOAT = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": SIGMOID,
    "erf": np.vectorize(math.erf, otypes=[float]),
    "erfc": np.vectorize(math.erfc, otypes=[float]),
    "sinc": np.sinc,
    "i0": np.i0,
    "deg2rad": np.deg2rad,
    "rad2deg": np.rad2deg,
}
UNARY_SAME = {
    "abs": np.abs,
    "neg": np.negative,
    "sign": np.sign,
    "square": np.square,
    "positive": np.positive,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.round,
    "trunc": np.trunc,
}
PREDICATES = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "signbit": np.signbit,
    "logical_not": np.logical_not,
}


@pytest.mark.parametrize("name", UNARY_FLOAT)
@given(data=st.data())
@FAST
def test_unary_functions_of_floats(name, data):
    dtype = data.draw(st.sampled_from(FLOATS + INTS + [tessera.bool]))
    array, tensor = data.draw(strided(data.draw(shapes()), dtype))
    wanted = UNARY_FLOAT[name](wide(array)) if array.size else wide(array)
    result = getattr(tessera, name)(tensor)
    check(result, wanted, dtype if dtype in FLOATS else tessera.float32)
    if dtype in FLOATS:
        check(getattr(tessera, name)(tensor, out=tessera.empty(0, dtype=dtype)), wanted)
        check(getattr(tensor.contiguous().clone(), name + "_")(), wanted)


@pytest.mark.parametrize("name", UNARY_SAME)
@given(data=st.data())
@FAST
def test_unary_functions_that_keep_the_dtype(name, data):
    dtype = data.draw(st.sampled_from(FLOATS + INTS))
    array, tensor = data.draw(strided(data.draw(shapes()), dtype))
    wanted = UNARY_SAME[name](array)
    check(getattr(tessera, name)(tensor), wanted, dtype)
    if name != "positive":
        copy = tensor.clone()
        assert getattr(copy, name + "_")() is copy
        check(copy, wanted, dtype)


@pytest.mark.parametrize("name", PREDICATES)
@given(data=st.data())
@FAST
def test_predicates(name, data):
    dtype = data.draw(st.sampled_from(FLOATS + INTS))
    array, tensor = data.draw(strided(data.draw(shapes()), dtype))
    if dtype in FLOATS and array.size:
        array = array.copy()
        array.flat[0] = data.draw(st.sampled_from([math.nan, math.inf, -math.inf, -0.0]))
        tensor = tessera.from_numpy(array)
    check(getattr(tessera, name)(tensor), PREDICATES[name](array), tessera.bool)


BINARY = {
    "add": (np.add, FLOATS + INTS),
    "sub": (np.subtract, FLOATS + INTS),
    "mul": (np.multiply, FLOATS + INTS),
    "maximum": (np.maximum, FLOATS + INTS),
    "minimum": (np.minimum, FLOATS + INTS),
    "fmax": (np.fmax, FLOATS),
    "fmin": (np.fmin, FLOATS),
    "atan2": (np.arctan2, FLOATS),
    "hypot": (np.hypot, FLOATS),
    "copysign": (np.copysign, FLOATS),
    "logaddexp": (np.logaddexp, FLOATS),
    "logaddexp2": (np.logaddexp2, FLOATS),
    "nextafter": (np.nextafter, FLOATS),
    "heaviside": (np.heaviside, FLOATS),
    "gcd": (np.gcd, INTS),
    "lcm": (np.lcm, INTS),
    "bitwise_and": (np.bitwise_and, INTS + [tessera.bool]),
    "bitwise_or": (np.bitwise_or, INTS + [tessera.bool]),
    "bitwise_xor": (np.bitwise_xor, INTS + [tessera.bool]),
}
COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
DIVISIONS = {"remainder": np.mod, "fmod": np.fmod, "floor_divide": np.floor_divide}


@st.composite
def broadcastable(draw):
    """Two shapes that broadcast."""
    shape = draw(shapes(max_dim=3))

    def part():
        kept = shape[draw(st.integers(0, len(shape))) :]
        return tuple(1 if draw(st.booleans()) and n != 0 else n for n in kept)

    return (shape, part()) if draw(st.booleans()) else (part(), shape)


@pytest.mark.parametrize("name", BINARY)
@given(data=st.data())
@FAST
def test_binary_functions(name, data):
    reference, dtypes = BINARY[name]
    dtype = data.draw(st.sampled_from(dtypes))
    shape_a, shape_b = data.draw(broadcastable())
    (array_a, a), (array_b, b) = data.draw(strided(shape_a, dtype)), data.draw(strided(shape_b, dtype))
    wanted = reference(array_a, array_b)
    check(getattr(tessera, name)(a, b), wanted, dtype)
    check(getattr(tessera, name)(a, b, out=tessera.empty(0, dtype=dtype)), wanted)


@pytest.mark.parametrize("name", COMPARISONS)
@given(data=st.data())
@FAST
def test_comparisons(name, data):
    dtype = data.draw(st.sampled_from(FLOATS + INTS + [tessera.bool]))
    shape_a, shape_b = data.draw(broadcastable())
    (array_a, a), (array_b, b) = data.draw(strided(shape_a, dtype)), data.draw(strided(shape_b, dtype))
    check(getattr(tessera, name)(a, b), COMPARISONS[name](array_a, array_b), tessera.bool)


@pytest.mark.parametrize("name", DIVISIONS)
@given(data=st.data())
@FAST
def test_integer_and_float_division(name, data):
    dtype = data.draw(st.sampled_from(FLOATS + INTS))
    shape_a, shape_b = data.draw(broadcastable())
    array_a, a = data.draw(strided(shape_a, dtype, -20, 20))
    array_b, b = data.draw(strided(shape_b, dtype, 1, 5))
    if dtype in FLOATS:  # exact multiples of a quarter: no rounding decides
        array_a, array_b = np.asarray(np.round(array_a * 4) / 4), np.asarray(np.round(array_b * 4) / 4)
        a, b = tessera.from_numpy(array_a), tessera.from_numpy(array_b)
    check(getattr(tessera, name)(a, b), DIVISIONS[name](array_a, array_b), dtype)


# One table of all of these: name -> (NumPy's function, dtypes, lowest and highest value, what the dtype of the result
# is, number of tensors).
ANY = FLOATS + INTS + [tessera.bool]
FUNCTIONS = {
    **{name: (f, ANY, (0.05, 0.95), "float", 1) for name, f in UNARY_FLOAT.items() if name != "acosh"},
    **{name: (f, FLOATS + INTS, (-3, 3), "same", 1) for name, f in UNARY_SAME.items()},
    **{name: (f, ANY, (-3, 3), "bool", 1) for name, f in PREDICATES.items()},
    **{name: (f, dtypes, (0, 3), "same", 2) for name, (f, dtypes) in BINARY.items()},
    **{name: (f, ANY, (-3, 3), "bool", 2) for name, f in COMPARISONS.items()},
    **{name: (f, FLOATS + INTS, (1, 9), "same", 2) for name, f in DIVISIONS.items()},
    "acosh": (np.arccosh, ANY, (1, 5), "float", 1),
    "div": (np.true_divide, ANY, (1, 9), "float", 2),
    "true_divide": (np.true_divide, FLOATS + INTS, (1, 9), "float", 2),
    "pow": (np.power, FLOATS + INTS, (1, 4), "same", 2),
    "float_power": (np.float_power, FLOATS + INTS, (1, 4), "double", 2),
    "isclose": (np.isclose, FLOATS, (0, 1), "bool", 2),
    "where": (np.where, FLOATS + INTS, (-3, 3), "same", 3),
    "clamp": (np.clip, FLOATS + INTS, (0, 4), "same", 3),
    "isreal": (np.isreal, ANY, (-3, 3), "bool", 1),
    "bitwise_not": (np.invert, INTS + [tessera.bool], (0, 3), "same", 1),
    "nan_to_num": (np.nan_to_num, FLOATS, (-3, 3), "same", 1),
}
EXACT = {
    "remainder",
    "fmod",
    "floor_divide",
    "heaviside",
    "isclose",
    "round",
}  # a rounding decides: arguments are multiples of a quarter
WITHOUT_INPLACE = {
    "positive",
    "where",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "isreal",
    "isclose",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "logaddexp",
    "logaddexp2",
}
ALIKE = {"isclose", "heaviside"}  # documented for tensors of one dtype
WITHOUT_OUT = {"isnan", "isinf", "isfinite", "isreal", "isclose", "positive", "where"}


def result_dtype(kind, tensors):
    """What dtype a function gives for tensors of these."""
    joint = tensors[0].dtype
    for i in range(1, len(tensors)):
        joint = tessera.result_type(
            tessera.empty(()).to(joint) if not any(t.dim() for t in tensors[:i]) else tessera.empty(1).to(joint),
            tensors[i],
        )
    if kind == "float":
        return joint, joint if joint in FLOATS else tessera.float32
    return joint, {"same": joint, "bool": tessera.bool, "double": tessera.float64}[kind]


@given(data=st.data())
@settings(FAST, max_examples=600)
def test_any_function_of_any_tensors(data):
    """A function, the shapes (no dimensions, no elements, sizes of 1), the layouts and the dtypes, alike or mixed, the
    form of the call: all drawn.
    """
    name = data.draw(st.sampled_from(sorted(FUNCTIONS)))
    reference, dtypes, (low, high), kind, arity = FUNCTIONS[name]
    shapes_drawn = [data.draw(shapes())] if arity == 1 else list(data.draw(broadcastable()))
    shapes_drawn += [shapes_drawn[0]] * (arity - len(shapes_drawn))
    first = data.draw(st.sampled_from(dtypes))
    mixed = arity == 2 and name not in ALIKE and data.draw(st.booleans())
    pairs = [
        data.draw(strided(shape, data.draw(st.sampled_from(dtypes)) if mixed else first, low, high, name in EXACT))
        for shape in shapes_drawn
    ]
    if name == "where":
        pairs[0] = data.draw(strided(shapes_drawn[0], tessera.bool))
    arrays, tensors = [a for a, _ in pairs], [t for _, t in pairs]
    joint, dtype = result_dtype(kind, tensors[1:] if name == "where" else tensors)
    compute = np.float64 if kind in ("float", "double") else TO_NUMPY[joint]
    rounded = compute if kind == "double" else TO_NUMPY[joint]  # arguments are brought to the joint dtype first
    operands = [
        a if a.dtype == np.bool_ and name == "where" else np.asarray(a.astype(rounded)).astype(compute) for a in arrays
    ]
    wanted = (
        reference(*operands)
        if math.prod(np.broadcast_shapes(*[a.shape for a in operands]))
        else np.zeros(np.broadcast_shapes(*[a.shape for a in operands]))
    )
    forms = ["function", "function"] + ([] if name in WITHOUT_OUT else ["out"])
    fits = tensors[0].dtype == dtype if kind == "double" else tessera.can_cast(dtype, tensors[0].dtype)
    if name not in WITHOUT_INPLACE and tensors[0].shape == wanted.shape and fits:
        forms.append("in place")
    form = data.draw(st.sampled_from(forms))
    if form == "out":
        out = tessera.empty(0, dtype=dtype)
        assert getattr(tessera, name)(*tensors, out=out) is out
        check(out, wanted, dtype)
    elif form == "in place":
        copy = tensors[0].clone()
        assert getattr(copy, name + "_")(*tensors[1:]) is copy
        check(copy, wanted.astype(TO_NUMPY[dtype]))
    else:
        check(getattr(tessera, name)(*tensors), wanted, dtype)
    for array, tensor in pairs:
        np.testing.assert_array_equal(tensor.numpy(), array, err_msg="an argument was written to")


def test_the_table_has_sixty_functions():
    assert len(FUNCTIONS) + len(REDUCTIONS) >= 60


@given(data=st.data())
@MORE
def test_the_dtype_of_a_mixed_sum(data):
    """Of two tensors with dimensions the higher category wins; within one category the wider dtype; a 0-dim tensor or a
    number only raises the category.
    """
    order = [
        tessera.bool,
        tessera.uint8,
        tessera.int16,
        tessera.int32,
        tessera.int64,
        tessera.float16,
        tessera.float32,
        tessera.float64,
        tessera.complex64,
        tessera.complex128,
    ]
    rank = {
        tessera.bool: 0,
        tessera.float16: 2,
        tessera.float32: 2,
        tessera.float64: 2,
        tessera.complex64: 3,
        tessera.complex128: 3,
    }
    a, b = data.draw(st.sampled_from(order)), data.draw(st.sampled_from(order))
    higher = max(a, b, key=order.index)
    if {a, b} == {tessera.float64, tessera.complex64}:
        higher = tessera.complex128
    assert (
        (tessera.ones(2, dtype=a) + tessera.ones(2, dtype=b)).dtype
        == higher
        == tessera.result_type(tessera.ones(2, dtype=a), tessera.ones(2, dtype=b))
    )
    if rank.get(b, 1) <= rank.get(a, 1):
        assert (tessera.ones(2, dtype=a) + tessera.ones((), dtype=b)).dtype == a
    if rank.get(a, 1) >= 1:
        assert (tessera.ones(2, dtype=a) + 1).dtype == a
    assert (tessera.ones(2, dtype=a) * 1.5).dtype == (a if rank.get(a, 1) >= 2 else tessera.float32)


@given(data=st.data())
@MORE
def test_choice_and_clamping(data):
    dtype = data.draw(st.sampled_from(FLOATS + INTS))
    shape = data.draw(shapes())
    (array_a, a), (array_b, b) = data.draw(strided(shape, dtype)), data.draw(strided(shape, dtype))
    mask_array, mask = data.draw(strided(shape, tessera.bool))
    check(tessera.where(mask, a, b), np.where(mask_array, array_a, array_b), dtype)
    check(tessera.masked_fill(a, mask, 1), np.where(mask_array, 1, array_a), dtype)
    check(
        tessera.clamp(a, -1 if dtype != tessera.uint8 else 0, 2),
        np.clip(array_a, -1 if dtype != tessera.uint8 else 0, 2),
        dtype,
    )
    check(tessera.masked_select(a, mask), array_a[mask_array], dtype)
    check(tessera.nonzero(mask), np.argwhere(mask_array))


def test_polygamma_has_its_closed_forms():
    x = tessera.tensor([1.0, 0.5, -0.5, 0.0], dtype=tessera.float64)
    check(tessera.polygamma(1, x), [math.pi**2 / 6, math.pi**2 / 2, math.pi**2 / 2 + 4, math.inf])
    check(tessera.polygamma(2, x[1:2]), [-14 * 1.2020569031595942])
    check(tessera.polygamma(0, x[:2]), [-0.5772156649015329, -0.5772156649015329 - 2 * math.log(2)])
    shift = tessera.linspace(-7.3, 6.1, 50, dtype=tessera.float64)  # psi'(x + 1) = psi'(x) - 1 / x^2
    check(tessera.polygamma(1, shift + 1), (tessera.polygamma(1, shift) - 1 / shift**2).numpy())
    with pytest.raises(RuntimeError, match="negative n"):
        tessera.polygamma(-1, x)
    y = x[:2].clone()
    assert tessera.equal(y.polygamma(1), tessera.polygamma(1, y))
    assert y.polygamma_(1) is y and tessera.equal(y, tessera.polygamma(1, x[:2]))
    with pytest.raises(RuntimeError, match="can't be cast"):
        tessera.ones(2, dtype=tessera.int64).polygamma_(1)


def test_ldexp_counts_in_the_joint_dtype():
    exponents = tessera.tensor([3, 200], dtype=tessera.uint8)
    check(tessera.ldexp(tessera.ones((), dtype=tessera.float64), exponents), [8.0, 2.0**200], tessera.float64)
    check(tessera.ldexp(tessera.ones(2, dtype=tessera.float64), exponents), [8.0, 2.0**200], tessera.float64)
    check(tessera.ldexp(tessera.ones(2), exponents[:1]), [8.0, 8.0], tessera.float32)
    check(tessera.ldexp(tessera.ones(1, dtype=tessera.int64), exponents[:1]), [8.0], tessera.float32)


def test_reflected_methods_called_by_name():
    x = tessera.tensor([1.0, 3.0])
    for name, wanted in [("__rpow__", [2.0, 8.0]), ("__rmod__", [0.0, 2.0])]:
        method = getattr(tessera.Tensor, name)
        check(method(x, 2), wanted)
        check(getattr(x, name)(2), wanted)
    check(tessera.Tensor.__rpow__(2, x), [1.0, 9.0])
    check(tessera.Tensor.__rmod__(2, x), [1.0, 1.0])
    check(2**x, [2.0, 8.0])
    check(2 % x, [0.0, 2.0])


# ---- reductions and scans
# ---------------------------------------------------------------------------------------------------

REDUCTIONS = {
    "sum": (np.sum, FLOATS + INTS + [tessera.bool]),
    "mean": (np.mean, FLOATS),
    "amax": (np.amax, FLOATS + INTS),
    "amin": (np.amin, FLOATS + INTS),
    "all": (np.all, FLOATS + INTS + [tessera.bool]),
    "any": (np.any, FLOATS + INTS + [tessera.bool]),
    "count_nonzero": (np.count_nonzero, FLOATS + INTS),
    "nansum": (np.nansum, FLOATS),
    "logsumexp": (lambda a, axis, keepdims: np.log(np.sum(np.exp(a), axis=axis, keepdims=keepdims)), FLOATS),
    "var": (lambda a, axis, keepdims: np.var(a, axis=axis, keepdims=keepdims, ddof=1), FLOATS),
    "std": (lambda a, axis, keepdims: np.std(a, axis=axis, keepdims=keepdims, ddof=1), FLOATS),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@given(data=st.data())
@FAST
def test_reductions(name, data):
    reference, dtypes = REDUCTIONS[name]
    dtype = data.draw(st.sampled_from(dtypes))
    needs_elements = name in ("amax", "amin", "var", "std", "mean")
    shape = data.draw(shapes(min_dim=1, min_side=2 if needs_elements else 0))
    array, tensor = data.draw(strided(shape, dtype))
    if dtype in FLOATS:
        array = wide(array)
    dims = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    signed = tuple(d - len(shape) if data.draw(st.booleans()) else d for d in dims)
    keep = data.draw(st.booleans()) and name != "count_nonzero"
    if name == "count_nonzero":
        check(tessera.count_nonzero(tensor, dim=signed), np.count_nonzero(array, axis=dims))
    else:
        check(getattr(tessera, name)(tensor, dim=signed, keepdim=keep), reference(array, axis=dims, keepdims=keep))


@given(data=st.data())
@MORE
def test_one_dimension_reductions_and_scans(data):
    dtype = data.draw(st.sampled_from(FLOATS + INTS))
    shape = data.draw(shapes(min_dim=1, min_side=1))
    dim = data.draw(st.integers(0, len(shape) - 1))
    array, tensor = data.draw(strided(shape, dtype))
    double = wide(array) if dtype in FLOATS else array
    check(tensor.cumsum(dim), np.cumsum(double, dim), dtype if dtype in FLOATS else tessera.int64)
    check(tensor.cumprod(dim), np.cumprod(double, dim), dtype if dtype in FLOATS else tessera.int64)
    check(tensor.prod(dim), np.prod(double, dim), dtype if dtype in FLOATS else tessera.int64)
    check(tensor.argmax(dim), np.argmax(array, dim), tessera.int64)
    check(tensor.argmin(dim), np.argmin(array, dim), tessera.int64)
    best = tensor.max(dim)
    check(best.values, np.max(array, dim), dtype)
    check(best.indices, np.argmax(array, dim))
    if dtype in FLOATS:
        e = np.exp(double - double.max(dim, keepdims=True))
        check(tensor.softmax(dim), e / e.sum(dim, keepdims=True), dtype)
        check(tensor.log_softmax(dim), np.log(e / e.sum(dim, keepdims=True)), dtype)


def test_softmax_of_nothing_takes_every_dtype():
    for function in (tessera.softmax, tessera.log_softmax):
        for dtype in (tessera.complex64, tessera.int64, tessera.bool):
            assert function(tessera.ones(0, 3, dtype=dtype), 1).dtype is dtype
            with pytest.raises(NotImplementedError, match="softmax"):
                function(tessera.ones(2, 3, dtype=dtype), 1)


@given(data=st.data())
@MORE
def test_sorting(data):
    dtype = data.draw(st.sampled_from(FLOATS + INTS))
    shape = data.draw(shapes(min_dim=1))
    dim = data.draw(st.integers(0, len(shape) - 1))
    array, tensor = data.draw(strided(shape, dtype))
    values, order = tessera.sort(tensor, dim=dim, stable=True)
    check(values, np.sort(array, dim), dtype)
    check(order, np.argsort(array, dim, kind="stable"))
    k = data.draw(st.integers(0, shape[dim]))
    top = tensor.topk(k, dim)
    check(top.values, np.flip(np.sort(array, dim), dim).take(range(k), dim), dtype)
    check(tensor.gather(dim, top.indices), top.values.numpy())
    number = tensor.ravel()[0] if tensor.numel() else tessera.ones((), dtype=dtype)
    for k in (0, 1):  # without dimensions there is the number itself
        check(number.topk(k).values, number.numpy())
        check(number.topk(k).indices, np.array(0))
    found, inverse, counts = tessera.unique(tensor, return_inverse=True, return_counts=True)
    reference = np.unique(array, return_inverse=True, return_counts=True)
    check(found, reference[0], dtype)
    check(inverse, reference[1].reshape(array.shape))
    check(counts, reference[2])
    edges = np.sort(array.ravel())
    check(tessera.searchsorted(tessera.from_numpy(edges.copy()), tensor), np.searchsorted(edges, array))


# ---- views and arrangement
# --------------------------------------------------------------------------------------------------


@given(data=st.data())
@MORE
def test_views_share_memory_and_follow_numpy(data):
    shape = data.draw(shapes(min_dim=1))
    array, tensor = data.draw(strided(shape, tessera.float32))
    rank = len(shape)
    d = data.draw(st.integers(0, rank - 1))
    e = data.draw(st.integers(-rank, rank - 1))
    start = data.draw(st.integers(0, shape[d]))
    length = data.draw(st.integers(0, shape[d] - start))
    order = data.draw(st.permutations(range(rank)))
    pairs = [
        (tensor.transpose(d, e), array.swapaxes(d, e)),
        (tensor.permute(order), array.transpose(order)),
        (tensor.movedim(d, e), np.moveaxis(array, d, e)),
        (tensor.unsqueeze(e), np.expand_dims(array, e if e >= 0 else e + rank + 1)),
        (tensor.narrow(d, start, length), array.take(range(start, start + length), d)),
        (tensor.squeeze(), array.squeeze()),
        (tensor.expand(3, *shape), np.broadcast_to(array, (3, *shape))),
    ]
    if shape[d]:
        i = data.draw(st.integers(-shape[d], shape[d] - 1))
        pairs.append((tensor.select(d, i), array.take(i, d)))
    if rank > 1 and d != e % rank:
        offset = data.draw(st.integers(-2, 2))
        pairs.append((tensor.diagonal(offset, d, e), np.diagonal(array, offset, d, e)))
    for view, wanted in pairs:
        check(view, wanted)
        assert view._base is not None and view.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()


@given(data=st.data())
@MORE
def test_arrangement(data):
    dtype = data.draw(st.sampled_from(FLOATS + INTS + [tessera.bool, tessera.complex64]))
    shape = data.draw(shapes(min_dim=1))
    (array, tensor), (array2, tensor2) = data.draw(strided(shape, dtype)), data.draw(strided(shape, dtype))
    d = data.draw(st.integers(0, len(shape) - 1))
    shift = data.draw(st.integers(-5, 5))
    check(tensor.flip(d), np.flip(array, d), dtype)
    check(tensor.roll(shift, d), np.roll(array, shift, d), dtype)
    check(tessera.cat([tensor, tensor2], d), np.concatenate([array, array2], d), dtype)
    check(tessera.stack([tensor, tensor2], d), np.stack([array, array2], d), dtype)
    check(tensor.repeat(*[2] * len(shape)), np.tile(array, [2] * len(shape)), dtype)
    check(tensor.repeat_interleave(2, d), np.repeat(array, 2, d), dtype)
    check(tensor.reshape(-1) if array.size else tensor.flatten(), array.reshape(-1), dtype)
    check(tensor.clone(), array, dtype)
    check(tensor.contiguous(), array, dtype)
    for part, wanted in zip(tensor.split(2, d), np.split(array, range(2, max(shape[d], 1), 2), d)):
        check(part, wanted, dtype)
    if len(shape) >= 2:
        k = data.draw(st.integers(-2, 2))
        check(tensor.tril(k), np.tril(array, k), dtype)
        check(tensor.triu(k), np.triu(array, k), dtype)


@given(data=st.data())
@MORE
def test_conversion(data):
    dtypes = FLOATS + INTS + [tessera.bool, tessera.complex64, tessera.complex128]
    source, target = data.draw(st.sampled_from(dtypes)), data.draw(st.sampled_from(dtypes))
    array, tensor = data.draw(strided(data.draw(shapes()), source, 0, 3))
    wanted = (
        array.real
        if np.iscomplexobj(array) and target not in (tessera.complex64, tessera.complex128, tessera.bool)
        else array
    )
    check(tensor.to(target), wanted.astype(TO_NUMPY[target]), target)
    out = tessera.zeros(array.shape, dtype=target)
    check(out.copy_(tensor), wanted.astype(TO_NUMPY[target]), target)


# ---- indexing
# ---------------------------------------------------------------------------------------------------------------


@st.composite
def basic_index(draw, shape):
    index, used = [], 0
    ellipsis = draw(st.integers(0, len(shape)))
    for d, n in enumerate(shape):
        if d == ellipsis and draw(st.booleans()):
            index.append(Ellipsis)
            break
        if draw(st.integers(0, 5)) == 0:
            index.append(None)
        if n and draw(st.booleans()):
            index.append(draw(st.integers(-n, n - 1)))
        else:
            bound = st.one_of(st.none(), st.integers(-n - 1, n + 1))
            index.append(slice(draw(bound), draw(bound), draw(st.one_of(st.none(), st.integers(1, 3)))))
        used += 1
    return tuple(index)


@given(data=st.data())
@MORE
def test_basic_indexing(data):
    shape = data.draw(shapes())
    array, tensor = data.draw(strided(shape, tessera.int64))
    index = data.draw(basic_index(shape))
    check(tensor[index], array[index])
    array, tensor = array.copy(), tensor.clone()
    array[index] = 7
    tensor[index] = 7
    check(tensor, array)


@given(data=st.data())
@MORE
def test_advanced_indexing(data):
    shape = data.draw(shapes(min_dim=1, min_side=1))
    array, tensor = data.draw(strided(shape, tessera.float64))
    picked = data.draw(shapes(max_dim=2, max_side=3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    index = []
    for n in shape:
        if data.draw(st.booleans()):
            index.append(rng.integers(-n, n, picked))
        else:
            index.append(slice(data.draw(st.integers(0, n)), None))
    theirs = tuple(index)
    ours = tuple(tessera.from_numpy(np.array(i)) if isinstance(i, np.ndarray) else i for i in index)
    check(tensor[ours], array[theirs])
    array, tensor = array.copy(), tensor.clone()
    array[theirs] = -1.0
    tensor[ours] = -1.0
    check(tensor, array)


@given(data=st.data())
@MORE
def test_masks_and_gathering(data):
    shape = data.draw(shapes(min_dim=1, min_side=1))
    array, tensor = data.draw(strided(shape, tessera.float32))
    mask_array, mask = data.draw(strided(shape, tessera.bool))
    check(tensor[mask], array[mask_array])
    d = data.draw(st.integers(0, len(shape) - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rows = rng.integers(0, shape[d], data.draw(st.integers(0, 5)))
    check(tensor.index_select(d, tessera.from_numpy(rows)), array.take(rows, d))
    along = rng.integers(0, shape[d], shape)
    check(tensor.gather(d, tessera.from_numpy(along)), np.take_along_axis(array, along, d))
    target = np.zeros(shape, np.float64)
    wanted = target.copy()
    np.add.at(wanted, tuple(along if k == d else g for k, g in enumerate(np.indices(shape))), array.astype(np.float64))
    check(tessera.from_numpy(target).scatter_add(d, tessera.from_numpy(along), tensor.double()), wanted)
    copy = tensor.clone()
    copy[mask] = 5
    check(copy, np.where(mask_array, np.float32(5), array))


# ---- products
# ---------------------------------------------------------------------------------------------------------------


@given(data=st.data())
@MORE
def test_matmul(data):
    dtype = data.draw(st.sampled_from(FLOATS + [tessera.int64, tessera.complex128]))
    n, k, m = (data.draw(st.integers(0, 6)) for _ in range(3))
    batch = data.draw(st.sampled_from([(), (2,), (1,), (3, 1)]))
    other = data.draw(st.sampled_from([(), (2,), (1,)]))
    if batch and other and batch[-1] != 1 and other[-1] != 1 and batch[-1] != other[-1]:
        other = ()
    array_a, a = data.draw(strided((*batch, n, k), dtype))
    array_b, b = data.draw(strided((*other, k, m), dtype))
    check(a @ b, array_a @ array_b, dtype)
    check(tessera.einsum("...ij,...jk->...ik", a, b), array_a @ array_b, dtype)
    if k:
        check(a @ b.reshape(-1)[:k], array_a @ array_b.reshape(-1)[:k]) if array_b.size >= k else None


def test_large_inputs_cross_blocks_and_threads():
    rng = np.random.default_rng(0)
    array = rng.standard_normal((1031, 517)).astype(np.float32)
    tensor = tessera.from_numpy(array)
    np.testing.assert_allclose(tensor.sum(0).numpy(), array.astype(np.float64).sum(0), rtol=0, atol=2e-5)
    check((tensor.t() * 2 + 1).contiguous(), array.T * 2 + 1)
    check(tensor.t().exp(), np.exp(array.astype(np.float64)).T)
    check((tensor[:400] @ tensor[:400].t())[:3, :3], (array[:3].astype(np.float64) @ array[:3].T.astype(np.float64)))
    check(tensor.flatten().sort().values, np.sort(array.ravel()))


def test_the_bessel_function_of_order_1():
    x = np.concatenate([np.linspace(-60, 60, 1001), [700, -700, 1e-300]])
    np.testing.assert_allclose(tessera.special.i1(tessera.tensor(x)).numpy(), scipy.special.i1(x), rtol=1e-14)
    assert tessera.special.i1(tessera.tensor([0, 1])).dtype == tessera.float32


def test_equality_with_arrays_is_elementwise():
    t, a = tessera.tensor([10, 4]), np.array([10, 5])
    for found in (t == a, a == t, t == a.astype(np.float32), tessera.nn.Parameter(t.double()) == a):
        assert found.tolist() == [True, False]
    assert (t == np.array([[10], [4]])).shape == (2, 2)
    assert (t == np.array(["a", "b"])) is False and (t == np.array([None, 1])) is False
    with pytest.raises(RuntimeError, match="must match the size"):
        t == np.array([1, 2, 3])  # noqa: B015


def test_tensors_share_the_storage_they_are_made_of():
    x = tessera.arange(4.0)
    storage = x.untyped_storage()
    for make in (tessera.tensor, tessera.as_tensor):
        made = make(storage, dtype=tessera.float32)
        assert made.data_ptr() == x.data_ptr() and tessera.equal(made, x)
        assert make(storage).dtype is tessera.int64 and make(storage).shape == (2,)
    assert tessera.tensor(storage, dtype=tessera.float64).shape == (2,)
    assert tessera.tensor(storage, dtype=tessera.float32, device="meta").shape == (4,)
    typed = tessera.storage.TypedStorage(wrap_storage=storage, dtype=tessera.float32, _internal=True)
    assert tessera.equal(tessera.tensor(typed), x)
    with pytest.raises(RuntimeError, match="Expected a Storage of type Double or an UntypedStorage, but got Float"):
        tessera.tensor(typed, dtype=tessera.float64)
