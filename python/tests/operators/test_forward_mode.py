"""Forward mode of every differentiable operator of the op tables, against reverse mode.

For results y = f(x), tangents u of x and gradients v of y both modes give the number <v, J u>: forward mode as <v,
tangent of y>, reverse mode as <gradient of x, u>. The same for the gradient function itself (forward over reverse
against reverse over reverse), and the in-place forms against the functional ones. Operators come from the registry, see
op_derivatives.py.
"""

import collections

import pytest
import tessera
import tessera.autograd.forward_ad as fwAD
from op_derivatives import CASES, DTYPES, FUNCTIONAL, INPLACE, fits, in_place, samples_of

# How many cases there were when these numbers were written; there may be more, never less.
FLOOR = {("real", "first"): 650, ("complex", "first"): 404, ("real", "second"): 328, ("complex", "second"): 191}
CHECKED = collections.Counter()


def product(pairs):
    """The real inner product of lists of tensors; None is 0."""
    total = tessera.zeros((), dtype=tessera.float64)
    for a, b in pairs:
        if a is not None and b is not None:
            total = total + (a.conj() * b).real.double().sum() if a.is_complex() else total + (a * b).double().sum()
    return total


def random_like(tensors, seed):
    generator = tessera.Generator().manual_seed(seed)
    return [tessera.randn(t.shape, dtype=t.dtype, generator=generator) for t in tensors]


def tangent_of(tensor):
    found = fwAD.unpack_dual(tensor).tangent
    if found is not None:
        assert found.shape == tensor.shape and found.dtype == tensor.dtype
    return found


def duals(leaves, tangents):
    """`leaves`, with tangents where there are some."""
    return [leaf if t is None else fwAD.make_dual(leaf, t) for leaf, t in zip(leaves, tangents)]


def choices(tangents):
    """All tangents, and each alone: missing ones are zero."""
    yield tangents
    if len(tangents) > 1:
        for i in range(len(tangents)):
            yield [t if i == j else None for j, t in enumerate(tangents)]


def check_first(sample):
    tolerance = dict(rtol=1e-2, atol=1e-2) if sample.narrow else dict(rtol=1e-7, atol=1e-8)
    plain = [leaf.detach() for leaf in sample.leaves]
    results = sample(*sample.leaves)
    seeds = random_like(results, 1)
    grads = tessera.autograd.grad(results, sample.leaves, seeds, allow_unused=True)
    for i, tangents in enumerate(choices(random_like(plain, 2))):
        with fwAD.dual_level(), tessera.set_grad_enabled(i > 0):
            moved = sample(*duals(plain, tangents))
            for m, r in zip(moved, results):
                tessera.testing.assert_close(fwAD.unpack_dual(m).primal, r.detach(), equal_nan=True)
            got = product(zip(seeds, [tangent_of(m) for m in moved]))
        tessera.testing.assert_close(got, product(zip(grads, tangents)), **tolerance)


def check_second(sample):
    """Forward mode over reverse mode. False if the gradient depends on nothing."""
    results = sample(*sample.leaves)
    seeds = random_like(results, 1)
    grads = tessera.autograd.grad(results, sample.leaves, seeds, create_graph=True, allow_unused=True)
    if not any(g is not None and g.requires_grad for g in grads):
        return False
    weights = random_like(sample.leaves, 3)
    tangents = random_like(sample.leaves, 2)
    inner = product(zip(weights, grads))
    with fwAD.dual_level():
        moving = duals(sample.leaves, tangents)
        try:
            twice = tessera.autograd.grad(inner, sample.leaves, allow_unused=True) if inner.requires_grad else []
        except NotImplementedError:  # nobody wrote the second derivative
            with pytest.raises(NotImplementedError, match="derivative"):
                tessera.autograd.grad(sample(*moving), moving, seeds, allow_unused=True)
            return False
        found = tessera.autograd.grad(sample(*moving), moving, seeds, allow_unused=True)
        got = product(zip(weights, [None if g is None else tangent_of(g) for g in found]))
    tolerance = dict(rtol=1e-2, atol=1e-2) if sample.narrow else dict(rtol=1e-6, atol=1e-7)
    tessera.testing.assert_close(got.detach(), product(zip(twice, tangents)), **tolerance)
    return True


