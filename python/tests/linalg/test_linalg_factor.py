"""LU, Cholesky, LDL, triangular systems, and what solves, inverts and takes determinants by them."""

import itertools

import numpy as np
import pytest
import tessera as torch

L = torch.linalg
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
# On both sides of where algorithms change: groups of small matrices, one block, several.
SHAPES = [(), (3,), (40,), (2, 3), (0,)]
SIZES = [0, 1, 2, 5, 40, 70]


def tolerance(dtype):
    return 2e-4 if dtype in (torch.float32, torch.complex64) else 1e-10


def random(*shape, dtype=torch.float64, seed=0):
    generator = np.random.default_rng([seed, *shape])
    x = generator.standard_normal(shape)
    if dtype.is_complex:
        x = x + 1j * generator.standard_normal(shape)
    return torch.from_numpy(np.asarray(x)).to(dtype)


def regular(*shape, dtype=torch.float64, seed=0):
    return random(*shape, dtype=dtype, seed=seed) + 2 * shape[-1] ** 0.5 * torch.eye(shape[-1], dtype=dtype)


def positive(*shape, dtype=torch.float64):
    a = random(*shape, dtype=dtype)
    return a @ a.mH + torch.eye(shape[-1], dtype=dtype)


def close(got, want, scale=1.0):
    want = torch.as_tensor(want).to(got.dtype)
    assert got.shape == want.shape
    np.testing.assert_allclose(
        got.detach().resolve_conj().numpy(),
        want.detach().resolve_conj().numpy(),
        rtol=tolerance(got.dtype) * scale,
        atol=tolerance(got.dtype) * scale,
    )


CASES = [(b, n, d) for (b, n), d in itertools.product(itertools.product(SHAPES, SIZES), DTYPES)]


@pytest.mark.parametrize("batch,n,dtype", CASES)
def test_solve_inv_and_det(batch, n, dtype):
    a = regular(*batch, n, n, dtype=dtype)
    b = random(*batch, n, 3, dtype=dtype)
    x = L.solve(a, b)
    close(a @ x, b)
    close(L.solve(a, b[..., 0]), x[..., 0])
    close(L.solve(a, b.mT, left=False) @ a, b.mT)
    close(a @ L.inv(a), torch.eye(n, dtype=dtype).expand(a.shape))
    sign, logabs = L.slogdet(a)
    want = np.linalg.slogdet(a.numpy().astype(np.complex128 if dtype.is_complex else np.float64))
    close(sign, want[0])
    close(logabs, want[1])
    if n <= 5:
        close(L.det(a), want[0] * np.exp(want[1]), 10)


@pytest.mark.parametrize("batch,n,dtype", CASES)
def test_cholesky(batch, n, dtype):
    a = positive(*batch, n, n, dtype=dtype)
    lower, upper = L.cholesky(a), L.cholesky(a, upper=True)
    close(lower @ lower.mH, a, 10)
    close(upper, lower.mH)
    assert torch.equal(lower, lower.tril())
    b = random(*batch, n, 2, dtype=dtype)
    for upper_factor, factor in ((False, lower), (True, upper)):
        close(a @ torch.cholesky_solve(b, factor, upper_factor), b, 100)
        close(a @ torch.cholesky_inverse(factor, upper_factor), torch.eye(n, dtype=dtype).expand(a.shape), 100)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("batch,n", [((), 3), ((20,), 5), ((), 65), ((2,), 130), ((), 200)])
def test_cholesky_inverse_reads_one_triangle(batch, n, upper):
    a = positive(*batch, n, n, dtype=torch.complex128)
    factor = L.cholesky(a, upper=upper)
    factor = factor + (torch.ones(n, n).tril(-1) if upper else torch.ones(n, n).triu(1))
    eye = torch.eye(n, dtype=a.dtype).expand(a.shape)
    spread = torch.zeros(*batch, n, 2 * n, dtype=a.dtype)[..., ::2].copy_(factor)
    by_columns = factor.mT.contiguous().mT
    for given in (factor, spread, by_columns, factor.mH.resolve_conj().mH):
        found = torch.cholesky_inverse(given, upper)
        close(a @ found, eye, 100)
        assert torch.equal(found, found.mH)
    out = torch.empty_like(by_columns)
    assert torch.cholesky_inverse(by_columns, upper, out=out) is out
    close(a @ out, eye, 100)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [1, 21])
