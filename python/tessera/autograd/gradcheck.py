"""`gradcheck` and `gradgradcheck`: derivatives against finite differences.

Central differences (f(x + eps d) - f(x - eps d)) / (2 eps) along each real direction d of each input give the numerical
derivative. For
a real-valued function of a complex z = x + iy the gradient is df/dx + i df/dy; complex outputs are checked as two real
functions, their
real and their imaginary part.
"""

import itertools
import sys
import types
import warnings

import tessera
from tessera._lazy import require

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative differs from finite differences, or backward breaks one of its rules."""


_SPARSE = tuple(getattr(tessera, f"sparse_{kind}") for kind in ("coo", "csr", "csc", "bsr", "bsc"))


def _as_tuple(value):
    if isinstance(value, tuple):
        return value
    return tuple(value) if isinstance(value, list) else (value,)


def _differentiable(value):
    return (
        isinstance(value, tessera.Tensor)
        and value.requires_grad
        and (value.dtype.is_floating_point or value.dtype.is_complex)
    )


def _outputs(func, inputs):
    results = _as_tuple(func(*inputs))
    tensors = tuple(v for v in results if isinstance(v, tessera.Tensor))
    if results and not tensors:
        kinds = ", ".join(type(v).__name__ for v in results)
        raise TypeError(f"gradcheck expects a function that returns a tensor or a tuple with tensors, but got {kinds}")
    return tensors


def _grad(outputs, inputs, grads, create_graph=False):
    return tessera.autograd.grad(
        outputs, inputs, grads, retain_graph=True, create_graph=create_graph, allow_unused=True
    )


def _directions(tensor):
    """The real directions in which one element of `tensor` can move."""
    return (1.0, 1j) if tensor.dtype.is_complex else (1.0,)


def _positions(tensor):
    return itertools.product(*(range(length) for length in tensor.shape))


# ---- checks of the arguments
# ------------------------------------------------------------------------------------------------


def _check_inputs(inputs):
    found = False
    for i, value in enumerate(inputs):
        if not isinstance(value, tessera.Tensor) or not value.requires_grad:
            continue
        found = True
        if value.dtype not in (tessera.float64, tessera.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                f"will likely fail "
                "if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        if any(step <= 0 and length > 1 for step, length in zip(value.stride(), value.shape)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                f"non-overlapping to be "
                "able to compute the numerical gradients correctly. You should call .contiguous on the input before "
                "passing it "
                "to gradcheck."
            )
        value.retain_grad()
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )


# ---- numerical derivatives
# --------------------------------------------------------------------------------------------------


def _evaluate(func, inputs):
    """The outputs, detached and copied: a function may return its input, look at requires_grad, and add hooks."""
    return [output.detach().clone() for output in _outputs(func, inputs)]


def _difference(func, inputs, move, eps):
    """For each output the derivative along the direction in which `move(step)` shifts an input."""
    move(eps)
    plus = _evaluate(func, inputs)
    move(-2 * eps)
    minus = _evaluate(func, inputs)
    return [
        (p - m) / (2 * eps) if p.dtype.is_floating_point or p.dtype.is_complex else p.to(tessera.float64) * 0
        for p, m in zip(plus, minus)
    ]


def _numerical(func, inputs, which, eps):
    """numerical[direction][output]: matrix (elements of input `which`) x (elements of the output)."""
    data = inputs[which].data
    result = []
    for direction in _directions(data):
        rows = []
        for position in _positions(data):
            original = data[position].clone()
            offset = 0.0

            def move(step, position=position, direction=direction):
                nonlocal offset
                offset += step
                data[position] = original + offset * direction

            rows.append(_difference(func, inputs, move, eps))
            data[position] = original
        count = len(rows[0]) if rows else 0
        result.append([tessera.stack([row[k].reshape(-1) for row in rows]) for k in range(count)])
    return result


def _real_jacobians(numerical, output_index, part):
    """The Jacobian of the real function 'real' or 'imag' part of an output, complex for a complex input."""
    columns = []
    for by_output in numerical:
        matrix = by_output[output_index]
        if matrix.dtype.is_complex:
            matrix = tessera.real(matrix) if part == "real" else tessera.imag(matrix)
        columns.append(matrix)
    return columns[0] if len(columns) == 1 else tessera.complex(columns[0].contiguous(), columns[1].contiguous())


# ---- backward
# ---------------------------------------------------------------------------------------------------------------


def _unit(output, k, part):
    grad = tessera.zeros_like(output, memory_format=tessera.contiguous_format).detach()
    grad.view(-1)[k] = 1.0 if part == "real" else 1j
    return grad


def _check_grad_of(grad, value, check_dtypes):
    if grad.shape != value.shape:
        raise GradcheckError("Analytical gradient has incorrect size")
    if check_dtypes and grad.dtype != value.dtype:
        raise GradcheckError("Analytical gradient has incorrect type")


def _analytical(inputs, output, part, check_dtypes):
    """For each input the matrix (its elements) x (elements of the output), by one backward pass for each element."""
    matrices = [
        tessera.zeros(value.numel(), output.numel(), dtype=value.dtype, device=value.device) for value in inputs
    ]
    for k in range(output.numel()):
        for value, grad, matrix in zip(inputs, _grad(output, inputs, _unit(output, k, part)), matrices):
            if grad is not None:
                _check_grad_of(grad, value, check_dtypes)
                matrix[:, k] = grad.detach().reshape(-1).to(matrix.dtype)
    return matrices


def _parts(output):
    return ("imag", "real") if output.dtype.is_complex else ("real",)


def _all_close(a, b, rtol, atol):
    if a.dtype != b.dtype:
        common = tessera.promote_types(a.dtype, b.dtype)
        a, b = a.to(common), b.to(common)
    return tessera.allclose(a, b, rtol=rtol, atol=atol)


def _mismatch(analytical, numerical, output_index, input_index, part, output, prefix=""):
    text = (
        f"Jacobian mismatch for output {output_index} with respect to input {input_index},\nnumerical:{numerical}\n"
        f"analytical:{analytical}\n"
    )
    if output.dtype.is_complex:
        kind = "imaginary" if part == "imag" else "real"
        text = f"While considering the {kind} part of complex outputs only, " + text
    return GradcheckError(prefix + text)


def _check_reentrant(first, second, nondet_tol):
    worst = max((float((a - b).abs().max()) for a, b in zip(first, second) if a.numel()), default=0.0)
    if worst > nondet_tol:
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
            "different "
            "values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was "
            f"{nondet_tol}."
        )


def _slow_backward(func, inputs, diff, outputs, settings):
    places = [i for i, value in enumerate(inputs) if any(value is d for d in diff)]
    numerical = [_numerical(func, inputs, place, settings["eps"]) for place in places]
    for k, output in enumerate(outputs):
        if not _differentiable(output):
            if not any(map(_differentiable, outputs)):  # others are constants to backward(), whatever they do
                _check_not_differentiable(numerical, k)
            continue
        for part in _parts(output):
            analytical = _analytical(diff, output, part, settings["check_grad_dtypes"])
            for j, place in enumerate(places):
                if diff[j].numel() == 0:
                    continue
                expected = _real_jacobians(numerical[j], k, part)
                if not _all_close(analytical[j], expected, settings["rtol"], settings["atol"]):
                    raise _mismatch(analytical[j], expected, k, place, part, output)
            _check_reentrant(analytical, _analytical(diff, output, part, False), settings["nondet_tol"])
    return numerical


def _check_not_differentiable(numerical, k):
    for by_direction in numerical:
        for by_output in by_direction:
            if by_output and bool((by_output[k] != 0).any()):
                raise GradcheckError("Numerical gradient for function expected to be zero")


def _random_like(tensor, generator):
    """A random direction with positive entries, of length 1."""
    dtype = tensor.dtype.to_real() if tensor.dtype.is_complex else tensor.dtype
    shape = tensor.shape
    value = tessera.rand(shape, dtype=tessera.float64, generator=generator).to(dtype=dtype, device=tensor.device)
    if tensor.dtype.is_complex:
        other = tessera.rand(shape, dtype=tessera.float64, generator=generator).to(dtype=dtype, device=tensor.device)
        value = tessera.complex(value, other)
    length = value.abs().square().sum().sqrt()
    return value / length if value.numel() else value


def _fast_backward(func, inputs, diff, outputs, settings):
    """One random direction in each input against one random combination of each output."""
    generator = tessera.Generator().manual_seed(0)
    for value in diff:
        direction = _random_like(value, generator)
        place = next(i for i, candidate in enumerate(inputs) if candidate is value)
        data, original = value.data, value.detach().clone()

        def move(step, data=data, direction=direction):
            data.add_(direction * step)

        numerical = _difference(func, inputs, move, settings["eps"])
        data.copy_(original)
        for k, output in enumerate(outputs):
            if not _differentiable(output):
                alone = not any(map(_differentiable, outputs))
                if alone and numerical[k].numel() and bool((numerical[k] != 0).any()):
                    raise GradcheckError("Numerical gradient for function expected to be zero")
                continue
            _fast_compare(value, place, k, output, numerical[k], direction, generator, settings)


def _fast_compare(value, place, k, output, numerical, direction, generator, settings):
    for part in _parts(output):
        weights = _random_like(tessera.real(output) if output.dtype.is_complex else output, generator)
        seed = (weights * (1j if part == "imag" else 1.0)).to(output.dtype)
        (grad,) = _grad(output, (value,), seed.detach())
        grad = tessera.zeros_like(value) if grad is None else grad.detach()
        _check_grad_of(grad, value, settings["check_grad_dtypes"])
        analytical = (
            tessera.real((grad.conj() * direction).sum()) if value.dtype.is_complex else (grad * direction).sum()
        )
        change = numerical
        if change.dtype.is_complex:
            change = tessera.real(change) if part == "real" else tessera.imag(change)
        expected = (change * weights).sum()
        scale = float(weights.sum()) * float(direction.abs().sum())  # one error of atol in each entry adds up to this
        if not _all_close(analytical, expected, settings["rtol"], settings["atol"] * max(scale, 1.0)):
            raise _mismatch(analytical, expected, k, place, part, output, "In fast mode, after a random projection: ")
        (again,) = _grad(output, (value,), seed.detach())
        if again is not None:
            _check_reentrant((grad,), (again.detach(),), settings["nondet_tol"])


# ---- rules that every backward obeys
# ------------------------------------------------------------------------------------------


def _check_zero_grads(outputs, diff):
    """Gradient 0 in must give gradient 0 out, of the input's layout, dtype and size."""
    outputs = tuple(output for output in outputs if _differentiable(output))
    if not outputs:
        return
    zeros = tuple(tessera.zeros_like(output, memory_format=tessera.preserve_format) for output in outputs)
    for grad, value in zip(_grad(outputs, diff, zeros), diff):
        if grad is None:
            continue
        if grad.layout == value.layout and bool((grad != 0).any()):
            raise GradcheckError("backward not multiplied by grad_output")
        if grad.dtype != value.dtype:
            raise GradcheckError(f"grad is incorrect type: {grad.dtype} instead of {value.dtype}")
        if grad.device != value.device:
            raise GradcheckError(f"grad is incorrect device: {grad.device} instead of {value.device}")
        if grad.shape != value.shape:
            raise GradcheckError("grad is incorrect size")


