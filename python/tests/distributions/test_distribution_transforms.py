"""Transforms: inverses, Jacobians against autograd's, caches, shapes, equality; constraints and what leads to them."""

import copy
import math
import pickle

import pytest
import tessera
import tessera.distributions as D
from tessera.distributions import constraints as C
from tessera.distributions import transforms as X

F = tessera.float64


def T(*numbers):
    return tessera.tensor(numbers[0] if len(numbers) == 1 else numbers, dtype=F)


# name -> (transform, an origin)
ONTO = {
    "Exp": (X.ExpTransform(), T(-30.0, 0.3, 30.0)),
    "Sigmoid": (X.SigmoidTransform(), T(-30.0, 0.3, 5.0)),
    "Softplus": (X.SoftplusTransform(), T(-30.0, 0.3, 300.0)),
    "Tanh": (X.TanhTransform(), T(-4.0, 0.3, 2.0)),
    "Power": (X.PowerTransform(T(-1.5)), T(0.2, 1.0, 30.0)),
    "Affine": (X.AffineTransform(T(1.0), T(-3.0)), T(-1.0, 0.3, 2.0)),
    "Affine of vectors": (X.AffineTransform(1.0, 2.0, event_dim=1), T(-1.0, 0.3, 2.0)),
    "Compose": (X.ComposeTransform([X.AffineTransform(T(0.5), T(2.0)), X.ExpTransform()]), T(-1.0, 0.3, 1.0)),
    "Compose of vectors": (X.ComposeTransform([X.ExpTransform(), X.StickBreakingTransform()]), T(-1.0, 0.3, 1.0)),
    "Cdf": (X.CumulativeDistributionTransform(D.Normal(T(0.5), T(2.0))), T(-1.0, 0.3, 2.0)),
    "Independent": (X.IndependentTransform(X.ExpTransform(), 1), T([[1.0, 2.0], [3.0, 4.0]])),
    "Reshape": (X.ReshapeTransform((2, 2), (4,)), T([[1.0, 2.0], [3.0, 4.0]])),
    "Cat": (X.CatTransform([X.ExpTransform(), X.AffineTransform(1.0, 3.0)], 0, [1, 2]), T(0.5, 1.0, 2.0)),
    "Stack": (X.StackTransform([X.ExpTransform(), X.TanhTransform()], dim=-1), T([[0.5, 0.3], [0.1, -0.4]])),
    "StickBreaking": (X.StickBreakingTransform(), T(0.3, -0.5, 1.0)),
    "CorrCholesky": (X.CorrCholeskyTransform(), T(0.1, -0.4, 0.7, 0.3, 0.2, -0.6)),
}


@pytest.mark.parametrize("name", ONTO)
def test_inverse(name):
    t, x = ONTO[name]
    y = t(x)
    assert t.bijective and t.inv.bijective and y.shape == t.forward_shape(x.shape)
    assert t.inverse_shape(y.shape) == x.shape and t.inv.forward_shape(y.shape) == x.shape
    tessera.testing.assert_close(t.inv(y), x, rtol=1e-7, atol=1e-9)
    assert bool(t.codomain.check(y).all()) and bool(t.domain.check(x).all())
    tessera.testing.assert_close(t.inv.log_abs_det_jacobian(y, x), -t.log_abs_det_jacobian(x, y))
    assert t.inv.domain.event_dim == t.codomain.event_dim


def free(name, y):
    """The numbers of an image that the others do not follow from."""
    if "StickBreaking" in name or name == "Compose of vectors":
        return y[:-1]
    if name == "CorrCholesky":
        return y[tessera.tril_indices(4, 4, -1).unbind(0)]
    return y.reshape(-1)


@pytest.mark.parametrize("name", ONTO)
def test_log_determinant(name):
    t, x = ONTO[name]
    flat = x.reshape(-1)
    jacobian = tessera.autograd.functional.jacobian(lambda z: free(name, t(z.reshape(x.shape))), flat)
    wanted = tessera.linalg.slogdet(jacobian).logabsdet
    ours = t.log_abs_det_jacobian(x, t(x))
    assert ours.dim() == x.dim() - t.domain.event_dim if name not in ("Cat", "Stack") else ours.dim() >= 0
    tessera.testing.assert_close(ours.sum(), wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ONTO)
