"""func.jvp of every differentiable operator: against reverse mode, under vmap over its tangents and over its inputs
against a loop, inside of grad, and of in-place forms.

Nobody lists operators here: they come from the registry, see op_derivatives.py.
"""

import collections

import pytest
import tessera
from op_derivatives import CASES, DTYPES, INPLACE, fits, in_place, samples_of
from tessera._C import _func
from tessera.func import jvp, vjp, vmap

# How many cases were compared when these numbers were written; there may be more, never less.
FLOOR = {"jvp": 1300, "tangents": 1200, "inputs": 1000, "reverse": 500}
CHECKED = collections.Counter()
BATCH = 2
# Under vmap their value decides what to do: which elements a mask takes, whether arguments are in range.
READ_VALUES = {"masked_scatter", "multi_margin_loss", "multilabel_margin_loss", "linalg_vander"}
FIRST_ORDER = [(e, kind) for e, kind in CASES if not e.refused]
IDS = [f"{e.name}-{kind}" for e, kind in FIRST_ORDER]


def product(pairs):
    """The real inner product of lists of tensors."""
    total = tessera.zeros((), dtype=tessera.float64)
    for a, b in pairs:
        total = total + ((a.conj() * b).real if a.is_complex() else a * b).double().sum()
    return total


def random_like(tensors, seed):
    generator = tessera.Generator().manual_seed(seed)
    return tuple(tessera.randn(t.shape, dtype=t.dtype, generator=generator) for t in tensors)


def plain_leaves(sample):
    return tuple(leaf.detach() for leaf in sample.leaves)


def tolerance(sample):
    return dict(rtol=1e-2, atol=1e-2) if sample.narrow else dict(rtol=1e-7, atol=1e-8)


def check_close(got, want, sample):
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.dtype == b.dtype
        tessera.testing.assert_close(a, b, equal_nan=True, **tolerance(sample))


@pytest.mark.parametrize(("entry", "kind"), FIRST_ORDER, ids=IDS)
def test_jvp_agrees_with_reverse_mode(entry, kind):
    found = samples_of(entry, DTYPES[kind])
    assert found, "no samples"
    for sample in found:
        leaves = plain_leaves(sample)
        tangents = random_like(leaves, 2)
        results, moved = jvp(sample, leaves, tangents)
        check_close(results, [r.detach() for r in sample(*sample.leaves)], sample)
        seeds = random_like(results, 1)
        pulled = vjp(sample, *leaves)[1](seeds)
        tessera.testing.assert_close(
            product(zip(seeds, moved)), product(zip(pulled, tangents)), equal_nan=True, **tolerance(sample)
        )
        CHECKED["jvp"] += 1


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize(("entry", "kind"), FIRST_ORDER, ids=IDS)
def test_a_batch_of_tangents_is_a_loop(entry, kind):
    """What jacfwd does: values without a batch, tangents with one."""
    for sample in samples_of(entry, DTYPES[kind])[:2]:
        leaves = plain_leaves(sample)
        rows = [random_like(leaves, 2 + k) for k in range(BATCH)]
        along = lambda *tangents, s=sample, x=leaves: jvp(s, x, tangents)[1]
        want = [tessera.stack(column) for column in zip(*(along(*row) for row in rows))]
        got = vmap(along, randomness="same")(*(tessera.stack(column) for column in zip(*rows)))
        check_close(got, want, sample)
        CHECKED["tangents"] += 1


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize(("entry", "kind"), FIRST_ORDER, ids=IDS)
def test_a_batch_of_inputs_is_a_loop(entry, kind):
    """vmap over jvp, and jvp of vmap."""
    for sample in samples_of(entry, DTYPES[kind])[:1]:
        if entry.schema.name.split("::")[1] in READ_VALUES or _func._batching_rules()[entry.full_name][0] == "random":
            continue
        leaves = plain_leaves(sample)
        rows = [tuple(x * (1 - 0.03 * k) for x in leaves) for k in range(BATCH)]
        tangents = random_like(leaves, 2)
        at = lambda *x, s=sample, t=tangents: jvp(s, x, t)[1]
        try:
            want = [tessera.stack(column) for column in zip(*(at(*row) for row in rows))]
        except RuntimeError:  # no sample any more once it is varied
            CHECKED["no loop"] += 1
            continue
        batch = tuple(tessera.stack(column) for column in zip(*rows))
        check_close(vmap(at, randomness="same")(*batch), want, sample)
        spread = tuple(tessera.stack([t] * BATCH) for t in tangents)
        check_close(jvp(vmap(sample, randomness="same"), batch, spread)[1], want, sample)
        CHECKED["inputs"] += 1


@pytest.mark.parametrize(("entry", "kind"), FIRST_ORDER, ids=IDS)
def test_gradients_of_jvp_are_jvp_of_gradients(entry, kind):
    for sample in samples_of(entry, DTYPES[kind])[:1]:
        leaves = plain_leaves(sample)
        tangents, seeds = random_like(leaves, 2), random_like([r.detach() for r in sample(*sample.leaves)], 1)
        gradient = lambda *x, s=sample, v=seeds: vjp(s, *x)[1](v)
        try:
            want = jvp(gradient, leaves, tangents)[1]
        except NotImplementedError:  # nobody wrote the second derivative
            with pytest.raises(NotImplementedError, match="derivative"):
                vjp(gradient, *leaves)[1](tangents)
            continue
        got = vjp(lambda *x, s=sample, t=tangents: jvp(s, x, t)[1], *leaves)[1](seeds)
        check_close(got, want, sample)
        CHECKED["reverse"] += 1


FORMS = [(form, functional, kind) for form, functional, kind in INPLACE if not (functional or form).refused]


@pytest.mark.parametrize(("form", "functional", "kind"), FORMS, ids=[f"{form.name}-{kind}" for form, _, kind in FORMS])
def test_inplace_forms_have_the_same_tangents(form, functional, kind):
    """Those of reverse mode, also where the tangents have a batch and the values have none."""
    for sample in samples_of(functional or form, DTYPES[kind])[:1]:
        if functional and "inplace_view" not in form.tags and not fits(sample, sample(*sample.leaves)):
            continue
        leaves = plain_leaves(sample)
        rows = [random_like(leaves, 2 + k) for k in range(BATCH)]
        written = lambda *x, s=sample: in_place(form, s, x)
        results, pull = vjp(written, *leaves)
        seeds = random_like(results, 1)
        want = [product(zip(pull(seeds), row)) for row in rows]
        for row, number in zip(rows, want):
            moved = jvp(written, leaves, row)[1]
            tessera.testing.assert_close(product(zip(seeds, moved)), number, equal_nan=True, **tolerance(sample))
        stacked = tuple(tessera.stack(column) for column in zip(*rows))
        batch = vmap(lambda *t, x=leaves: jvp(written, x, t)[1], randomness="same")(*stacked)
        got = [product(zip(seeds, (b[k] for b in batch))) for k in range(BATCH)]
        tessera.testing.assert_close(got, want, equal_nan=True, **tolerance(sample))


def test_enough_was_compared(request):
    """Runs last. A part of the file (-k) checks less, and is not counted."""
    if request.session.testscollected < 4 * len(FIRST_ORDER):
        pytest.skip("only part of the file runs")
    assert {k: CHECKED[k] for k in FLOOR if CHECKED[k] < FLOOR[k]} == {}, CHECKED
    assert CHECKED["no loop"] <= 0.05 * CHECKED["inputs"], CHECKED
