"""Every out= overload of the registry with out= tensors that fit and that do not.

Nobody lists operators here: overloads come from the registry, arguments are drawn by the rules of test_meta.py. For
each overload:

- an out= of the result's dtype and shape gets what the functional form returns, empty or of other strides as well, and
  is what the call returns;
- one of another shape is resized, with the documented warning if it had elements;
- one of another dtype gets the converted result or raises; where it gets nothing but zeros of an accident it fails the
  comparison;
- one on another device, one whose elements lie upon each other, and, where the overload has gradients that would be
  lost, one that requires grad raise, and nothing is changed;
- one that is an input, or shares memory with one (in part, as another view, after it is resized), gets the right result
  or raises RuntimeError.

CASTING names the overloads that are documented to convert to another dtype, by promotion; all others take their
result's dtype alone.
"""

import random
import warnings
import zlib

import pytest
import tessera
from op_arguments import flatten, identify, split_arguments
from tessera._ops import FunctionSchema, ops
from op_derivatives import ENTRIES
from test_meta import UNDRAWN_TABLES, drawn, made

TRIES, SAMPLES = 400, 3
OTHER_DTYPES = (
    tessera.float32,
    tessera.float64,
    tessera.int64,
    tessera.int32,
    tessera.uint8,
    tessera.bool,
    tessera.complex64,
    tessera.bfloat16,
)
# They take out= for its memory alone: any dtype is a result's dtype.
FACTORIES = {
    "arange",
    "empty",
    "eye",
    "fft_fftfreq",
    "fft_rfftfreq",
    "full",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randint",
    "randn",
    "randperm",
    "range",
    "zeros",
    "normal.float_float_out",
}
# all and any write bool or uint8.
TRUTH_VALUES = {"all", "any"}
# `name` for `name.out`.
CASTING = {
    name if "." in name else name + ".out"
    for name in """
    _clamp_tensor _div_trunc _square _where acos acosh add addcdiv addcmul addr angle arccos arccosh arcsin arcsinh
    arctan arctan2 arctanh asin asinh
    atan atan2 atanh bernoulli bitwise_and.Scalar_out bitwise_and.Tensor_out bitwise_left_shift.Tensor_Scalar_out
    bitwise_left_shift.Tensor_out
    bitwise_or.Scalar_out bitwise_or.Tensor_out bitwise_right_shift.Tensor_Scalar_out bitwise_right_shift.Tensor_out
    bitwise_xor.Scalar_out
    bitwise_xor.Tensor_out cat clamp.Tensor_out clamp_max.Tensor_out clamp_max clamp_min.Tensor_out clamp_min
    clip.Tensor_out column_stack concat
    concatenate copysign.Scalar_out copysign cos cosh cumprod cumsum deg2rad diff digamma div div.out_mode divide
    divide.out_mode dstack eq.Scalar_out
    eq.Tensor_out erf erfc erfinv exp exp2 expm1 floor_divide fft_fft fft_fft2 fft_fftn fft_hfft fft_hfft2
    fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft
    fft_rfft2 fft_rfftn fmax fmin fmod.Scalar_out fmod.Tensor_out gcd
    ge.Scalar_out ge.Tensor_out ger glu
    greater.Scalar_out greater.Tensor_out greater_equal.Scalar_out greater_equal.Tensor_out gt.Scalar_out gt.Tensor_out
    hstack huber_loss hypot i0
    inner kron l1_loss lcm ldexp le.Scalar_out le.Tensor_out lerp.Scalar_out less.Scalar_out less.Tensor_out
    less_equal.Scalar_out
    less_equal.Tensor_out lgamma geqrf.a cholesky cholesky_solve cholesky_inverse
    linalg_tensorinv linalg_tensorsolve linalg_eig linalg_eigvals linalg_householder_product linalg_lstsq orgqr
    log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit
    logit_backward.grad_input logsumexp lt.Scalar_out lt.Tensor_out max max.unary_out maximum mean.dtype_out mean min
    min.unary_out minimum mse_loss
    mul.Scalar_out mul multiply.Scalar_out multiply nanmean nansum ne.Scalar_out ne.Tensor_out nextafter
    normal.Tensor_Tensor_out
    normal.Tensor_float_out normal.float_Tensor_out not_equal.Scalar_out not_equal.Tensor_out outer polygamma
    pow.Scalar_out pow.Tensor_Scalar_out
    pow.Tensor_Tensor_out prod.int_out rad2deg reciprocal remainder.Scalar_out remainder.Tensor_out row_stack rsqrt
    sigmoid
    sigmoid_backward.grad_input sin sinc sinh smooth_l1_loss special_entr special_i1 special_xlog1py.other_scalar_out
    special_xlog1py
    special_xlog1py.self_scalar_out sqrt square stack std.correction_out std sub subtract sum.IntList_out tan tanh
    tanh_backward.grad_input threshold
    igamma igammac mvlgamma special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0
    special_bessel_y1 special_chebyshev_polynomial_t special_chebyshev_polynomial_t.n_scalar_out
    special_chebyshev_polynomial_t.x_scalar_out special_chebyshev_polynomial_u
    special_chebyshev_polynomial_u.n_scalar_out special_chebyshev_polynomial_u.x_scalar_out
    special_chebyshev_polynomial_v special_chebyshev_polynomial_v.n_scalar_out
    special_chebyshev_polynomial_v.x_scalar_out special_chebyshev_polynomial_w
    special_chebyshev_polynomial_w.n_scalar_out special_chebyshev_polynomial_w.x_scalar_out special_erfcx
    special_hermite_polynomial_h special_hermite_polynomial_h.n_scalar_out
    special_hermite_polynomial_h.x_scalar_out special_hermite_polynomial_he
    special_hermite_polynomial_he.n_scalar_out special_hermite_polynomial_he.x_scalar_out special_i0e
    special_i1e special_laguerre_polynomial_l special_laguerre_polynomial_l.n_scalar_out
    special_laguerre_polynomial_l.x_scalar_out special_legendre_polynomial_p
    special_legendre_polynomial_p.n_scalar_out special_legendre_polynomial_p.x_scalar_out special_log_ndtr
    special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1
    special_ndtr special_ndtri special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1
    special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_t.n_scalar_out
    special_shifted_chebyshev_polynomial_t.x_scalar_out special_shifted_chebyshev_polynomial_u
    special_shifted_chebyshev_polynomial_u.n_scalar_out special_shifted_chebyshev_polynomial_u.x_scalar_out
    special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_v.n_scalar_out
    special_shifted_chebyshev_polynomial_v.x_scalar_out special_shifted_chebyshev_polynomial_w
    special_shifted_chebyshev_polynomial_w.n_scalar_out special_shifted_chebyshev_polynomial_w.x_scalar_out
    special_spherical_bessel_j0 special_zeta special_zeta.other_scalar_out special_zeta.self_scalar_out
    linalg_cond linalg_cond.p_str_out linalg_matrix_rank linalg_matrix_rank.atol_rtol_float_out
    linalg_matrix_rank.atol_rtol_tensor_out linalg_matrix_rank.out_tol_tensor linalg_pinv
    linalg_pinv.atol_rtol_float_out linalg_pinv.atol_rtol_tensor_out linalg_pinv.out_rcond_tensor
    true_divide var.correction_out var vstack xlogy.OutScalar_Other xlogy.OutScalar_Self xlogy.OutTensor
""".split()
}
# The order in which numbers are drawn depends on how out= lies in memory, and what `empty` holds on chance.
RANDOM = {"bernoulli", "empty", "multinomial", "normal", "rand", "randint", "randn", "randperm"}
# They write one number to all places, so that these may lie upon each other.
FILLED = {"empty", "full", "ones", "zeros"}