def check_refused(sample):
    with fwAD.dual_level(), pytest.raises(NotImplementedError, match="derivative"):
        sample(*duals([leaf.detach() for leaf in sample.leaves], random_like(sample.leaves, 2)))


@pytest.mark.parametrize(("entry", "kind"), CASES, ids=[f"{e.name}-{kind}" for e, kind in CASES])
def test_forward_mode_agrees_with_reverse_mode(entry, kind):
    found = samples_of(entry, DTYPES[kind])
    assert found, "no samples"
    orders = {"first"}
    for sample in found:
        if entry.refused:
            check_refused(sample)
            continue
        check_first(sample)
        if check_second(sample):
            orders.add("second")
    CHECKED.update((kind, order) for order in orders)


def moved_results(call, leaves, tangents):
    """(values, tangents) of what `call` gives for the duals."""
    with fwAD.dual_level():
        results = call(*duals([leaf.detach() for leaf in leaves], tangents))
        return [(p, tessera.zeros_like(p) if t is None else t) for p, t in map(fwAD.unpack_dual, results)]


@pytest.mark.parametrize(
    ("form", "functional", "kind"), INPLACE, ids=[f"{form.name}-{kind}" for form, _, kind in INPLACE]
)
def test_inplace_forms_have_the_same_tangents(form, functional, kind):
    """Those of the functional form, if there is one; else what reverse mode says."""
    found = samples_of(functional or form, DTYPES[kind])
    assert found, "no samples"
    for sample in found:
        tangents = random_like(sample.leaves, 2)
        if functional is None:
            results = in_place(form, sample, sample.leaves)
            seeds = random_like(results, 1)
            grads = tessera.autograd.grad(results, sample.leaves, seeds, allow_unused=True)
            got = moved_results(lambda *leaves, s=sample: in_place(form, s, leaves), sample.leaves, tangents)
            tessera.testing.assert_close(
                product(zip(seeds, [t for _, t in got])), product(zip(grads, tangents)), rtol=1e-7, atol=1e-8
            )
            continue
        if functional.refused or ("inplace_view" not in form.tags and not fits(sample, sample(*sample.leaves))):
            continue  # test_gradients.py sees to these
        for chosen in choices(tangents):
            wanted = moved_results(sample, sample.leaves, chosen)
            got = moved_results(lambda *leaves, s=sample: in_place(form, s, leaves), sample.leaves, chosen)
            for (p, t), (q, u) in zip(got, wanted):
                tessera.testing.assert_close(p, q, equal_nan=True)
                tessera.testing.assert_close(t, u, equal_nan=True)


def test_out_forms_refuse_tangents():
    with fwAD.dual_level():
        dual = fwAD.make_dual(tessera.ones(3), tessera.ones(3))
        out = tessera.zeros(3)
        with pytest.raises(RuntimeError, match="out= function"):
            tessera.add(dual, 1, out=out)
        assert not out.any()


def test_where_the_rules_come_from(capsys):
    """Nearly all are derived by opgen; what goes twice through the gradient is rare."""
    counts = collections.Counter(e.forward for e in FUNCTIONAL if e.forward)
    total = sum(counts.values())
    fallbacks = sorted(e.name for e in FUNCTIONAL if e.forward == "fallback")
    with capsys.disabled():
        print(f"\nrules of forward mode: {total} operators,", dict(counts), "fallback:", *fallbacks)
    assert set(counts) == {"derived", "written", "fallback"}
    assert counts["derived"] > 0.5 * total
    assert counts["fallback"] <= 0.05 * total


def test_as_many_cases_as_ever(capsys):
    """Runs last. A part of the file (-k) checks less, and is not counted."""
    with capsys.disabled():
        print("\nforward mode:", ", ".join(f"{kind} {order} {n}" for (kind, order), n in sorted(CHECKED.items())))
    if sum(n for (_, order), n in CHECKED.items() if order == "first") == len(CASES):
        assert {k: CHECKED[k] for k in FLOOR if CHECKED[k] < FLOOR[k]} == {}
