"""Every operator of the op tables under vmap, against a loop; vmap over its gradient, and the gradient of vmap.

Nobody lists operators here: they come from the registry, arguments from op_samples.py.
"""

import collections
import warnings

import pytest
import tessera
from op_arguments import flatten, split_arguments
from op_samples import samples
from tessera._C import _func
from tessera.func import vjp, vmap
from op_derivatives import ENTRIES, Sample

BATCH = 3
RULES = _func._batching_rules()
# Composite operators that read some argument's values: to make a shape or a Python number of them, or to check them.
# Where that argument differs across the batch they raise.
READ_VALUES = {
    "_foreach_addcdiv.Tensor": ["scalars"],
    "_foreach_addcmul.Tensor": ["scalars"],
    "_foreach_addcdiv_.Tensor": ["scalars"],
    "argwhere": ["self"],
    "bincount": ["self"],
    "cov": ["fweights", "aweights"],
    "linalg_vander": [],
    "masked_select": ["mask"],
    "narrow.Tensor": ["start"],
    "repeat_interleave.self_Tensor": ["repeats"],
    "repeat_interleave.Tensor": ["repeats"],
    "tensor_split.tensor_indices_or_sections": ["tensor_indices_or_sections"],
    "where": ["condition"],
}
# Uninitialised memory, or other numbers at every call.
NO_VALUES = ("empty_like", "new_empty", "new_empty_strided")
FUNCTIONAL = [
    e
    for e in ENTRIES
    if not e.schema.is_mutable and not e.random and RULES[e.full_name][0] != "random" and e.name not in NO_VALUES
]
# How many calls were compared when these numbers were written; there may be more, never less.
FLOOR = {"values": 2300, "gradients": 2000}
CHECKED = collections.Counter()


def rule_of(entry):
    return RULES[entry.full_name]


class Call:
    """An operator with some of its tensors as arguments of a function."""

    def __init__(self, sample):
        self.sample, self.op = sample, sample.entry.op
        with tessera.no_grad():
            self.arguments = [self._plain(v) for v in sample.filled(sample.leaves)]
        self.tensors = [t for t in flatten(self.arguments) if isinstance(t, tessera.Tensor)]
        self.names = [
            a.name
            for a, v in zip(sample.entry.schema.arguments, self.arguments)
            for t in flatten(v)
            if isinstance(t, tessera.Tensor)
        ]

    def is_sample(self):
        """The operator takes the arguments as they are."""
        try:
            self(*self.tensors)
        except (RuntimeError, TypeError):
            return False
        return True

    def is_random(self):
        """It gives other numbers the second time."""
        try:
            with tessera.no_grad():
                one, two = self(*self.tensors), self(*self.tensors)
        except (RuntimeError, TypeError):  # no sample for these numbers: the loop says so
            return False
        return any(a.numel() and not bool((a == b).all()) for a, b in zip(one, two) if a.dtype.itemsize > 1)

    def reads_mapped_values(self, mapped):
        read = READ_VALUES.get(self.sample.entry.name, ())
        return any(m and name in read for m, name in zip(mapped, self.names))

    @staticmethod
    def _plain(value):
        if isinstance(value, list):
            return [Call._plain(v) for v in value]
        return value.detach() if isinstance(value, tessera.Tensor) else value

    def __call__(self, *tensors):
        """The results as a tuple of tensors, with these tensors for the call's own."""
        fresh = iter(tensors)

        def put(value):
            if isinstance(value, list):
                return [put(v) for v in value]
            return next(fresh) if isinstance(value, tessera.Tensor) else value

        positional, keywords = split_arguments(self.sample.entry.schema, [put(v) for v in self.arguments])
        results = self.op(*positional, **keywords)
        if self.sample.given.view:
            results = self.sample.given.view(*results)
        return tuple(r for r in flatten(results) if isinstance(r, tessera.Tensor))


def dtype_of(entry):
    return tessera.complex128 if entry.numbers == "complex" else tessera.float64


def calls_of(entry):
    found = []
    for arguments, given in samples(entry.schema, dtype_of(entry)):
        if given.narrow is None:
            call = Call(Sample(entry, arguments, given))
            if call.tensors and not call.is_random():
                found.append(call)
    return found


def varied(tensor):
    """A batch of tensors that an operator takes where it takes this one."""
    if tensor.is_floating_point() and tensor.dtype.itemsize > 1 or tensor.is_complex():
        return tessera.stack([tensor * (1 - 0.03 * k) for k in range(BATCH)])
    return tessera.stack([tensor.flip(0) if tensor.dim() and k == 1 else tensor for k in range(BATCH)])


def mapped_sets(call):
    """Which tensors are mapped: all, and each by itself."""
    count = len(call.tensors)
    yield [True] * count
    if count > 1:
        for k in range(count):
            yield [i == k for i in range(count)]


def loop(function, tensors, mapped):
    rows = [function(*(t[k].clone() if m else t for t, m in zip(tensors, mapped))) for k in range(BATCH)]
    return [tessera.stack(column) for column in zip(*rows)]