def _undefined_grad():
    from tessera.autograd.function import Function

    class UndefinedGrad(Function):
        @staticmethod
        def forward(ctx, *tensors):
            ctx.set_materialize_grads(False)
            return tuple(t.view_as(t) for t in tensors)

        @staticmethod
        def backward(ctx, *grads):
            return (None,) * len(grads)

    return UndefinedGrad.apply


def _check_undefined(func, inputs, diff):
    """Outputs without gradient must give None or zeros."""
    apply = _undefined_grad()
    outputs = tuple(output for output in _outputs(func, inputs) if _differentiable(output))
    if not outputs:
        return
    cut = _as_tuple(apply(*outputs))
    choices = [range(len(outputs))] + ([(k,) for k in range(len(outputs))] if len(outputs) > 1 else [])
    for undefined in choices:
        seen = tuple(cut[k] if k in undefined else output for k, output in enumerate(outputs))
        seeds = tuple(tessera.zeros_like(output, memory_format=tessera.preserve_format) for output in outputs)
        try:
            grads = _grad(seen, diff, seeds)
        except RuntimeError as error:
            raise GradcheckError(
                'Expected backward function to handle undefined output grads. Please look at "Notes about undefined '
                "output "
                f'gradients" in "tools/autograd/derivatives.yaml". {error}'
            ) from error
        for grad in grads:
            if grad is not None and bool((grad != 0).any()):
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are undefined or zero. "
                    "Please look "
                    'at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
                )


