"""torch.linalg and its older names on devices: as on the CPU. Run on the emulated device by test_cuda.py."""

import itertools

import pytest

import tessera

on_device = pytest.mark.skipif(not tessera.cuda.is_available(), reason="no CUDA device")
linalg = tessera.linalg
TYPES = [tessera.float32, tessera.float64, tessera.complex64, tessera.complex128]


def tolerance(dtype):
    return 1e-3 if dtype in (tessera.float32, tessera.complex64) else 1e-9


def matrices(*shape, dtype=tessera.float64, seed=0):
    return tessera.randn(*shape, dtype=dtype, generator=tessera.Generator().manual_seed(seed))


def positive(*shape, dtype=tessera.float64):
    a = matrices(*shape, dtype=dtype)
    return a @ a.mH + shape[-1] * tessera.eye(shape[-1], dtype=dtype)


def results(r):
    return [r] if isinstance(r, tessera.Tensor) else [t for t in r if isinstance(t, tessera.Tensor)]


def check(f, *tensors):
    """The results of f, which are determined, are the same on both devices; so are their gradients."""
    found = {}
    for device in ("cpu", "cuda"):
        inputs = [t.detach().to(device).requires_grad_() for t in tensors]
        outputs = results(f(*inputs))
        assert all(t.device.type == device for t in outputs)
        scalar = sum(t.abs().square().sum() for t in outputs if t.requires_grad)
        if isinstance(scalar, tessera.Tensor):
            scalar.backward()
        found[device] = [t.detach().cpu() for t in outputs] + [t.grad.cpu() for t in inputs if t.grad is not None]
    limit = tolerance(tensors[0].dtype)
    assert len(found["cpu"]) == len(found["cuda"])
    for want, got in zip(found["cpu"], found["cuda"]):
        largest = want.abs().max().item() if want.numel() else 0
        atol = limit * max(1.0, largest)
        tessera.testing.assert_close(got, want, rtol=limit, atol=atol, equal_nan=True, check_stride=False)


DETERMINED = {
    "lu_factor": linalg.lu_factor,
    "lu": linalg.lu,
    "inv": linalg.inv,
    "inv_ex": linalg.inv_ex,
    "det": linalg.det,
    "slogdet": linalg.slogdet,
    "qr": linalg.qr,
    "qr_complete": lambda a: linalg.qr(a, mode="complete"),
    "qr_r": lambda a: linalg.qr(a.detach(), mode="r")[1],
    "svdvals": linalg.svdvals,
    "pinv": lambda a: linalg.pinv(a + 9 * tessera.eye(a.size(-1), dtype=a.dtype, device=a.device)),
    "matrix_norm": lambda a: linalg.matrix_norm(a, "nuc"),
    "cond": lambda a: linalg.cond(a),
    "matrix_power": lambda a: linalg.matrix_power(a, -2),
    "matrix_exp": linalg.matrix_exp,
    "geqrf": lambda a: tessera.geqrf(a.detach()),
    "matrix_rank": lambda a: linalg.matrix_rank(a.detach()),
}


@on_device
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", DETERMINED)
def test_functions_of_square_matrices(name, dtype):
    large = [(2, 1, 33, 33)] if dtype == tessera.float64 else []
    for shape in [(4, 4), (3, 5, 5), (0, 3, 3), (2, 0, 0), *large]:
        if 0 in shape and name in ("cond", "matrix_norm", "qr_r"):
            continue
        check(DETERMINED[name], matrices(*shape, dtype=dtype))
    check(DETERMINED[name], matrices(3, 5, 5, dtype=dtype).mT)


@on_device
@pytest.mark.parametrize("dtype", TYPES)
def test_functions_of_positive_matrices(dtype):
    for shape in [(4, 4), (3, 6, 6), (2, 0, 0), (0, 3, 3)]:
        a = positive(*shape, dtype=dtype)
        b = matrices(*shape[:-1], 2, dtype=dtype)
        for upper in (False, True):
            check(lambda a, upper=upper: linalg.cholesky(a, upper=upper), a)
            check(lambda a, b, upper=upper: tessera.cholesky_solve(b, linalg.cholesky(a, upper=upper), upper), a, b)
        check(lambda a: tessera.cholesky_inverse(linalg.cholesky(a)), a)
        check(linalg.eigvalsh, a)
        check(lambda a: linalg.eigvalsh(a, "U"), a)


@on_device
@pytest.mark.parametrize("dtype", TYPES)
def test_equations(dtype):
    for shape, right in [
        ((4, 4), (4,)),
        ((4, 4), (4, 3)),
        ((3, 5, 5), (5, 2)),
        ((5, 5), (3, 5, 2)),
        ((2, 0, 0), (0, 3)),
    ]:
        check(linalg.solve, matrices(*shape, dtype=dtype), matrices(*right, dtype=dtype, seed=1))
    a, b = matrices(3, 5, 5, dtype=dtype), matrices(3, 5, 5, dtype=dtype, seed=1)
    check(lambda a, b: linalg.solve(a, b, left=False), a, b)
    check(lambda a, b: linalg.solve_ex(a, b), a, b)
    check(linalg.tensorsolve, matrices(2, 3, 6, dtype=dtype), matrices(2, 3, dtype=dtype))
    for left, adjoint in itertools.product((False, True), repeat=2):
        check(lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b, left=left, adjoint=adjoint), a, b)
    for left, upper, unit in itertools.product((False, True), repeat=3):
        triangle = positive(3, 5, 5, dtype=dtype)
        check(
            lambda a, b: linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit),
            triangle / 10,
            b,
        )