def _overloads():
    found = []
    for text, _, _, _, source, *_ in tessera._C._operator_table():
        schema = FunctionSchema(text)
        if source.startswith(UNDRAWN_TABLES):
            continue
        # (lists of them: test_ops_details.py)
        if schema.name.startswith("aten::") and any(a.is_out and a.type != "Tensor[]" for a in schema.arguments):
            found.append(schema)
    return sorted(found, key=identify)


OVERLOADS = _overloads()


def base(schema):
    return schema.name.split("::")[1]


PURE = [e for e in ENTRIES if not e.schema.is_mutable]
WITHOUT_GRADIENTS = {base(e.schema) for e in PURE} - {base(e.schema) for e in PURE if e.differentiable}


def is_factory(schema):
    return identify(schema) in FACTORIES or base(schema) in FACTORIES


class Call:
    """An overload with arguments that it takes; the out= tensors are given at each run."""

    def __init__(self, schema, arguments, dtypes):
        self.schema = schema
        self.op = getattr(getattr(ops.aten, base(schema)), schema.overload_name or "default")
        self.outs = [i for i, a in enumerate(schema.arguments) if a.is_out]
        self.arguments = arguments
        self.expected = self.run([tessera.empty(0, dtype=d) for d in dtypes])

    def inputs(self):
        """Fresh copies of the arguments: plain memory, no history."""

        def fresh(value):
            if isinstance(value, tessera.Tensor):
                return value.detach().clone()
            return [fresh(v) for v in value] if isinstance(value, list) else value

        return [fresh(v) for v in self.arguments]

    def run(self, outs, inputs=None):
        values = self.inputs() if inputs is None else inputs
        for i, out in zip(self.outs, outs):
            values[i] = out
        positional, keywords = split_arguments(self.schema, values)
        tessera.manual_seed(0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = flatten(self.op(*positional, **keywords))
        self.resized = any("was resized" in str(w.message) for w in caught)
        assert all(r is o for r, o in zip(results, outs)), "what is returned is not out="
        return results

    def fitting(self, **changes):
        return [tessera.zeros(r.shape, dtype=r.dtype, **changes) for r in self.expected]


def natural_dtypes(schema, arguments):
    """Dtypes with which the overload takes out=: those of the functional form's results if that can be called, else the
    first that work.
    """
    plain = [v for v, a in zip(arguments, schema.arguments) if not a.is_out]
    named = [a for a in schema.arguments if not a.is_out]
    packet = getattr(ops.aten, base(schema))
    for other in packet.overloads():
        candidate = getattr(packet, other)._schema
        if [(a.name, str(a.type)) for a in candidate.arguments] == [
            (a.name, str(a.type)) for a in named
        ] and not candidate.is_mutable:
            positional, keywords = split_arguments(candidate, plain)
            tessera.manual_seed(0)
            return [r.dtype for r in flatten(getattr(packet, other)(*positional, **keywords))]
    count = sum(a.is_out for a in schema.arguments)
    for dtype in OTHER_DTYPES:
        try:
            return [r.dtype for r in Call(schema, arguments, [dtype] * count).expected]
        except RuntimeError:
            continue
    raise RuntimeError("no dtype of out= is taken")


def samples(schema):
    rng = random.Random(zlib.crc32(identify(schema).encode()))
    found, empty = [], []
    for _ in range(TRIES):
        tessera.manual_seed(0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arguments = [
                    v.detach()
                    if isinstance(v, tessera.Tensor)
                    else [x.detach() if isinstance(x, tessera.Tensor) else x for x in v]
                    if isinstance(v, list)
                    else v
                    for v in made(drawn(rng, schema), "cpu")
                ]
                arguments = [None if a.is_out else v for v, a in zip(arguments, schema.arguments)]
                call = Call(schema, arguments, natural_dtypes(schema, arguments))
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, OverflowError):
            continue  # arguments that do not fit each other; test_every_overload_is_reached counts those that do
        (found if all(r.numel() > 1 for r in call.expected) else empty).append(call)
        if len(found) >= SAMPLES:
            break
    return (found + empty)[:SAMPLES]


_KNOWN = {}


def calls(schema):
    key = identify(schema)
    if key not in _KNOWN:
        _KNOWN[key] = samples(schema)
    return _KNOWN[key]


def same(results, expected):
    """The same values, but for the rounding of another order of memory."""
    for r, e in zip(results, expected, strict=True):
        assert r.shape == e.shape and r.dtype == e.dtype
        tolerance = 2e-2 if e.dtype in (tessera.float16, tessera.bfloat16) or e.itemsize == 1 else 1e-5
        tessera.testing.assert_close(r, e, rtol=tolerance, atol=tolerance, equal_nan=True)


def bits(t):
    return t.detach().view(tessera.uint8) if t.itemsize == 1 else t.detach()


def refused(call, outs, inputs=None):
    """The call raises RuntimeError and leaves all memory as it was."""
    kept = [(o, o.shape, o.stride(), o._version, None if o.is_meta else bits(o).clone()) for o in outs]
    with pytest.raises(RuntimeError) as caught:
        call.run(outs, inputs)
    assert str(caught.value)
    for out, shape, stride, version, values in kept:
        assert out.shape == shape and out.stride() == stride and out._version == version
        assert values is None or tessera.equal(bits(out), values)


def strides_of_another_order(shape):
    return tessera.zeros(tuple(shape)[::-1]).permute(tuple(range(len(shape)))[::-1]).stride()


each = pytest.mark.parametrize("schema", OVERLOADS, ids=identify)


def test_every_overload_is_reached():
    assert len(OVERLOADS) > 370
    unreached = [identify(s) for s in OVERLOADS if not calls(s)]
    assert not unreached, unreached
    checked = sum(len(calls(s)) for s in OVERLOADS)
    with_elements = [identify(s) for s in OVERLOADS if not any(r.numel() > 1 for c in calls(s) for r in c.expected)]
    print(f"{len(OVERLOADS)} overloads, {checked} calls; {len(with_elements)} with results of at most one element")
    assert checked > 2.5 * len(OVERLOADS)


def compare(schema, results, expected):
    if base(schema) in RANDOM:
        assert [(r.shape, r.dtype) for r in results] == [(e.shape, e.dtype) for e in expected]
    else:
        same(results, expected)


@each
def test_tensors_that_fit(schema):
    for call in calls(schema):
        compare(schema, call.run(call.fitting()), call.expected)
        assert not call.resized
        permuted = [
            tessera.empty_strided(r.shape, strides_of_another_order(r.shape), dtype=r.dtype) for r in call.expected
        ]
        compare(schema, call.run(permuted), call.expected)
        assert all(o.stride() == strides_of_another_order(o.shape) for o in permuted)
        spread = [tessera.zeros([*r.shape, 2], dtype=r.dtype)[..., 0] for r in call.expected]
        compare(schema, call.run(spread), call.expected)


@each
def test_other_shapes(schema):
    for call in calls(schema):
        larger = [tessera.zeros([3, *r.shape], dtype=r.dtype) for r in call.expected]
        compare(schema, call.run(larger), call.expected)
        assert call.resized or all(o.numel() == 0 for o in call.fitting()), "no warning"


@each
def test_other_dtypes(schema):
    if is_factory(schema):
        return
    for call in calls(schema):
        for position, result in enumerate(call.expected):
            for dtype in OTHER_DTYPES:
                if dtype == result.dtype:
                    continue
                outs = call.fitting()
                outs[position] = tessera.zeros(result.shape, dtype=dtype)
                if takes(schema, call, result.dtype, dtype):
                    got = call.run(outs)[position]
                    if base(schema) not in RANDOM:
                        tessera.testing.assert_close(got, result.to(dtype), rtol=1e-2, atol=1e-2, equal_nan=True)
                else:
                    refused(call, outs)


def takes(schema, call, result, dtype):
    """Whether results of dtype `result` are documented to be written to an out= of `dtype`, another one."""
    if identify(schema).split(".")[0] in TRUTH_VALUES:
        return dtype == tessera.uint8
    asked_for = any(a.name == "dtype" and v is not None for a, v in zip(schema.arguments, call.arguments))
    real_stays_real = identify(schema).startswith(("fft_irfft", "fft_hfft")) and dtype.is_complex
    return identify(schema) in CASTING and not (asked_for or real_stays_real) and tessera.can_cast(result, dtype)


@each
def test_other_devices(schema):
    if is_factory(schema):
        return
    for call in calls(schema):
        refused(call, call.fitting(device="meta"))


@each
def test_leaves_that_require_grad(schema):
    for call in calls(schema):
        outs = call.fitting()
        if not any(o.is_floating_point() or o.is_complex() for o in outs):
            continue
        outs = [o.requires_grad_() if o.is_floating_point() or o.is_complex() else o for o in outs]
        if base(schema) not in WITHOUT_GRADIENTS:
            refused(call, outs)


@pytest.mark.parametrize("schema", [s for s in OVERLOADS if base(s) in WITHOUT_GRADIENTS], ids=identify)
def test_inputs_that_require_grad_where_there_are_no_gradients(schema):
    def asked(value):
        is_real = isinstance(value, tessera.Tensor) and (value.is_floating_point() or value.is_complex())
        return value.requires_grad_() if is_real else [asked(v) for v in value] if isinstance(value, list) else value

    for call in calls(schema):
        results = call.run(call.fitting(), [asked(v) for v in call.inputs()])
        assert not any(r.requires_grad for r in results)
        same(results, call.expected)


@pytest.mark.parametrize("schema", [s for s in OVERLOADS if base(s) not in FILLED], ids=identify)
def test_elements_upon_each_other(schema):
    for call in calls(schema):
        if all(max(r.shape, default=1) < 2 for r in call.expected):
            continue
        refused(call, [tessera.zeros([1] * r.dim(), dtype=r.dtype).expand(r.shape) for r in call.expected])


def aliases(call):
    """(what, inputs, outs): the first out= shares memory with an input in some way."""
    if call.schema.name == "aten::as_strided_copy":
        return  # it reads the storage, where other memory of an input has other elements
    for position, argument in enumerate(call.schema.arguments):
        value = call.arguments[position]
        for element in range(len(value)) if isinstance(value, list) and value else [None]:
            tensor = value if element is None else value[element]
            if not isinstance(tensor, tessera.Tensor) or tensor.dtype != call.expected[0].dtype:
                continue

            def replaced(with_what):
                inputs = call.inputs()
                if element is None:
                    inputs[position] = with_what
                else:
                    inputs[position][element] = with_what
                return inputs

            n, m = call.expected[0].numel(), tensor.numel()
            rest = call.fitting()[1:]
            own = tensor.detach().clone()
            yield "an input", replaced(own), [own, *rest]
            memory = tessera.zeros(n + m + 1, dtype=tensor.dtype)
            inside = memory[1 : 1 + m].view(tensor.shape)
            inside.copy_(tensor)
            yield "memory of an input", replaced(inside), [memory[:n].view(call.expected[0].shape), *rest]
            memory = tessera.zeros(n + m, dtype=tensor.dtype)
            inside = memory[:m].view(tensor.shape)
            inside.copy_(tensor)
            yield "no elements, in memory of an input", replaced(inside), [memory[:0], *rest]


@each
def test_shared_memory(schema):
    for call in calls(schema):
        for what, inputs, outs in aliases(call):
            try:
                results = call.run(outs, inputs)
            except RuntimeError as error:
                assert "single memory location" in str(error) or "doesn't match the broadcast shape" in str(error), (
                    what,
                    error,
                )
                continue
            compare(schema, results, call.expected)


def test_results_in_one_tensor():
    one, integers = tessera.zeros(3), tessera.arange(6).reshape(2, 3)
    place = tessera.zeros(3, dtype=tessera.int64)
    for call in (
        lambda: tessera.sort(integers[0], out=(place, place)),
        lambda: tessera.max(integers, 0, out=(place, place)),
        lambda: tessera.aminmax(tessera.rand(2, 3), dim=0, out=(one, one)),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            call()
    assert not one.any() and not place.any()


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: tessera.cat([a, b], out=a),
        lambda a, b: tessera.cat([a, b], out=b),
        lambda a, b: tessera.stack([b, b], out=b),
        lambda a, b: tessera.hstack([b, b], out=b),
        lambda a, b: tessera.vstack([b, b], out=b),
        lambda a, b: tessera.dstack([b, b], out=b),
        lambda a, b: tessera.column_stack([b, b], out=b),
        lambda a, b: tessera.gather(b, 0, tessera.zeros(2, 3, dtype=tessera.int64), out=b),
        lambda a, b: tessera.index_select(b, 0, tessera.tensor([1, 0]), out=b),
        lambda a, b: tessera.take(b, tessera.tensor([[1, 0]]), out=b),
        lambda a, b: tessera.scatter(tessera.ones(2, 3), 0, tessera.zeros(2, 3, dtype=tessera.int64), b, out=b),
        lambda a, b: b.scatter_(0, tessera.zeros(2, 3, dtype=tessera.int64), b),
        lambda a, b: b.index_add_(0, tessera.tensor([1, 0]), b),
    ],
)
def test_joined_and_gathered_into_an_input(call):
    """The first tensor of cat is empty and one-dimensional; each of these ended the process, or gave what it had
    overwritten.
    """
    empty, full = tessera.empty(0), tessera.ones(2, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        call(empty, full)
    assert empty.shape == (0,) and tessera.equal(full, tessera.ones(2, 3)) and full._version == 0


def test_in_place_products_of_the_tensor_itself():
    a, b = tessera.tensor([[1.0, 2.0], [3.0, 4.0]]), tessera.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert a.clone().addmm_(a, b).tolist() == (a + a @ b).tolist()
    x = a.clone()
    assert x.addmm_(x, b).tolist() == (a + a @ b).tolist()
    x = a.clone()
    assert x.addmm_(b, x, beta=0).tolist() == (b @ a).tolist()
    x = a[0].clone()
    assert x.addmv_(a, x).tolist() == (a[0] + a @ a[0]).tolist()