def _check_batched_grad(outputs, diff):
    """A batch of gradients must give what they give one by one."""
    generator = tessera.Generator().manual_seed(1)
    for output in outputs:
        if not _differentiable(output):
            continue
        seeds = [_random_like(output, generator) for _ in range(2)]
        single = [_grad(output, diff, seed) for seed in seeds]
        try:
            together = tessera.autograd.grad(
                output, diff, tessera.stack(seeds), retain_graph=True, allow_unused=True, is_grads_batched=True
            )
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}") from error
        for i, batch in enumerate(together):
            if batch is None:
                continue
            expected = tessera.stack([tessera.zeros_like(diff[i]) if row[i] is None else row[i] for row in single])
            if not _all_close(batch, expected, 1e-5, 1e-8):
                raise GradcheckError(
                    f"For input {i} batched gradients differ from those computed one by one.\nGot:\n{batch}\n"
                    f"Expected:\n{expected}\n"
                )


# ---- forward mode
# -----------------------------------------------------------------------------------------------------------


def _tangents(func, inputs, which, tangent):
    """The tangents of the outputs for a tangent of one input; None where there is none."""
    from tessera.autograd import forward_ad

    with forward_ad.dual_level():
        duals = [value.detach() if isinstance(value, tessera.Tensor) else value for value in inputs]
        duals[which] = forward_ad.make_dual(duals[which], tangent)
        return [forward_ad.unpack_dual(output).tangent for output in _outputs(func, duals)]