@on_device
@pytest.mark.parametrize("dtype", TYPES)
def test_least_squares(dtype):
    for shape, right in [((6, 4), (6, 2)), ((3, 4, 6), (3, 4, 2)), ((3, 6, 4), (6, 2)), ((5, 5), (5,))]:
        a, b = matrices(*shape, dtype=dtype), matrices(*right, dtype=dtype, seed=1)
        if len(shape) != len(right) and right != (5,):
            b = b.expand(3, 6, 2).contiguous()
        want = linalg.lstsq(a, b, driver="gels")
        for driver in (None, "gels"):
            got = linalg.lstsq(a.cuda(), b.cuda(), driver=driver)
            for w, g in zip(want, got):
                assert g.shape == w.shape and g.is_cuda
                tessera.testing.assert_close(g.cpu(), w, rtol=tolerance(dtype), atol=tolerance(dtype))
    with pytest.raises(RuntimeError, match="other than `gels` is not supported on CUDA"):
        linalg.lstsq(a.cuda(), b.cuda(), driver="gelsd")
    with pytest.raises(linalg.LinAlgError, match="full rank"):
        linalg.lstsq(tessera.zeros(3, 2, dtype=dtype, device="cuda"), tessera.ones(3, 1, dtype=dtype, device="cuda"))


@on_device
@pytest.mark.parametrize("dtype", TYPES)
def test_reflections(dtype):
    a = matrices(3, 6, 4, dtype=dtype)
    check(lambda a: linalg.householder_product(*tessera.geqrf(a.detach())), a)
    reflections, tau = tessera.geqrf(a)
    c = matrices(3, 6, 6, dtype=dtype, seed=2)
    for left, transpose in itertools.product((False, True), repeat=2):
        want = tessera.ormqr(reflections, tau, c, left, transpose)
        got = tessera.ormqr(reflections.cuda(), tau.cuda(), c.cuda(), left, transpose)
        tessera.testing.assert_close(got.cpu(), want, rtol=tolerance(dtype), atol=tolerance(dtype))


@on_device
@pytest.mark.parametrize("dtype", TYPES)
def test_indefinite_matrices(dtype):
    a = matrices(3, 6, 6, dtype=dtype)
    b = matrices(3, 6, 2, dtype=dtype, seed=1)
    for hermitian in (False, True):
        symmetric = a + (a.mH if hermitian else a.mT)
        factors = linalg.ldl_factor(symmetric.cuda(), hermitian=hermitian)
        for got, want in zip(factors, linalg.ldl_factor(symmetric, hermitian=hermitian)):
            tessera.testing.assert_close(got.cpu().tril(), want.tril(), rtol=tolerance(dtype), atol=tolerance(dtype))
        x = linalg.ldl_solve(*factors, b.cuda(), hermitian=hermitian)
        tessera.testing.assert_close(symmetric @ x.cpu(), b, rtol=100 * tolerance(dtype), atol=100 * tolerance(dtype))


@on_device
@pytest.mark.parametrize("dtype", TYPES)
def test_eigenvectors(dtype):
    limit = {"rtol": 10 * tolerance(dtype), "atol": 10 * tolerance(dtype)}
    for shape in [(1, 1), (5, 5), (4, 7, 7), (2, 40, 40), (0, 3, 3), (2, 0, 0)]:
        a = matrices(*shape, dtype=dtype).cuda()
        w, v = linalg.eig(a)
        assert w.is_cuda and v.dtype == w.dtype == (
            tessera.complex64 if a.element_size() * (1 if a.is_complex() else 2) == 8 else tessera.complex128
        )
        tessera.testing.assert_close(a.to(v.dtype) @ v, v * w.unsqueeze(-2), **limit)
        tessera.testing.assert_close(linalg.eigvals(a).abs().sort().values, w.abs().sort().values, **limit)
        hermitian = a + a.mH
        w, v = linalg.eigh(hermitian)
        tessera.testing.assert_close(hermitian @ v, v * w.unsqueeze(-2), **limit)


