"""First and second derivatives of every differentiable operator of the op tables, against finite differences.

Nobody lists operators here: they come from the registry, which says what is differentiable, in which arguments and for
which numbers; arguments come from op_samples.py. An operator without samples fails, and so does a sample that the
operator refuses. Random operators get the same seed at every call.
"""

import collections

import numpy
import pytest
import scipy.special
import tessera
from op_arguments import Computed, flatten, identify, split_arguments
from op_samples import samples
from tessera._ops import FunctionSchema, ops
from tessera.autograd import gradcheck, gradgradcheck

DTYPES = {"real": tessera.float64, "complex": tessera.complex128}
# How many cases there were when these numbers were written; there may be more, never less.
FLOOR = {("real", "first"): 650, ("complex", "first"): 404, ("real", "second"): 617, ("complex", "second"): 402}
CHECKED = collections.Counter()

# Arguments of operators without derivatives of their own, where that of the operator they call is not there.
REFUSED_THROUGH_THE_CALL = {"special_zeta.other_scalar": {"self"}}


class Entry:
    """An operator and what the registry says of it."""

    def __init__(self, row):
        text, _, _, _, self.source, gradients, constants, self.numbers, self.tags = row
        self.schema = FunctionSchema(text)
        self.name = identify(self.schema)
        self.op = getattr(getattr(ops.aten, self.schema.name.split("::")[1]), self.schema.overload_name or "default")
        self.constants = {int(n) for n in constants.split()}
        self.differentiable = gradients != ""
        self.random = any(a.type == "Generator?" for a in self.schema.arguments)
        # Arguments by what the table gives for them; where it gives none, all are differentiated through the call.
        self.composed = gradients == "*"
        words = [] if self.composed else gradients.split()
        self.zero = {w[:-2] for w in words if w.endswith("=0")}
        self.refused = {w[:-1] for w in words if w.endswith("!")} | REFUSED_THROUGH_THE_CALL.get(self.name, set())
        self.inputs = {w for w in words if not w.endswith(("=0", "!"))}

    def takes(self, kind):
        return self.numbers in ("both", kind)

    def is_input(self, argument):
        return self.composed or argument.name in self.inputs | self.zero | self.refused


def entries():
    rows = [row for row in tessera._C._operator_table() if row[0].startswith("aten::")]
    return sorted((Entry(row) for row in rows), key=lambda e: e.name)


ENTRIES = [
    e
    for e in entries()
    if any("Tensor" in a.type for a in e.schema.arguments) and any("Tensor" in r.type for r in e.schema.returns)
]
FUNCTIONAL = [e for e in ENTRIES if not e.schema.is_mutable and e.differentiable]
CASES = [(e, kind) for e in FUNCTIONAL for kind in DTYPES if e.takes(kind)]


class Sample:
    """One call of an operator as a function of its differentiable tensors, `leaves`."""

    def __init__(self, entry, arguments, narrow):
        self.entry = entry
        self.narrow = narrow
        self.arguments = [
            self._constant(v) if not entry.is_input(a) else v for a, v in zip(entry.schema.arguments, arguments)
        ]
        self.leaves = tuple(t for t in flatten(self.arguments) if isinstance(t, tessera.Tensor) and t.requires_grad)

    @staticmethod
    def _constant(value):
        if isinstance(value, list):
            return [Sample._constant(v) for v in value]
        return value.detach() if isinstance(value, tessera.Tensor) else value

    def filled(self, tensors):
        """The arguments with these tensors for the leaves."""
        fresh = iter(tensors)

        def put(value):
            if isinstance(value, list):
                return [put(v) for v in value]
            if not isinstance(value, tessera.Tensor):
                return value
            value = next(fresh) if value.requires_grad else value
            return value.to(self.narrow) if self.narrow and value.is_floating_point() else value

        arguments = [put(v) for v in self.arguments]
        by_name = {a.name: v for a, v in zip(self.entry.schema.arguments, arguments)}
        with tessera.no_grad():
            return [v.of(by_name) if isinstance(v, Computed) else v for v in arguments]

    def call(self, op, arguments):
        """All results, and the tensors among them that have to have a history."""
        positional, keywords = split_arguments(self.entry.schema, arguments)
        tessera.manual_seed(0)
        results = op(*positional, **keywords)
        many = len(self.entry.schema.returns) > 1
        found = [
            t for i, r in enumerate(results if many else [results]) if i not in self.entry.constants for t in flatten(r)
        ]
        return [t for t in found if t.numel() and (t.is_floating_point() or t.is_complex())]

    def __call__(self, *tensors):
        results = self.call(self.entry.op, self.filled(tensors))
        assert results, "there is no floating result"
        return tuple(r.to(tessera.float64) if self.narrow else r for r in results)


def samples_of(entry, dtype):
    found = [Sample(entry, *sample) for sample in samples(entry.schema, dtype)]
    return [s for s in found if s.leaves and all(t.dtype == dtype for t in s.leaves)]


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
        rest = Sample(entry, kept, sample.narrow)
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


DISTRIBUTIONS = {"_standard_gamma": check_standard_gamma}


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
        except (RuntimeError, ValueError) as refusal:
            refusals.append(refusal)
    assert refusals


# ---- in-place and out= forms ---------------------------------------------------------------------------------------


def _writes_self(schema):
    return (
        schema.arguments[0].name == "self"
        and schema.arguments[0].is_write
        and not any(a.is_out for a in schema.arguments)
    )


def inplace_pairs():
    """(in-place form, functional form or None) of every differentiable operator.

    They are forms of one entry of a table, or two entries that are called NAME_ and NAME.
    """
    by_source = {e.source: e for e in FUNCTIONAL}
    by_name = {e.name: e for e in FUNCTIONAL}
    for form in entries():
        if form.schema.is_mutable and form.differentiable and _writes_self(form.schema):
            base, _, overload = form.name.partition(".")
            yield form, by_source.get(form.source) or by_name.get(base[:-1] + ("." + overload if overload else ""))


INPLACE = [
    (form, functional, kind)
    for form, functional in inplace_pairs()
    for kind in DTYPES
    if (functional or form).takes(kind)
]


def in_place(form, sample, leaves):
    """The differentiable results of the in-place form: what self is afterwards."""
    values = sample.filled(leaves)
    by_name = {"self": values[0], **{a.name: v for a, v in zip(sample.entry.schema.arguments, values)}}
    written = by_name["self"] = (
        [t.clone() for t in by_name["self"]] if isinstance(by_name["self"], list) else by_name["self"].clone()
    )
    positional, keywords = split_arguments(form.schema, [by_name[a.name] for a in form.schema.arguments])
    tessera.manual_seed(0)
    form.op(*positional, **keywords)
    return tuple(flatten(written))


def fits(sample, results):
    """Whether self can hold the results."""
    names = [a.name for a in sample.entry.schema.arguments]
    selves = flatten(sample.arguments[names.index("self") if "self" in names else 0])
    return [(r.shape, r.dtype) for r in results] == [(s.shape, s.dtype) for s in selves]


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
