"""What functions of linear algebra refuse, and with what words; matrices with nan and inf; results that cannot be."""

import itertools

import pytest
import tessera

L = tessera.linalg
EYE = tessera.eye(3)

# name: a call with a matrix
FUNCTIONS = {
    "cholesky": L.cholesky,
    "cholesky_ex": L.cholesky_ex,
    "cond": L.cond,
    "det": L.det,
    "eig": L.eig,
    "eigh": L.eigh,
    "eigvals": L.eigvals,
    "eigvalsh": L.eigvalsh,
    "inv": L.inv,
    "inv_ex": L.inv_ex,
    "ldl_factor": L.ldl_factor,
    "ldl_factor_ex": L.ldl_factor_ex,
    "lstsq": lambda a: L.lstsq(a, a),
    "lu": L.lu,
    "lu_factor": L.lu_factor,
    "lu_factor_ex": L.lu_factor_ex,
    "matrix_exp": L.matrix_exp,
    "matrix_rank": L.matrix_rank,
    "negative power": lambda a: L.matrix_power(a, -1),
    "nuclear norm": lambda a: L.matrix_norm(a, "nuc"),
    "norm 2": lambda a: L.matrix_norm(a, 2),
    "pinv": L.pinv,
    "qr": L.qr,
    "slogdet": L.slogdet,
    "solve": lambda a: L.solve(a, a),
    "solve_ex": lambda a: L.solve_ex(a, a),
    "solve_triangular": lambda a: L.solve_triangular(a, a, upper=True),
    "svd": L.svd,
    "svdvals": L.svdvals,
    "torch.cholesky": tessera.cholesky,
    "torch.geqrf": tessera.geqrf,
    "torch.inverse": tessera.inverse,
    "torch.logdet": tessera.logdet,
    "torch.lu": tessera.lu,
    "torch.pinverse": tessera.pinverse,
    "torch.qr": tessera.qr,
    "torch.svd": tessera.svd,
}
SQUARE = set(FUNCTIONS) - {
    "cond",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "matrix_rank",
    "nuclear norm",
    "norm 2",
    "pinv",
    "qr",
    "svd",
    "svdvals",
    "torch.geqrf",
    "torch.lu",
    "torch.pinverse",
    "torch.qr",
    "torch.svd",
}


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float16", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_dtypes_are_refused(name, dtype):
    """Nothing is converted; the message says what was given."""
    a = EYE.to(getattr(tessera, dtype))
    if name == "matrix_exp" and a.is_floating_point():
        assert L.matrix_exp(a).dtype == a.dtype
        return
    with pytest.raises(RuntimeError, match=r"(?i)dtype|float|expected|supported"):
        FUNCTIONS[name](a)


@pytest.mark.parametrize("dtype", [tessera.float16, tessera.bfloat16], ids=str)
def test_half_types_are_not_implemented(dtype):
    for name in ("svd", "qr", "eigh", "cholesky"):
        with pytest.raises(NotImplementedError, match="float32"):
            getattr(L, name)(EYE.to(dtype))