def _forward_matrix(func, inputs, which, direction, outputs):
    value = inputs[which]
    rows = [[] for _ in outputs]
    for position in _positions(value):
        tangent = tessera.zeros_like(value, memory_format=tessera.contiguous_format).detach()
        tangent[position] = direction
        for k, (got, output) in enumerate(zip(_tangents(func, inputs, which, tangent), outputs)):
            rows[k].append((tessera.zeros_like(output) if got is None else got).detach().reshape(-1))
    return [tessera.stack(row) for row in rows]


def _check_forward(func, inputs, diff, outputs, numerical, settings):
    places = [i for i, value in enumerate(inputs) if any(value is d for d in diff)]
    for j, place in enumerate(places):
        if inputs[place].numel() == 0:
            continue
        for d, direction in enumerate(_directions(inputs[place])):
            for k, matrix in enumerate(_forward_matrix(func, inputs, place, direction, outputs)):
                expected = numerical[j][d][k]
                if (outputs[k].dtype.is_floating_point or outputs[k].dtype.is_complex) and not _all_close(
                    matrix, expected, settings["rtol"], settings["atol"]
                ):
                    raise _mismatch(
                        matrix, expected, k, place, "real", expected.real, "While computing with forward mode: "
                    )


def _fast_forward(func, inputs, diff, outputs, settings):
    """One random direction in each input, in forward mode and by differences."""
    generator = tessera.Generator().manual_seed(0)
    for place in [i for i, value in enumerate(inputs) if any(value is d for d in diff)]:
        value = inputs[place]
        if value.numel() == 0:
            continue
        direction = _random_like(value, generator)
        data, original = value.data, value.detach().clone()

        def move(step, data=data, direction=direction):
            data.add_(direction * step)

        numerical = _difference(func, inputs, move, settings["eps"])
        data.copy_(original)
        scale = max(float(direction.abs().sum()), 1.0)  # one error of atol in each entry adds up to this
        for k, (got, output) in enumerate(zip(_tangents(func, inputs, place, direction), outputs)):
            if not (output.dtype.is_floating_point or output.dtype.is_complex):
                continue
            tangent = tessera.zeros_like(output) if got is None else got.detach()
            if not _all_close(tangent, numerical[k], settings["rtol"], settings["atol"] * scale):
                prefix = "While computing with forward mode in fast mode, along a random direction: "
                raise _mismatch(tangent, numerical[k], k, place, "real", output.real, prefix)