def test_caches_and_copies(name):
    t, x = ONTO[name]
    assert t.inv.inv is t and t.inv is t.inv and t == t and hash(t) == hash(t)
    for other in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        tessera.testing.assert_close(other(x), t(x))
        assert other._inv is None or other._inv() is None
    cached = t.with_cache(1)
    assert cached.with_cache(1) is cached and t.with_cache(0) is t
    y = cached(x)
    assert cached(x) is y and cached.inv(y) is x


def test_cache_sizes():
    with pytest.raises(ValueError, match="cache_size must be 0 or 1, but was 2"):
        X.ExpTransform(cache_size=2)
    t = X.ExpTransform(cache_size=1)
    y = t.inv.inv(T(1.0))
    x = t.inv(y)
    assert t(x) is y and t(T(2.0)) is not y


def test_equality_and_signs():
    assert X.ExpTransform() == X.ExpTransform() != X.TanhTransform()
    assert X.AffineTransform(1.0, T(2.0)) == X.AffineTransform(1.0, T(2.0)) != X.AffineTransform(1.0, 3.0)
    assert X.PowerTransform(2.0) == X.PowerTransform(T(2.0)) != X.PowerTransform(3.0)
    assert X.ComposeTransform([X.ExpTransform()]) == X.ComposeTransform([X.ExpTransform()])
    assert X.ExpTransform().inv == X.ExpTransform().inv != X.ExpTransform()
    assert X.AffineTransform(0.0, -2.0).sign == -1 and int(X.PowerTransform(-2.0).sign) == -1
    assert X.ComposeTransform([X.AffineTransform(0.0, -2.0), X.AffineTransform(0.0, -1.0)]).sign == 1
    with pytest.raises(NotImplementedError, match="AbsTransform does not define sign"):
        X.AbsTransform().sign


def test_maps_without_an_inverse():
    assert not X.SoftmaxTransform().bijective and not X.AbsTransform().bijective
    tessera.testing.assert_close(X.SoftmaxTransform()(T(0.0, math.log(3))), T(0.25, 0.75))
    matrix = T([[0.1, 9.0], [0.5, -0.3]])
    factor = X.LowerCholeskyTransform()(matrix)
    tessera.testing.assert_close(factor, T([[math.exp(0.1), 0.0], [0.5, math.exp(-0.3)]]))
    tessera.testing.assert_close(X.LowerCholeskyTransform().inv(factor), matrix.tril())
    product = X.PositiveDefiniteTransform()(matrix)
    tessera.testing.assert_close(product, factor @ factor.T)
    tessera.testing.assert_close(X.PositiveDefiniteTransform().inv(product), matrix.tril())


def test_shapes_that_do_not_fit():
    calls = [
        lambda: X.ReshapeTransform((2, 3), (5,)),
        lambda: X.ReshapeTransform((2, 3), (6,)).forward_shape((3, 2)),
        lambda: X.CorrCholeskyTransform().forward_shape((4,)),
        lambda: X.CorrCholeskyTransform().inverse_shape((3, 4)),
        lambda: X.StickBreakingTransform().forward_shape(()),
        lambda: X.IndependentTransform(X.ExpTransform(), 1)(T(1.0)),
        lambda: X.CatTransform([X.ExpTransform()], 0, [2])(T(1.0, 2.0, 3.0)),
        lambda: X.StackTransform([X.ExpTransform()])(T(1.0, 2.0)),
        lambda: D.utils.vec_to_tril_matrix(T(1.0, 2.0)),
    ]
    for call in calls:
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError, match="tseq must hold Transforms"):
        X.CatTransform([3])


def test_triangles():
    matrix = D.utils.vec_to_tril_matrix(T(1.0, 2.0, 3.0))
    assert matrix.tolist() == [[1.0, 0.0], [2.0, 3.0]]
    assert D.utils.vec_to_tril_matrix(T(1.0, 2.0, 3.0), diag=-1)[2].tolist() == [2.0, 3.0, 0.0]
    assert D.utils.tril_matrix_to_vec(T([[1.0, 9.0], [2.0, 3.0]])).tolist() == [1.0, 2.0, 3.0]