def test_empty_matrices_need_not_be_square():
    assert L.pinv(tessera.ones(5, 0), hermitian=True).shape == (0, 5)
    assert L.matrix_rank(tessera.ones(2, 0, 3), hermitian=True).tolist() == [0, 0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vectors_are_refused(name):
    for t in (tessera.ones(3), tessera.ones(())):
        with pytest.raises(RuntimeError, match=r"(?i)at least 2|dimension|2-D|square"):
            FUNCTIONS[name](t)


@pytest.mark.parametrize("name", sorted(SQUARE))
def test_matrices_that_are_not_square_are_refused(name):
    for shape in ((2, 3), (3, 2), (4, 0, 2), (0, 2, 3)):
        with pytest.raises(RuntimeError, match="square|2 by 3|must"):
            FUNCTIONS[name](tessera.ones(shape))


REFUSED = [
    (lambda: L.qr(EYE, mode="full"), RuntimeError, "mode"),
    (lambda: L.eigh(EYE, UPLO="X"), RuntimeError, "UPLO"),
    (lambda: L.svd(EYE, driver="gesvd"), RuntimeError, "driver"),
    (lambda: L.lstsq(EYE, EYE, driver="x"), RuntimeError, "driver"),
    (lambda: L.lstsq(EYE, tessera.ones(4, 1)), RuntimeError, "3"),
    (lambda: L.lstsq(EYE, EYE.double()), RuntimeError, "dtype"),
    (lambda: L.solve(EYE, EYE.double()), RuntimeError, "dtype"),
    (lambda: L.solve(EYE, tessera.ones(4, 1)), RuntimeError, "."),
    (lambda: L.solve(EYE.expand(2, 3, 3), tessera.ones(5, 3, 1)), RuntimeError, "broadcast|size"),
    (lambda: L.solve_triangular(EYE, tessera.ones(3)), TypeError, "upper"),
    (lambda: L.solve_triangular(EYE, tessera.ones(4, 1), upper=True), RuntimeError, "."),
    (lambda: L.lu_solve(EYE, tessera.ones(3, dtype=tessera.int64), EYE), RuntimeError, "int32|pivots"),
    (lambda: L.lu_solve(EYE, tessera.ones(2, dtype=tessera.int32), EYE), RuntimeError, "."),
    (lambda: L.lu(EYE, pivot=False), RuntimeError, "pivot"),
    (lambda: L.lu_factor(EYE, pivot=False), RuntimeError, "pivot"),
    (lambda: L.householder_product(tessera.ones(2, 3), tessera.ones(2)), RuntimeError, "."),
    (lambda: L.householder_product(tessera.ones(3, 2), tessera.ones(3)), RuntimeError, "."),
    (lambda: L.tensorinv(EYE, ind=0), RuntimeError, "ind"),
    (lambda: L.tensorinv(tessera.ones(2, 3, 4), ind=1), RuntimeError, "."),
    (lambda: L.tensorsolve(tessera.ones(2, 3), tessera.ones(2)), RuntimeError, "."),
    (lambda: L.matrix_norm(EYE, "x"), RuntimeError, "Order"),
    (lambda: L.matrix_norm(EYE, 3), RuntimeError, "Order"),
    (lambda: L.matrix_norm(EYE, dim=(0, 0)), RuntimeError, "different"),
    (lambda: L.matrix_norm(EYE, dim=(0, 5)), IndexError, "out of range"),
    (lambda: L.matrix_norm(EYE, dim=(0,)), RuntimeError, "2-tuple"),
    (lambda: L.matrix_norm(EYE, 2, dtype=tessera.complex64), RuntimeError, "dtype"),
    (lambda: L.matrix_norm(EYE.double(), 2, dtype=tessera.float32), RuntimeError, "dtype"),
    (lambda: L.matrix_norm(tessera.ones(0, 3), -2), IndexError, "non-zero"),
    (lambda: L.norm(tessera.ones(2, 2, 2), 2), RuntimeError, "1D or 2D"),
    (lambda: L.norm(EYE, 2, dim=()), RuntimeError, "length 1 or 2"),
    (lambda: L.norm(tessera.ones(2, 2, 2), dim=(0, 1, 2)), RuntimeError, "length 1 or 2"),
    (lambda: L.norm(tessera.ones(3), "fro"), RuntimeError, "Order|2 dimensions"),
    (lambda: L.cond(EYE, 3), RuntimeError, "p must be"),
    (lambda: L.cond(EYE, "x"), RuntimeError, "p must be"),
    (lambda: L.cond(tessera.ones(2, 3), "fro"), RuntimeError, "square"),
    (lambda: tessera.istft(tessera.ones(3, 4), 4), RuntimeError, "complex-valued"),
    (lambda: L.matrix_rank(EYE, atol=tessera.tensor(1j)), RuntimeError, "complex"),
    (lambda: L.pinv(EYE, rtol=tessera.tensor(1j)), RuntimeError, "complex"),
    (lambda: L.pinv(tessera.ones(2, 3), hermitian=True), RuntimeError, "square"),
    (lambda: L.multi_dot([EYE]), RuntimeError, "."),
    (lambda: L.vander(tessera.ones(3), N=0), RuntimeError, "N"),
    (lambda: L.cross(tessera.ones(2), tessera.ones(2)), RuntimeError, "3"),
    (lambda: L.svdvals(EYE, out=tessera.empty(3, dtype=tessera.float64)), RuntimeError, "dtype"),
    (lambda: L.inv(EYE, out=tessera.empty(3, 3, dtype=tessera.int64)), RuntimeError, "dtype"),
    (lambda: L.eig(EYE, out=(tessera.empty(0), tessera.empty(0))), RuntimeError, "(?i)dtype|complex"),
    (lambda: L.matrix_power(EYE, 2, out=tessera.empty(0, dtype=tessera.float64)), RuntimeError, "dtype"),
    (lambda: L.matrix_power(EYE, 1, out=tessera.empty(0, dtype=tessera.int64)), RuntimeError, "cast"),
    (lambda: tessera.ormqr(EYE, EYE[0], EYE, out=tessera.empty(0, dtype=tessera.float64)), RuntimeError, "dtype"),
]


@pytest.mark.parametrize("n", [0, 1])
def test_powers_that_are_copies_convert(n):
    out = tessera.empty(0, dtype=tessera.complex128)
    assert L.matrix_power(EYE, n, out=out) is out and tessera.equal(out, EYE.to(out.dtype))


@pytest.mark.parametrize("index", range(len(REFUSED)))
def test_refused_arguments(index):
    call, error, words = REFUSED[index]
    with pytest.raises(error, match=words):
        call()


SINGULAR = [
    ("cholesky", L.cholesky, "positive-definite"),
    ("inv", L.inv, "singular"),
    ("solve", lambda a: L.solve(a, a), "singular"),
    ("tensorinv", lambda a: L.tensorinv(a, ind=a.dim() - 1) if a.dim() == 2 else L.inv(a), "singular"),
    ("negative power", lambda a: L.matrix_power(a, -2), "singular"),
    ("inverse", tessera.inverse, "singular"),
]


@pytest.mark.parametrize("name", [s[0] for s in SINGULAR])
def test_singular_matrices_raise_and_name_the_batch_element(name):
    function, words = next(s[1:] for s in SINGULAR if s[0] == name)
    with pytest.raises(L.LinAlgError, match=words):
        function(-EYE * 0)
    batch = tessera.stack([EYE, EYE * 0, EYE])
    with pytest.raises(L.LinAlgError, match=rf"Batch element 1\).*{words}"):
        function(batch)
    assert issubclass(L.LinAlgError, RuntimeError)


@pytest.mark.parametrize("name", ["inv", "cholesky", "solve"])
def test_failed_calls_leave_out_well_formed(name):
    out = tessera.full((3, 3), 7.0)
    call = {
        "inv": lambda: L.inv(EYE * 0, out=out),
        "cholesky": lambda: L.cholesky(-EYE, out=out),
        "solve": lambda: L.solve(EYE * 0, EYE, out=out),
    }[name]
    with pytest.raises(L.LinAlgError):
        call()
    assert out.shape == (3, 3)
    assert tessera.equal(L.inv(2 * EYE, out=out), EYE / 2)


def test_info_tells_what_failed():
    a = tessera.stack([EYE, tessera.diag(tessera.tensor([1.0, 0.0, 1.0])), -EYE])
    for info, wanted in (
        (L.inv_ex(a).info, [0, 2, 0]),
        (L.lu_factor_ex(a).info, [0, 2, 0]),
        (L.solve_ex(a, EYE).info, [0, 2, 0]),
        (L.cholesky_ex(a).info, [0, 2, 1]),
        (L.ldl_factor_ex(a).info, [0, 2, 0]),
    ):
        assert info.dtype == tessera.int32 and info.tolist() == wanted
    for function in (L.inv_ex, L.cholesky_ex, lambda a, **k: L.solve_ex(a, a, **k), L.lu_factor_ex, L.ldl_factor_ex):
        with pytest.raises(L.LinAlgError):
            function(a, check_errors=True)


def flat(results):
    return [t for t in (results if isinstance(results, (tuple, list)) else [results])]


@pytest.mark.parametrize("dtype", [tessera.float32, tessera.float64, tessera.complex64, tessera.complex128], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_not_finite_ends(name, dtype):
    """In LinAlgError, in info, or in results that show it."""
    for n, value in itertools.product((1, 2, 5, 40), (float("nan"), float("inf"), -float("inf"))):
        for at in {(0, 0), (n - 1, 0), (n - 1, n - 1), (n // 2, n // 2)}:
            a = tessera.eye(n, dtype=dtype) + 0.1 * tessera.ones(n, n, dtype=dtype)
            a[at] = value
            try:
                results = flat(FUNCTIONS[name](a))
            except L.LinAlgError:
                continue
            except RuntimeError as error:
                assert any(word in str(error) for word in ("finite", "nan", "NaN", "inf", "converge")), error
                continue
            read = name != "solve_triangular" or at[0] <= at[1]
            if value != value and read:
                shown = any(not bool(t.isfinite().all()) for t in results)
                assert shown, f"{n} {value} {at}"


def test_sizes_near_overflow_are_refused():
    """Views of one number, whose results or copies would be larger than memory."""
    big = tessera.ones(1).expand(2**31, 2**31)
    for function in (L.inv, L.svdvals, L.qr, L.eigvalsh, L.lu_factor, L.matrix_exp, L.pinv, L.det):
        with pytest.raises((RuntimeError, MemoryError)):
            function(big)