def _check_batched_forward(func, inputs, diff):
    vmap = require("vmap", "gradcheck(check_batched_forward_grad=True)")
    places = [i for i, value in enumerate(inputs) if any(value is d for d in diff)]
    generator = tessera.Generator().manual_seed(1)
    for place in places:
        tangents = tessera.stack([_random_like(inputs[place], generator) for _ in range(2)])

        def run(tangent, place=place):
            return tuple(tessera.zeros(()) if t is None else t for t in _tangents(func, inputs, place, tangent))

        single = [run(tangents[i]) for i in range(2)]
        try:
            together = vmap(run)(tangents)
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}") from error
        for k, batch in enumerate(together):
            if not _all_close(batch, tessera.stack([row[k] for row in single]), 1e-5, 1e-8):
                raise GradcheckError(f"For output {k} batched forward gradients differ from those computed one by one.")


# ---- the functions
# ------------------------------------------------------------------------------------------------------------


def _run(func, inputs, settings):
    diff = tuple(value for value in inputs if _differentiable(value))
    outputs = _outputs(func, inputs)
    if not any(_differentiable(output) for output in outputs) and not settings["check_forward_ad"]:
        numerical = [
            _numerical(func, inputs, i, settings["eps"]) for i, value in enumerate(inputs) if _differentiable(value)
        ]
        for k in range(len(outputs)):
            _check_not_differentiable(numerical, k)
        return
    numerical = None
    if settings["check_backward_ad"]:
        if settings["fast_mode"]:
            _fast_backward(func, inputs, diff, outputs, settings)
        else:
            numerical = _slow_backward(func, inputs, diff, outputs, settings)
        if settings["check_batched_grad"]:
            _check_batched_grad(outputs, diff)
        _check_zero_grads(outputs, diff)
        if settings["check_undefined_grad"]:
            _check_undefined(func, inputs, diff)
    if settings["check_forward_ad"]:
        if settings["fast_mode"]:
            _fast_forward(func, inputs, diff, outputs, settings)
        else:
            if numerical is None:
                numerical = [
                    _numerical(func, inputs, i, settings["eps"])
                    for i, value in enumerate(inputs)
                    if _differentiable(value)
                ]
            _check_forward(func, inputs, diff, outputs, numerical, settings)
        if settings["check_batched_forward_grad"]:
            _check_batched_forward(func, inputs, diff)


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
):
    """Checks first derivatives of `func` at `inputs` against finite differences.

    Args:
        func: takes the inputs, returns a tensor or a tuple of tensors.
        inputs: tensor or tuple; those that require grad should be double precision.
        eps: step of the differences.
        atol, rtol: tolerances.
        raise_exception: False returns False instead of raising.
        nondet_tol: allowed difference between two runs of backward.
        check_undefined_grad: outputs without gradient must be handled.
        check_grad_dtypes: gradients must have the dtype of the input.
        check_batched_grad, check_batched_forward_grad: compare batches of gradients with single ones.
        check_forward_ad, check_backward_ad: which modes to check.
        fast_mode: only one random projection of the Jacobian.
        masked: elements that a sparse input does not specify are left out. None: that is False, and strided inputs
            specify all of theirs.

    Returns: True. Raises: GradcheckError; ValueError if no input requires grad, AssertionError for contradictory
        options, TypeError for a `masked` that is no bool.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    if masked not in (None, True, False):
        raise TypeError(f"masked must be a bool or None, but got {type(masked).__name__}")
    if check_batched_forward_grad:
        require("vmap", "gradcheck(check_batched_forward_grad=True)")
    settings = dict(
        eps=eps,
        atol=atol,
        rtol=rtol,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad,
        check_forward_ad=check_forward_ad,
        check_backward_ad=check_backward_ad,
        fast_mode=fast_mode,
    )
    inputs = _as_tuple(inputs)
    if any(isinstance(v, tessera.Tensor) and v.requires_grad and v.layout in _SPARSE for v in inputs):
        check = tessera.sparse.as_sparse_gradcheck(gradcheck)
        return check(func, inputs, masked=bool(masked), raise_exception=raise_exception, **settings)
    try:
        _check_inputs(inputs)
        _run(func, inputs, settings)
    except RuntimeError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
):
    """Checks second derivatives: `gradcheck` of the function that computes the gradient.

    Args:
        grad_outputs: gradients of the outputs, random by default.
        gen_non_contig_grad_outputs: make the random ones non-contiguous.
        check_fwd_over_rev, check_rev_over_rev: forward mode, or backward, over the gradient function.
    Others, returns and raises as `gradcheck`.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    inputs = _as_tuple(inputs)
    if grad_outputs is None:
        seeds = tuple(
            _random_seed(output, gen_non_contig_grad_outputs)
            for output in _outputs(func, inputs)
            if _differentiable(output)
        )
    else:
        seeds = _as_tuple(grad_outputs)
    count = len(seeds)

    def gradient(*args):
        given, grads = args[: len(args) - count], args[len(args) - count :]
        given = tuple(v.requires_grad_() if i in needed and not v.requires_grad else v for i, v in enumerate(given))
        outputs = tuple(output for output in _outputs(func, given) if _differentiable(output))
        with tessera.enable_grad():
            result = _grad(outputs, tuple(v for v in given if _differentiable(v)), grads, create_graph=True)
        return tuple(g for g in result if g is not None)

    needed = {i for i, value in enumerate(inputs) if _differentiable(value)}

    def recorded(*args):
        with tessera.enable_grad():
            return gradient(*args)

    return gradcheck(
        recorded,
        inputs + seeds,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        masked=masked,
    )