@pytest.mark.parametrize("value", [float("nan"), -2.0, 0.0])
def test_pivots_that_end_cholesky_stay_what_they_are(count, value, dtype):
    """Whether matrices are worked on one by one or side by side; others are factored as ever."""
    for n in (1, 5, 33):
        a = torch.eye(n, dtype=dtype).repeat(count, 1, 1) * 4
        a[count // 2, n // 2, n // 2] = value
        factor, info = L.cholesky_ex(a)
        pivot = factor[count // 2, n // 2, n // 2]
        assert bool(pivot.isnan()) if value != value else pivot.item() == value
        factor[count // 2] = 2 * torch.eye(n, dtype=dtype)
        assert torch.equal(factor, 2 * torch.eye(n, dtype=dtype).expand(count, n, n))
        assert info.tolist() == [n // 2 + 1 if i == count // 2 else 0 for i in range(count)]


@pytest.mark.parametrize("n", [3, 70])
def test_cholesky_inverse_of_singular_factors(n):
    factor = torch.eye(n)
    factor[1, 1] = 0
    out = torch.full((n, n), 7.0)
    with pytest.raises(L.LinAlgError, match="diagonal element 2 is zero, the inversion could not be completed"):
        torch.cholesky_inverse(factor, out=out)
    assert (out == 7).all()
    with pytest.raises(L.LinAlgError, match=r"\(Batch element 1\): The diagonal element 2"):
        torch.cholesky_inverse(torch.stack([torch.eye(n), factor]), upper=True)
    assert torch.cholesky_inverse(torch.empty(2, 0, 0)).shape == (2, 0, 0)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_derivatives_of_cholesky_inverse(dtype, upper):
    factor = L.cholesky(positive(2, 4, 4, dtype=dtype), upper=upper).requires_grad_()

    def inverse(t):
        return torch.cholesky_inverse(t.triu() if upper else t.tril(), upper)

    assert torch.autograd.gradcheck(inverse, factor, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(inverse, factor, check_fwd_over_rev=True)
    together = torch.vmap(lambda t: torch.cholesky_inverse(t, upper))(factor)
    close(together, torch.cholesky_inverse(factor, upper))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m,n", [(4, 4), (3, 5), (5, 3), (70, 40), (40, 70), (0, 3), (3, 0)])
@pytest.mark.parametrize("batch", [(), (2,), (30,)])
def test_lu(batch, m, n, dtype):
    a = random(*batch, m, n, dtype=dtype)
    p, lower, upper = L.lu(a)
    k = min(m, n)
    assert p.shape == (*batch, m, m) and lower.shape == (*batch, m, k) and upper.shape == (*batch, k, n)
    close(p @ lower @ upper, a)
    LU, pivots = L.lu_factor(a)
    assert pivots.dtype == torch.int32 and pivots.shape == (*batch, k)
    close(LU, torch.nn.functional.pad(lower.tril(-1), (0, n - k)) + torch.nn.functional.pad(upper, (0, 0, 0, m - k)))
    assert lower.numel() == 0 or lower.abs().max() <= 1.5


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left,adjoint", list(itertools.product([True, False], repeat=2)))
def test_lu_solve_broadcasts(left, adjoint, dtype):
    a = regular(2, 1, 5, 5, dtype=dtype)
    b = random(3, 5, 4, dtype=dtype) if left else random(3, 4, 5, dtype=dtype)
    system = a.mH if adjoint else a
    x = L.lu_solve(*L.lu_factor(a), b, left=left, adjoint=adjoint)
    assert x.shape == (2, 3, *b.shape[-2:])
    close(system @ x if left else x @ system, b.expand(x.shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper,left,unit", list(itertools.product([True, False], repeat=3)))
@pytest.mark.parametrize("batch,n", [((), 5), ((), 100), ((20,), 6), ((2, 3), 3)])
def test_solve_triangular_reads_one_triangle(batch, n, upper, left, unit, dtype):
    a = regular(*batch, n, n, dtype=dtype) / n**0.5
    b = random(n, 3, dtype=dtype) if left else random(3, n, dtype=dtype)
    triangle = a.triu() if upper else a.tril()
    if unit:
        triangle = triangle - torch.diag_embed(torch.diagonal(triangle, dim1=-2, dim2=-1) - 1)
    for matrix in (a, a.mT.contiguous().mT, a.conj().resolve_conj().conj()):
        x = L.solve_triangular(matrix, b, upper=upper, left=left, unitriangular=unit)
        close(triangle @ x if left else x @ triangle, b.expand(x.shape), 1000 if unit else 10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hermitian", [True, False])
@pytest.mark.parametrize("batch,n", [((), 1), ((), 6), ((3,), 30)])
def test_ldl(batch, n, hermitian, dtype):
    a = random(*batch, n, n, dtype=dtype)
    a = (a + (a.mH if hermitian else a.mT)) / 2
    if n > 1:
        a = a - torch.diag_embed(torch.diagonal(a, dim1=-2, dim2=-1))  # zeros there: blocks of two
    ld, pivots, info = L.ldl_factor_ex(a.tril(), hermitian=hermitian)
    assert info.sum() == 0 and pivots.dtype == torch.int32
    b = random(n, 2, dtype=dtype)
    close(a @ L.ldl_solve(ld, pivots, b, hermitian=hermitian), b.expand(*batch, n, 2), 100)


def test_matrix_power_of_negative_exponents_inverts():
    a = regular(2, 3, 3)
    close(L.matrix_power(a, -3) @ a @ a @ a, torch.eye(3, dtype=a.dtype).expand(a.shape))
    close(torch.matrix_power(a, -1), L.inv(a))
    with pytest.raises(L.LinAlgError):
        torch.matrix_power(torch.zeros(2, 2), -1)


def test_tensorinv_and_tensorsolve():
    a = regular(6, 6).reshape(2, 3, 6)
    close(L.tensorinv(a, ind=2), np.linalg.tensorinv(a.numpy(), ind=2))
    b = random(2, 3)
    close(L.tensorsolve(a, b), np.linalg.tensorsolve(a.numpy(), b.numpy()))
    close(L.tensorsolve(a.movedim(2, 0), b, dims=(0,)), np.linalg.tensorsolve(a.numpy(), b.numpy()))
    for call in (
        lambda: L.tensorinv(a, ind=0),
        lambda: L.tensorinv(a[..., :5]),
        lambda: L.tensorsolve(a, random(2, 2)),
    ):
        with pytest.raises(RuntimeError, match="linalg.tensor"):
            call()


def test_torch_lu_and_method():
    a = random(3, 3)
    LU, pivots, info = torch.lu(a, get_infos=True)
    close(LU, L.lu_factor(a).LU)
    assert info.item() == 0 and len(a.lu()) == 2 and type(a.lu()) is tuple and type(a.lu(get_infos=True)) is tuple
    assert torch.lu(a, get_infos=True).pivots.equal(pivots)
    assert torch.lu(torch.zeros(2, 2), get_infos=True)[2].item() == 1
    out = (torch.empty(0, dtype=a.dtype), torch.empty(0, dtype=torch.int32))
    assert torch.lu(a, out=out)[0] is out[0] and torch.equal(out[0], LU)


def test_info_and_errors_of_singular_matrices():
    a = torch.eye(3).repeat(4, 1, 1)
    a[2, 1, 1] = 0
    assert L.inv_ex(a).info.tolist() == [0, 0, 2, 0]
    assert L.solve_ex(a, torch.ones(3)).info.tolist() == [0, 0, 2, 0]
    assert L.lu_factor_ex(a).info.tolist() == [0, 0, 2, 0]
    assert L.det(a).tolist() == [1, 1, 0, 1]
    assert L.slogdet(a).logabsdet.tolist() == [0, 0, float("-inf"), 0]
    assert L.cholesky_ex(a - 2 * torch.eye(3)).info.tolist() == [1, 1, 1, 1]
    one = torch.ones(3)
    for call in (
        lambda: L.inv(a),
        lambda: L.inv_ex(a, check_errors=True),
        lambda: L.solve(a, one),
        lambda: L.solve_ex(a, one, check_errors=True),
        lambda: L.lu_factor(a),
        lambda: L.cholesky(a),
        lambda: L.cholesky_ex(a, check_errors=True),
        lambda: torch.inverse(a),
        lambda: torch.cholesky(a),
    ):
        with pytest.raises(L.LinAlgError, match=r"Batch element 2"):
            call()
    with pytest.raises(L.LinAlgError, match=r"^linalg.inv: The diagonal element 2 is zero"):
        L.inv(a[2])
    with pytest.raises(L.LinAlgError, match="leading minor of order 1"):
        L.cholesky(-torch.eye(2))
    assert L.lu(a)[2].shape == a.shape


def test_nan_and_inf_end():
    for n, bad in itertools.product((3, 70), (float("nan"), float("inf"))):
        a = torch.full((n, n), bad)
        assert not L.inv_ex(a).inverse.isfinite().any()
        assert not L.solve_ex(a, torch.ones(n)).result.isfinite().all()
        assert L.det(a).isnan() or L.det(a).isinf()
        assert L.ldl_factor_ex(a).LD.shape == (n, n)
        if bad != bad:
            with pytest.raises(L.LinAlgError):
                L.cholesky(a)


@pytest.mark.parametrize(
    "call,match",
    [
        (lambda: L.inv(torch.ones(2, 3)), "linalg.inv: A must be batches of square matrices, but they are 2 by 3"),
        (lambda: L.inv(torch.ones(3)), "linalg.inv: The input tensor A must have at least 2 dimensions"),
        (
            lambda: L.inv(torch.ones(2, 2, dtype=torch.int32)),
            "linalg.inv: Expected a floating point or complex tensor as input. Got Int: A",
        ),
        (lambda: L.det(torch.ones(2, 2, dtype=torch.float16)), "\"linalg.det\" not implemented for 'Half': A"),
        (lambda: L.solve(torch.eye(2), torch.ones(3, 1)), r"Incompatible shapes .* AX = B \(2x2 and 3x1\)"),
        (
            lambda: L.solve(torch.eye(2), torch.ones(2, 1).double()),
            "linalg.solve: Expected A and B to have the same dtype",
        ),
        (lambda: L.solve(torch.eye(2), torch.ones(2), left=False), "linalg.solve: Vector broadcasting"),
        (lambda: L.solve_triangular(torch.eye(2), torch.ones(2, 3), upper=True, left=False), "XA = B"),
        (lambda: L.lu_solve(torch.eye(2), torch.tensor([1, 2]), torch.ones(2, 1)), "torch.int32"),
        (
            lambda: L.lu_solve(torch.eye(2), torch.tensor([1], dtype=torch.int32), torch.ones(2, 1)),
            "Number of pivots per batch",
        ),
        (
            lambda: L.lu_solve(torch.eye(2), torch.tensor([1, 3], dtype=torch.int32), torch.ones(2, 1)),
            r"between 1 and LU.size\(-2\) = 2, but got 3",
        ),
        (
            lambda: torch.lu_unpack(torch.eye(2), torch.tensor([0, 2], dtype=torch.int32)),
            r"smaller or equal to LU.size\(-2\)",
        ),
        (
            lambda: L.ldl_solve(torch.eye(2), torch.tensor([-7, 2], dtype=torch.int32), torch.ones(2, 1)),
            r"between 1 and LD.size\(-2\) = 2, but got -7",
        ),
        (lambda: L.lu_factor(torch.eye(2), pivot=False), "LU without pivoting is not implemented on the CPU"),
        (lambda: torch.cholesky_solve(torch.ones(2), torch.eye(2)), "at least 2 dimensions"),
        (lambda: torch.cholesky_solve(torch.ones(3, 1), torch.eye(2)), "Incompatible matrix sizes"),
        (lambda: torch.triangular_solve(torch.ones(3, 1), torch.eye(2)), "Incompatible matrix sizes"),
        (lambda: L.matrix_power(torch.ones(2, 3), 2), "square"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(RuntimeError, match=match):
        call()


def test_out_arguments():
    a, b = regular(2, 4, 4), random(2, 4, 2)
    for out in (
        torch.empty(0, dtype=a.dtype),
        torch.empty(2, 4, 4, dtype=a.dtype).mT,
        torch.empty(2, 4, 8, dtype=a.dtype)[..., ::2],
    ):
        assert L.inv(a, out=out) is out
        close(out, L.inv(a))
    x = torch.empty(2, 2, 4, dtype=a.dtype).mT
    close(L.solve(a, b, out=x), L.solve(a, b))
    close(L.solve_triangular(a, b, upper=True, out=x), L.solve_triangular(a, b, upper=True))
    LU, pivots = torch.empty(0, dtype=a.dtype), torch.empty(0, dtype=torch.int32)
    L.lu_factor(a, out=(LU, pivots))
    close(L.lu_solve(LU, pivots, b), L.solve(a, b))
    with pytest.raises(RuntimeError):
        L.inv(a, out=torch.empty(2, 4, 4))
    untouched = torch.full((2, 2), 7.0)
    with pytest.raises(L.LinAlgError):
        L.inv(torch.zeros(2, 2), out=untouched)
    assert untouched.tolist() == [[7, 7], [7, 7]]


def test_named_results():
    a = regular(3, 3)
    for call, names in (
        (lambda: L.cholesky_ex(positive(3, 3)), "L info"),
        (lambda: L.lu_factor(a), "LU pivots"),
        (lambda: L.lu_factor_ex(a), "LU pivots info"),
        (lambda: L.lu(a), "P L U"),
        (lambda: L.inv_ex(a), "inverse info"),
        (lambda: L.solve_ex(a, a), "result info"),
        (lambda: L.slogdet(a), "sign logabsdet"),
        (lambda: torch.slogdet(a), "sign logabsdet"),
        (lambda: L.ldl_factor_ex(a), "LD pivots info"),
        (lambda: torch.triangular_solve(a, a), "solution cloned_coefficient"),
        (lambda: torch.lu_unpack(*L.lu_factor(a)), "P L U"),
    ):
        result = call()
        for place, name in enumerate(names.split()):
            assert getattr(result, name) is result[place]


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_gradient_of_a_singular_determinant_is_the_cofactors(rank, n):
    a = (random(n, rank) @ random(rank, n, seed=1)).requires_grad_()
    (got,) = torch.autograd.grad(L.det(a), a)
    want = np.zeros((n, n))
    values = a.detach().numpy()
    for i, j in itertools.product(range(n), repeat=2):
        minor = np.delete(np.delete(values, i, 0), j, 1)
        want[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    close(got, want)


def test_vmap_aligns_batches():
    a, b = regular(4, 2, 3, 3), random(4, 3, 5)
    vmap = torch.func.vmap
    close(vmap(L.solve)(a, b), torch.stack([L.solve(x, y) for x, y in zip(a, b)]))
    v = random(4, 3)
    close(vmap(L.solve)(a, v), torch.stack([L.solve(x, y) for x, y in zip(a, v)]))
    close(vmap(L.solve, in_dims=(None, 0))(a[0], v), torch.stack([L.solve(a[0], y) for y in v]))
    LU, pivots = L.lu_factor(a)
    close(vmap(L.lu_solve, in_dims=(0, 0, None))(LU, pivots, b[0]), L.solve(a, b[0]))
    close(vmap(lambda x, y: L.solve_triangular(x, y, upper=True))(a, b), L.solve_triangular(a, b[:, None], upper=True))
    for got, want in zip(vmap(torch.lu_unpack)(LU, pivots), torch.lu_unpack(LU, pivots)):
        close(got, want)
    close(vmap(L.inv)(a), L.inv(a))
    with pytest.raises(L.LinAlgError):
        vmap(L.cholesky)(-torch.eye(3).repeat(4, 1, 1))


def test_meta():
    a = torch.empty(2, 3, 3, device="meta")
    assert L.inv(a).shape == (2, 3, 3) and L.solve(a, a[0]).shape == (2, 3, 3)
    P, lower, U = L.lu(torch.empty(3, 5, device="meta"))
    assert P.shape == (3, 3) and lower.shape == (3, 3) and U.shape == (3, 5)
    assert (
        L.cholesky(a).is_meta
        and L.det(a).shape == (2,)
        and L.slogdet(a.to(torch.complex64)).logabsdet.dtype == torch.float32
    )


def test_gradcheck_of_large_and_complex():
    for dtype in (torch.float64, torch.complex128):
        a, b = regular(3, 3, dtype=dtype).requires_grad_(), random(3, 2, dtype=dtype).requires_grad_()
        for call in (
            lambda a, b: L.solve(a, b),
            lambda a, b: L.inv(a),
            lambda a, b: L.det(a),
            lambda a, b: L.slogdet(a),
            lambda a, b: L.lu_factor(a).LU,
            lambda a, b: L.cholesky(a @ a.mH),
            lambda a, b: L.solve_triangular(a, b, upper=False),
        ):
            assert torch.autograd.gradcheck(call, (a, b), check_forward_ad=True)
            assert torch.autograd.gradgradcheck(call, (a, b))


@pytest.mark.parametrize("n", [8, 15, 31, 32, 33, 47, 64])
@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_wherever_they_stand(n, dtype):
    """Groups of small matrices, the last one of which is not full, are read where they are and left as they were."""
    a, spd = random(37, n, n, dtype=dtype), positive(37, n, n, dtype=dtype)
    for call, x in ((L.lu_factor, a), (L.cholesky, spd), (L.inv, a)):
        kept = x.clone()
        want = call(x)
        assert torch.equal(x, kept)
        first = want[0] if isinstance(want, tuple) else want
        single = torch.stack([(lambda r: r[0] if isinstance(r, tuple) else r)(call(m)) for m in x])
        close(first, single, scale=100)
        for same in (x.mT.clone().mT, x.transpose(0, 1).clone().transpose(0, 1), torch.stack([x, x], 1)[:, 1]):
            got = call(same)
            close(got[0] if isinstance(got, tuple) else got, first, scale=10)
    inverse = L.inv(a)
    assert L.inv(a, out=a) is a
    close(a, inverse)
    lower = L.cholesky(spd)
    close(L.cholesky(spd.tril()), lower)
    close(L.cholesky(spd.triu(), upper=True), lower.mH)


@pytest.mark.parametrize("n", [8, 32, 33])
@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions_of_batches_are_those_of_one_factorization(n, dtype):
    """A whole system at once, by its factorization, with B laid out otherwise, and from the other side."""
    A, B = random(21, n, n, dtype=dtype), random(21, n, 5, dtype=dtype, seed=1)
    solved, LU = L.solve(A, B), L.lu_factor(A)
    assert torch.equal(solved, L.lu_solve(*LU, B))
    for other in (B.mT.contiguous().mT, B[:1], B[:1].expand(21, n, 5)):
        close(L.solve(A, other), L.lu_solve(*LU, other.contiguous()), n)
    close(L.solve(A.mT, B.mT.contiguous().mT, left=True).mT, L.solve(A, B.mT, left=False), n)
    assert torch.equal(L.solve(A, B[..., 0]), L.solve(A, B[..., :1])[..., 0])
    assert torch.equal(L.solve(A, B, out=torch.empty(0, dtype=dtype)), solved)
    A[3, :, 1] = 0
    info = torch.linalg.solve_ex(A, B)[1]
    assert info.ne(0).nonzero().tolist() == [[3]] and info[3] == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logarithms_of_determinants_of_any_size(dtype):
    n, most = 40, torch.finfo(dtype)
    for scale in (1.0, most.max / 8, most.tiny * 8):
        A = torch.eye(n, dtype=dtype) * scale
        sign, logabs = L.slogdet(torch.stack([A, -A]))
        close(logabs, [n * np.log(scale)] * 2, n)
        assert sign.tolist() == [1, 1]
    for last, want in ((0.0, (0, -np.inf)), (np.inf, (np.nan, np.inf)), (np.nan, (np.nan, np.nan))):
        A = torch.diag(torch.tensor([2.0] * 3 + [last], dtype=dtype))
        np.testing.assert_equal(tuple(x.item() for x in L.slogdet(A)), want)