@on_device
@pytest.mark.parametrize("driver", [None, "gesvd", "gesvdj", "gesvda"])
@pytest.mark.parametrize("dtype", TYPES)
def test_singular_values(dtype, driver):
    limit = {"rtol": 1e-2, "atol": 1e-2} if driver == "gesvda" else {"rtol": tolerance(dtype), "atol": tolerance(dtype)}
    for shape in [(5, 5), (3, 7, 4), (3, 4, 7), (2, 36, 3), (0, 3, 2), (2, 0, 3)]:
        a = matrices(*shape, dtype=dtype).cuda()
        for full in (False, True):
            u, s, vh = linalg.svd(a, full_matrices=full, driver=driver)
            k = min(shape[-2:])
            assert u.shape[-1] == (shape[-2] if full else k) and vh.shape[-2] == (shape[-1] if full else k)
            tessera.testing.assert_close((u[..., :k] * s.unsqueeze(-2).to(dtype)) @ vh[..., :k, :], a, **limit)
            tessera.testing.assert_close(
                u.mH @ u, tessera.eye(u.shape[-1], dtype=dtype).cuda().expand(*u.shape[:-2], -1, -1), **limit
            )
        tessera.testing.assert_close(linalg.svdvals(a, driver=driver), s, **limit)
        tessera.testing.assert_close(s.cpu(), linalg.svdvals(a.cpu()), **limit)


@on_device
def test_drivers_are_checked():
    with pytest.raises(RuntimeError, match="gesvd, gesvdj, gesvda"):
        linalg.svd(tessera.ones(2, 2, device="cuda"), driver="fast")
    with pytest.raises(RuntimeError, match="only supported for CUDA"):
        linalg.svd(tessera.ones(2, 2), driver="gesvd")


@on_device
def test_lu_without_pivots():
    a = positive(3, 5, 5).cuda()
    lu, pivots = linalg.lu_factor(a, pivot=False)
    assert pivots.tolist() == [[1, 2, 3, 4, 5]] * 3
    p, lower, upper = linalg.lu(a, pivot=False)
    assert p.shape == (0,)
    tessera.testing.assert_close(lower @ upper, a)
    tessera.testing.assert_close(linalg.lu_solve(lu, pivots, a), tessera.eye(5, dtype=a.dtype).cuda().expand(3, 5, 5))
    with pytest.raises(RuntimeError, match="pivot=True"):
        linalg.lu_factor(a.cpu(), pivot=False)


@on_device
def test_errors_are_those_of_the_cpu():
    singular = tessera.zeros(2, 3, 3)
    singular[0] = tessera.eye(3)
    infinite = tessera.full((2, 3, 3), float("inf"))
    for f in (linalg.inv, linalg.cholesky, linalg.lu_factor, lambda a: linalg.solve(a, a)):
        messages = []
        for a in (singular, singular.cuda()):
            with pytest.raises(linalg.LinAlgError) as e:
                f(a)
            messages.append(str(e.value))
        assert messages[0] == messages[1]
    for f in (linalg.eigh, linalg.svd):
        for a in (infinite, infinite.cuda()):
            with pytest.raises(linalg.LinAlgError, match="non-finite"):
                f(a)
    with pytest.raises(RuntimeError, match="infs or NaNs"):
        linalg.eig(infinite.cuda())


@on_device
def test_forms_with_info_do_not_wait():
    a = tessera.eye(3, device="cuda").expand(4, 3, 3).contiguous()
    b = tessera.ones(4, 3, 1, device="cuda")
    before = tessera.cuda.get_sync_debug_mode()
    tessera.cuda.set_sync_debug_mode("error")
    try:
        for f in (linalg.cholesky_ex, linalg.inv_ex, linalg.lu_factor_ex, linalg.ldl_factor_ex):
            found = f(a)
            assert found.info.is_cuda
        linalg.solve_ex(a, b)
        linalg.qr(a)
        linalg.solve_triangular(a, b, upper=True)
    finally:
        tessera.cuda.set_sync_debug_mode(before)
    singular = tessera.zeros(3, 3, device="cuda")
    assert linalg.inv_ex(singular).info.item() == 1 and linalg.cholesky_ex(singular).info.item() == 1


@on_device
def test_results_into_given_tensors():
    a = positive(3, 5, 5)
    for f in (linalg.inv, linalg.cholesky, linalg.det, linalg.eigvalsh):
        want = f(a)
        out = tessera.empty(0, dtype=want.dtype, device="cuda")
        f(a.cuda(), out=out)
        tessera.testing.assert_close(out.cpu(), want, check_stride=False)
        strided = tessera.zeros(*want.shape, 2, dtype=want.dtype, device="cuda")[..., 0]
        f(a.cuda(), out=strided)
        tessera.testing.assert_close(strided.cpu(), want, check_stride=False)


def test_preferred_library():
    prefer = tessera.backends.cuda.preferred_linalg_library
    before = prefer()
    try:
        assert prefer("cusolver").name == "Cusolver" == prefer().name
        if tessera.cuda.is_available():
            a = positive(3, 5, 5)
            tessera.testing.assert_close(linalg.inv(a.cuda()).cpu(), linalg.inv(a))
        assert prefer("default").name == "Default" and prefer(prefer()).name == "Default"
        for wrong in ("lapack", 3, "magma"):
            with pytest.raises(RuntimeError):
                prefer(wrong)
        assert prefer().name == "Default"
    finally:
        prefer(before)
