"""First and second derivatives of every differentiable operator of the op tables, against finite differences.

Nobody lists operators here: op_derivatives.py takes them from the registry. An operator without samples fails, and so
does a sample that the operator refuses. Random operators get the same seed at every call.
"""

import collections

import numpy
import pytest
import scipy.special
import scipy.stats
import tessera
from op_arguments import flatten, split_arguments
from op_derivatives import CASES, DTYPES, FUNCTIONAL, INPLACE, Sample, entries, fits, in_place, samples_of
from tessera.autograd import gradcheck, gradgradcheck

# How many cases there were when these numbers were written; there may be more, never less.
FLOOR = {("real", "first"): 650, ("complex", "first"): 404, ("real", "second"): 617, ("complex", "second"): 402}
CHECKED = collections.Counter()


def covered(entry, found):
    """The arguments that are differentiated in some sample."""
    return {
        a.name
        for s in found
        for a, v in zip(entry.schema.arguments, s.arguments)
        if any(isinstance(t, tessera.Tensor) and t.requires_grad for t in flatten(v))
    }


def gradients(sample, wanted, create_graph):
    """Of all results, with random gradients coming in, for the `wanted` leaves."""
    results = sample(*sample.leaves)
    for r in results:
        assert r.requires_grad, "a result without history"
        # What is written into a view of a tensor that only the operator had would not be in any history.
        assert sample.entry.gives_views or not r._is_view(), "a view of what nobody holds"
    tessera.manual_seed(1)
    seeds = [tessera.randn_like(r).requires_grad_() for r in results]
    return tessera.autograd.grad(results, wanted, seeds, create_graph=create_graph, allow_unused=True)


def check(sample):
    """Which orders were checked.

    A gradient that depends on nothing, not even on the one that comes in, must be 0: then there is no second order.
    """
    loose = dict(eps=1e-2, atol=1e-2, rtol=1e-2) if sample.narrow else {}
    grads = gradients(sample, sample.leaves, create_graph=True)
    assert gradcheck(sample, sample.leaves, **loose)
    if any(g is not None and g.requires_grad for g in grads):
        assert gradgradcheck(sample, sample.leaves, **loose)
        return ("first", "second")
    assert all(g is None or not g.any() for g in grads), "the graph of the gradient is lost"
    return ("first",)


def check_zero(entry, found):
    """Random numbers whose table says that they do not follow their arguments: their gradients are 0."""
    for sample in found:
        assert all(g is not None and not g.any() for g in gradients(sample, sample.leaves, create_graph=False))


def check_refused(entry, found):
    """Derivatives that nobody wrote: asking for them raises. The others are right."""
    for sample in found:
        kept = []
        for a, v in zip(entry.schema.arguments, sample.arguments):
            if a.name in entry.refused:
                for leaf in (t for t in flatten(v) if isinstance(t, tessera.Tensor) and t.requires_grad):
                    with pytest.raises(NotImplementedError, match="derivative"):
                        gradients(sample, (leaf,), create_graph=False)
                v = Sample._constant(v)
            kept.append(v)
        rest = Sample(entry, kept, sample.given)
        if rest.leaves:
            check(rest)


def check_standard_gamma(found):
    """The sampler rejects, so its samples jump; the gradient is that of a place in the distribution function F.

    F(a, x(a)) stays: dx/da = -(dF/da) / (dF/dx).
    """
    for sample in found:
        (shape,) = sample.leaves
        (x,) = sample(shape)
        (got,) = tessera.autograd.grad(x.sum(), shape)
        a, x, step = shape.detach().numpy(), x.detach().numpy(), 1e-5
        by_shape = (scipy.special.gammainc(a + step, x) - scipy.special.gammainc(a - step, x)) / (2 * step)
        density = x ** (a - 1) * numpy.exp(-x) / scipy.special.gamma(a)
        numpy.testing.assert_allclose(got.numpy(), -by_shape / density, rtol=1e-4)


def check_sample_dirichlet(found):
    """Two numbers of a Dirichlet distribution share 1, and the first is a beta number: its place in the distribution
    function stays where its own concentration moves.
    """
    for sample in found:
        assert all(g is not None for g in gradients(sample, sample.leaves, create_graph=False))
    tessera.manual_seed(0)
    concentrations = (tessera.rand(40, 2, dtype=tessera.float64) * 3 + 0.3).requires_grad_()
    x = tessera._sample_dirichlet(concentrations)
    (got,) = tessera.autograd.grad(x[:, 0].sum(), concentrations)
    (a, b), x, step = concentrations.detach().numpy().T, x[:, 0].detach().numpy(), 1e-6
    cdf, density = scipy.special.betainc, scipy.stats.beta.pdf(x, a, b)
    by_first = (cdf(a + step, b, x) - cdf(a - step, b, x)) / (2 * step)
    by_second = (cdf(a, b + step, x) - cdf(a, b - step, x)) / (2 * step)
    expected = -numpy.stack([by_first / density, by_second / density], axis=1)
    numpy.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-8)


DISTRIBUTIONS = {"_standard_gamma": check_standard_gamma, "_sample_dirichlet": check_sample_dirichlet}