def test_transformed_distributions():
    base = D.Uniform(T(0.0), T(1.0))
    logistic = D.TransformedDistribution(base, [X.SigmoidTransform().inv, X.AffineTransform(T(1.0), T(-2.0))])
    x = T(-4.0, 1.0, 5.0)
    p = 1 / (1 + (-(x - 1) / 2).exp())
    tessera.testing.assert_close(logistic.cdf(x), p)
    tessera.testing.assert_close(logistic.icdf(p), x)
    tessera.testing.assert_close(logistic.log_prob(x), (p * (1 - p) / 2).log())
    d = D.TransformedDistribution(D.Normal(tessera.zeros(5, 3), 1.0), [X.StickBreakingTransform()])
    assert d.batch_shape == (5,) and d.event_shape == (4,) and d.log_prob(d.sample()).shape == (5,)
    assert D.TransformedDistribution(D.Normal(0.0, 1.0), X.ExpTransform()).support is C.positive
    several = D.TransformedDistribution(D.Normal(0.0, 1.0), X.AffineTransform(tessera.zeros(3), 1.0))
    assert several.batch_shape == (3,) and several.sample((2,)).shape == (2, 3)
    assert not D.TransformedDistribution(D.Poisson(1.0), []).has_rsample


TO = [
    C.real, C.positive, C.nonnegative, C.greater_than(1.0), C.greater_than_eq(T(1.0)), C.less_than(1.0),
    C.unit_interval, C.interval(-1.0, 3.0), C.half_open_interval(T(-1.0), T(3.0)), C.simplex, C.corr_cholesky,
    C.independent(C.positive, 1), C.cat([C.positive, C.real], 0, [1, 2]), C.stack([C.positive, C.real, C.real]),
    C.lower_cholesky, C.positive_definite, C.positive_semidefinite,
]  # fmt: skip


@pytest.mark.parametrize("constraint", TO, ids=repr)
def test_ways_into_constraints(constraint):
    tessera.manual_seed(0)
    x = tessera.randn(3, 3, dtype=F) if constraint.event_dim == 2 and constraint is not C.corr_cholesky else None
    x = tessera.randn(3, dtype=F) if x is None else x
    assert bool(constraint.check(D.transform_to(constraint)(x)).all())
    if constraint in (C.lower_cholesky, C.positive_definite, C.positive_semidefinite):
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            D.biject_to(constraint)
        return
    t = D.biject_to(constraint)
    assert t.bijective
    tessera.testing.assert_close(t.inv(t(x)), x)


def test_registries():
    registry = D.constraint_registry.ConstraintRegistry()

    class Mine(C.Constraint):
        pass

    @registry.register(Mine)
    def factory(constraint):
        assert isinstance(constraint, Mine)
        return X.ExpTransform()

    assert registry(Mine()) == X.ExpTransform()
    registry.register(Mine(), lambda constraint: X.TanhTransform())
    assert registry(Mine()) == X.TanhTransform()
    with pytest.raises(NotImplementedError, match="Cannot transform _Real constraints"):
        registry(C.real)
    with pytest.raises(TypeError, match="Constraint subclass or instance, but got 3"):
        registry.register(3, factory)


CHECKS = [
    (C.boolean, [0.0, 1.0], [0.5, -1.0, math.nan]),
    (C.positive, [1e-300, math.inf], [0.0, -1.0, math.nan]),
    (C.nonnegative, [0.0], [-1e-300, math.nan]),
    (C.unit_interval, [0.0, 1.0], [1.1, math.nan]),
    (C.nonnegative_integer, [0.0, 3.0], [1.5, -1.0, math.nan]),
    (C.positive_integer, [1.0], [0.0, 1.5]),
    (C.real, [0.0, -5.0, math.inf], [math.nan]),
    (C.interval(T(-1.0), 2.0), [-1.0, 2.0], [2.1]),
    (C.half_open_interval(0.0, 1.0), [0.0], [1.0]),
    (C.integer_interval(1, 3), [1.0, 3.0], [2.5, 4.0]),
    (C.greater_than(T(2.0)), [2.1], [2.0]),
    (C.greater_than_eq(2.0), [2.0], [1.9]),
    (C.less_than(2.0), [1.9, -math.inf], [2.0]),
]