# ---- Jacobians alone: not documented, but programs use them
# ------------------------------------------------------------------------------------------------------------


def _check_real(outputs, what):
    if any(output.dtype.is_complex for output in outputs):
        raise ValueError(
            f"Expected output to be non-complex. {what} does not support functions that return complex outputs: "
            "return their real and imaginary parts."
        )


def _get_numerical_jacobian(fn, inputs, outputs=None, target=None, eps=1e-3, is_forward_ad=False):
    """The Jacobians of `fn(*inputs)` by central differences of step `eps`.

    Args:
        outputs: what `fn` returns for `inputs`; computed if not given.
        target: with respect to these of the inputs; by default to those that require grad.
        is_forward_ad: complex outputs are allowed, for derivatives along real inputs.

    Returns: for each input a tuple with a matrix for each output, (elements of the input, elements of the output). The
        gradient of a complex input x + iy is df/dx + i df/dy. Raises: ValueError for complex outputs.
    """
    inputs = _as_tuple(inputs)
    outputs = _outputs(fn, inputs) if outputs is None else _as_tuple(outputs)
    wanted = [v for v in inputs if _differentiable(v)] if target is None else _as_tuple(target)
    places = [i for i, value in enumerate(inputs) if any(value is t for t in wanted)]
    if not is_forward_ad or any(inputs[place].dtype.is_complex for place in places):
        _check_real(outputs, "get_numerical_jacobian")
    jacobians = []
    for place in places:
        if inputs[place].numel() == 0:
            jacobians.append(tuple(tessera.zeros(0, output.numel(), dtype=output.dtype) for output in outputs))
            continue
        numerical = _numerical(fn, inputs, place, eps)
        jacobians.append(
            tuple(
                numerical[0][k] if len(numerical) == 1 else _real_jacobians(numerical, k, "real")
                for k in range(len(outputs))
            )
        )
    return jacobians