def check_equal(got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.dtype == b.dtype
        tessera.testing.assert_close(a, b, equal_nan=True, rtol=1e-7, atol=1e-9)


def in_dims(mapped):
    return tuple(0 if m else None for m in mapped)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("entry", FUNCTIONAL, ids=[e.name for e in FUNCTIONAL])
def test_vmap_is_a_loop(entry):
    family, _ = rule_of(entry)
    calls = calls_of(entry)
    assert calls or any(g.narrow is not None for _, g in samples(entry.schema, dtype_of(entry))), "no samples"
    for call in calls:
        for mapped in mapped_sets(call):
            tensors = [varied(t) if m else t for t, m in zip(call.tensors, mapped)]
            if family == "forbidden" or call.reads_mapped_values(mapped):
                with pytest.raises(RuntimeError):
                    vmap(call, in_dims(mapped))(*tensors)
                CHECKED["refused"] += 1
                continue
            try:
                want = loop(call, tensors, mapped)
            except RuntimeError:  # arguments that are no sample, or none once they are varied; sizes by the data
                CHECKED["no loop" if call.is_sample() else "no sample"] += 1
                continue
            check_equal(vmap(call, in_dims(mapped))(*tensors), want)
            CHECKED["values"] += 1


DIFFERENTIABLE = [e for e in FUNCTIONAL if e.differentiable and not e.refused]


class Gradient:
    """The gradients of a call for its leaves, with ones coming in."""

    def __init__(self, call):
        self.call = call
        self.wanted = [i for i, t in enumerate(call.tensors) if t.is_floating_point()]

    def __call__(self, *tensors):
        def of_leaves(*leaves):
            full = list(tensors)
            for i, leaf in zip(self.wanted, leaves):
                full[i] = leaf
            found = self.call(*full)
            return tuple(r for r in found if r.is_floating_point() or r.is_complex())

        outputs, pull = vjp(of_leaves, *(tensors[i] for i in self.wanted))
        return pull(tuple(tessera.ones_like(o) for o in outputs))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=[e.name for e in DIFFERENTIABLE])
def test_vmap_of_gradients_is_a_loop(entry):
    for call in calls_of(entry):
        gradient = Gradient(call)
        if rule_of(entry)[0] == "forbidden" or not gradient.wanted:
            continue
        for mapped in mapped_sets(call):
            tensors = [varied(t) if m else t for t, m in zip(call.tensors, mapped)]
            if call.reads_mapped_values(mapped):
                continue
            try:
                want = loop(gradient, tensors, mapped)
            except RuntimeError:
                CHECKED["no loop"] += 1
                continue
            check_equal(vmap(gradient, in_dims(mapped))(*tensors), want)
            CHECKED["gradients"] += 1


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=[e.name for e in DIFFERENTIABLE])
def test_gradients_of_vmap(entry):
    for call in calls_of(entry)[:1]:
        wanted = [i for i, t in enumerate(call.tensors) if t.is_floating_point()]
        mapped = [True] * len(call.tensors)
        if rule_of(entry)[0] == "forbidden" or not wanted or call.reads_mapped_values(mapped):
            continue
        tensors = [varied(t) for t in call.tensors]

        def gradients(function):
            leaves = [t.clone().requires_grad_() if i in wanted else t for i, t in enumerate(tensors)]
            results = [r for r in function(leaves) if r.requires_grad]
            if not results:
                return []
            return tessera.autograd.grad(
                results,
                [leaves[i] for i in wanted],
                [tessera.ones_like(r) for r in results],
                allow_unused=True,
                materialize_grads=True,
            )

        try:
            want = gradients(lambda leaves: loop(call, leaves, mapped))
        except RuntimeError:
            CHECKED["no loop"] += 1
            continue
        check_equal(gradients(lambda leaves: vmap(call)(*leaves)), want)


def test_most_operators_have_a_rule():
    """The loop is for at most 5 % of the operators that take tensors."""
    names = {e.name for e in ENTRIES}
    counts = collections.Counter(
        "loop" if rule_of(e)[0] == "loop" else "derived" if rule_of(e)[1] else "written" for e in ENTRIES
    )
    print(dict(counts), "of", len(names))
    print("loop:", sorted(e.name for e in ENTRIES if rule_of(e)[0] == "loop"))
    assert counts["loop"] <= 0.05 * len(ENTRIES)


def test_enough_was_compared(request):
    if request.session.testscollected < 2 * len(FUNCTIONAL):
        pytest.skip("only part of the file runs")
    assert CHECKED["values"] >= FLOOR["values"] and CHECKED["gradients"] >= FLOOR["gradients"], CHECKED
    assert CHECKED["no loop"] <= 0.05 * CHECKED["values"], CHECKED


def test_operators_without_a_rule_warn():
    loops = [e for e in FUNCTIONAL if rule_of(e)[0] == "loop"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = tessera.is_warn_always_enabled()
        tessera.set_warn_always(True)
        try:
            call = next(c for e in loops for c in calls_of(e))
            vmap(call)(*(varied(t) for t in call.tensors))
        finally:
            tessera.set_warn_always(before)
    assert any("performance drop" in str(w.message) for w in caught)