@pytest.mark.parametrize("constraint,good,bad", CHECKS, ids=lambda value: repr(value)[:40])
def test_checks_of_numbers(constraint, good, bad):
    assert constraint.check(T(good)).all() and constraint._holds(T(good)) and constraint.event_dim == 0
    assert not constraint.check(T(bad)).any()
    for number in bad:
        assert not constraint._holds(T(number))


EVENTS = [
    (C.simplex, [0.2, 0.8], [0.2, 0.9]),
    (C.one_hot, [0.0, 1.0], [1.0, 1.0]),
    (C.multinomial(3), [1.0, 2.0], [2.0, 2.0]),
    (C.real_vector, [1.0, 2.0], [1.0, math.nan]),
    (C.lower_triangular, [[1.0, 0.0], [2.0, -1.0]], [[1.0, 1.0], [0.0, 1.0]]),
    (C.lower_cholesky, [[1.0, 0.0], [2.0, 1.0]], [[1.0, 0.0], [2.0, -1.0]]),
    (C.corr_cholesky, [[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]),
    (C.positive_definite, [[2.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]),
    (C.positive_semidefinite, [[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, -1.0]]),
    (C.symmetric, [[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [0.0, 1.0]]),
    (C.square, [[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0]]),
]


@pytest.mark.parametrize("constraint,good,bad", EVENTS, ids=lambda value: repr(value)[:40])
def test_checks_of_vectors_and_matrices(constraint, good, bad):
    assert constraint.check(T(good)).shape == () and constraint.check(T(good)) and not constraint.check(T(bad))
    batch = T(good).expand((2, 3) + T(good).shape)
    assert constraint.check(batch).shape == (2, 3) and constraint.event_dim == T(good).dim()
    assert constraint._holds(batch) and not constraint._holds(T(bad))


def test_constraints_of_parts():
    assert C.independent(C.positive, 1).check(T([[1.0, 2.0], [1.0, -2.0]])).tolist() == [True, False]
    assert C.stack([C.positive, C.real], dim=0).check(T(1.0, -1.0)).tolist() == [True, True]
    assert C.cat([C.positive, C.real], 0, [1, 2]).check(T(-1.0, -1.0, 0.0)).tolist() == [False, True, True]
    assert C.stack([C.simplex] * 2, dim=-2).event_dim == 2
    mixture = D.MixtureSameFamily(D.Categorical(tessera.ones(2)), D.Exponential(tessera.ones(2)))
    assert mixture.support.check(T(1.0, -1.0)).tolist() == [True, False]
    assert C.MixtureSameFamilyConstraint(C.real_vector).event_dim == 1


def test_dependent_constraints():
    assert C.is_dependent(D.Uniform.support) and not C.is_dependent(D.Normal.support)
    assert D.Binomial.support.is_discrete and D.Binomial.support.event_dim == 0
    with pytest.raises(NotImplementedError, match="event_dim cannot be determined statically"):
        C.dependent.event_dim
    assert C.dependent(event_dim=2).event_dim == 2
    with pytest.raises(ValueError, match="dependent constraint"):
        C.dependent.check(T(1.0))
    assert D.Binomial(3, T(0.5)).support.upper_bound == 3


def test_constraints_are_copied_by_name():
    assert pickle.loads(pickle.dumps(C.simplex)) is C.simplex and copy.deepcopy(C.positive) is C.positive
    other = pickle.loads(pickle.dumps(C.interval(0.0, 2.0)))
    assert repr(other) == "Interval(lower_bound=0.0, upper_bound=2.0)" and other._holds(T(1.0))


def test_the_sigmoid_of_the_transform_has_a_name():
    x = tessera.tensor([-1e3, 0.0, 1e3])
    ends = tessera.finfo(x.dtype)
    assert D.transforms._clipped_sigmoid(x).tolist() == [ends.tiny, 0.5, 1 - ends.eps]


@pytest.mark.parametrize("n", [1, 2, 4])
def test_triangles_of_every_diagonal_come_back(n):
    from tessera.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix

    full = tessera.arange(1.0, 2 * n * n + 1).reshape(2, n, n)
    for diag in range(-n, n):
        matrix = full.tril(diag)
        assert vec_to_tril_matrix(tril_matrix_to_vec(matrix, diag), diag).equal(matrix)
    with pytest.raises(ValueError, match="lower triangular part"):
        vec_to_tril_matrix(tessera.ones(5), 1)