def _warn_of_old_function(name, grad_out):
    warnings.warn(
        f"{name} is kept for programs that use it and is not part of the documented interface; use gradcheck, or "
        "torch.func.jacrev and jacfwd.",
        FutureWarning,
        stacklevel=3,
    )
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0, but got {grad_out}: scale the Jacobian that {name} returns.")


def get_numerical_jacobian(fn, inputs, target=None, eps=1e-3, grad_out=1.0):
    """The Jacobians of the first output of `fn(inputs)`, which takes the tuple of inputs as one argument, as a tuple;
    see `_get_numerical_jacobian`. Raises: ValueError for complex outputs and for another grad_out than 1.
    """
    _warn_of_old_function("get_numerical_jacobian", grad_out)
    found = _get_numerical_jacobian(lambda *values: fn(values), inputs, None, target, eps)
    return tuple(by_output[0] for by_output in found)


def get_analytical_jacobian(inputs, output, nondet_tol=0.0, grad_out=1.0):
    """The Jacobians of `output` by backward, one pass for each element.

    Returns: (a matrix (elements of the input, elements of the output) for each of `inputs` that requires grad, whether
        a second time gives the same within `nondet_tol`, whether the gradients have the sizes of the inputs, whether
        they have their dtypes). Raises: ValueError for complex outputs and for another grad_out than 1.
    """
    _warn_of_old_function("get_analytical_jacobian", grad_out)
    _check_real((output,), "get_analytical_jacobian")
    diff = tuple(value for value in _as_tuple(inputs) if _differentiable(value))
    sizes = types = True
    jacobians = [tessera.zeros(v.numel(), output.numel(), dtype=v.dtype, device=v.device) for v in diff]
    worst = 0.0
    for k in range(output.numel()):
        first, second = (_grad(output, diff, _unit(output, k, "real")) for _ in range(2))
        for value, grad, again, matrix in zip(diff, first, second, jacobians):
            if grad is None:
                continue
            sizes, types = sizes and grad.shape == value.shape, types and grad.dtype == value.dtype
            if grad.numel() == value.numel():
                matrix[:, k] = grad.detach().reshape(-1).to(matrix.dtype)
            if grad.numel():
                worst = max(worst, float((grad - again).abs().max()))
    return tuple(jacobians), worst <= nondet_tol, sizes, types


def _random_seed(output, noncontiguous):
    dtype = (
        output.dtype
        if output.dtype in (tessera.float64, tessera.complex128, tessera.float32, tessera.complex64)
        else tessera.float64
    )
    if noncontiguous and output.dim() > 0:
        wide = tessera.randn(*output.shape, 2, dtype=dtype, device=output.device)
        seed = wide[..., 0]
    else:
        seed = tessera.randn(output.shape, dtype=dtype, device=output.device)
    return seed.detach().requires_grad_()


class _Module(types.ModuleType):
    """The name `autograd.gradcheck` is a module and a function: where an import under another name put the module
    there, it can be called as well.
    """

    def __call__(self, *args, **kwargs):
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _Module