@pytest.mark.parametrize(("entry", "kind"), CASES, ids=[f"{e.name}-{kind}" for e, kind in CASES])
def test_derivatives(entry, kind):
    found = samples_of(entry, DTYPES[kind])
    assert found, "no samples"
    assert entry.inputs | entry.zero | entry.refused <= covered(entry, found), (
        "some arguments are differentiated in no sample"
    )
    orders = {"first"}
    if entry.name in DISTRIBUTIONS:
        DISTRIBUTIONS[entry.name](found)
    elif entry.refused:
        check_refused(entry, found)
    elif entry.random and entry.zero:
        check_zero(entry, found)
    else:
        orders.update(order for sample in found for order in check(sample))
    CHECKED.update((kind, order) for order in orders)


REFUSED = [(e, kind) for e in FUNCTIONAL for kind in DTYPES if not e.takes(kind)]


@pytest.mark.parametrize(("entry", "kind"), REFUSED, ids=[f"{e.name}-{kind}" for e, kind in REFUSED])
def test_numbers_that_are_not_taken_are_refused(entry, kind):
    """What the tables say about real and complex arguments is true."""
    refusals = []
    for sample in samples_of(entry, DTYPES[kind]):
        try:
            sample(*sample.leaves)
        except (RuntimeError, ValueError, TypeError) as refusal:
            refusals.append(refusal)
    assert refusals


# ---- in-place and out= forms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "functional", "kind"), INPLACE, ids=[f"{form.name}-{kind}" for form, _, kind in INPLACE]
)
def test_inplace_forms_have_the_same_gradients(form, functional, kind):
    """Those of the functional form, if there is one; else those of finite differences."""
    found = samples_of(functional or form, DTYPES[kind])
    assert found, "no samples"
    if functional is None:
        for sample in found:
            assert gradcheck(lambda *leaves, sample=sample: in_place(form, sample, leaves), sample.leaves)
        return
    compared = 0
    cannot_hold = False  # real results of complex numbers, which self cannot become
    for sample in found:
        results = sample(*sample.leaves)
        if "inplace_view" not in form.tags and not fits(sample, results):
            with pytest.raises((RuntimeError, ValueError)):
                in_place(form, sample, sample.leaves)
            cannot_hold |= kind == "complex" and not any(r.is_complex() for r in results)
            continue
        seeds = [tessera.randn_like(r) for r in results]
        if functional.refused:
            with pytest.raises(NotImplementedError, match="derivative"):
                tessera.autograd.grad(in_place(form, sample, sample.leaves), sample.leaves, seeds)
            compared += 1
            continue
        wanted = tessera.autograd.grad(results, sample.leaves, seeds, allow_unused=True)
        got = tessera.autograd.grad(in_place(form, sample, sample.leaves), sample.leaves, seeds, allow_unused=True)
        for g, w, leaf in zip(got, wanted, sample.leaves):
            zero = tessera.zeros_like(leaf)
            tessera.testing.assert_close(zero if g is None else g, zero if w is None else w)
        compared += 1
    assert compared or cannot_hold, "no sample whose result fits into self"


OUT = [
    e
    for e in entries()
    if any(a.is_out for a in e.schema.arguments)
    and e.differentiable
    and any("Tensor" in a.type and not a.is_out for a in e.schema.arguments)
]
BY_SOURCE = {e.source: e for e in FUNCTIONAL}


@pytest.mark.parametrize("form", OUT, ids=lambda e: e.name)
def test_out_forms_refuse_what_requires_grad(form):
    """And leave their output as it was."""
    functional = BY_SOURCE[form.source]
    kind = "real" if functional.takes("real") else "complex"
    sample = samples_of(functional, DTYPES[kind])[0]
    values = sample.filled(sample.leaves)
    positional, keywords = split_arguments(functional.schema, values)
    with tessera.no_grad():
        results = functional.op(*positional, **keywords)
    outs = [a.name for a in form.schema.arguments if a.is_out]
    by_name = {a.name: v for a, v in zip(functional.schema.arguments, values)}
    by_name.update((name, tessera.zeros_like(r)) for name, r in zip(outs, results if len(outs) > 1 else [results]))
    positional, keywords = split_arguments(form.schema, [by_name[a.name] for a in form.schema.arguments])
    with pytest.raises(RuntimeError, match="differentiation"):
        form.op(*positional, **keywords)
    assert not any(by_name[name].any() for name in outs)


def test_as_many_cases_as_ever(capsys):
    """Runs last. A part of the file (-k) checks less, and is not counted."""
    with capsys.disabled():
        print(
            f"\nderivatives of {len(FUNCTIONAL)} operators in {len(CASES)} cases:",
            ", ".join(f"{kind} {order} {n}" for (kind, order), n in sorted(CHECKED.items())),
        )
    assert len(CASES) >= sum(n for (_, order), n in FLOOR.items() if order == "first")
    if sum(n for (_, order), n in CHECKED.items() if order == "first") == len(CASES):
        assert {k: CHECKED[k] for k in FLOOR if CHECKED[k] < FLOOR[k]} == {}
