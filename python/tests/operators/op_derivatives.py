"""The differentiable operators of the registry with calls of them, for the tests of derivatives.

Nobody lists operators here: the registry says what is differentiable, in which arguments and for which numbers;
arguments come from op_samples.py.
"""

import tessera
from op_arguments import Computed, flatten, identify, split_arguments
from op_samples import samples
from tessera._ops import FunctionSchema, ops

DTYPES = {"real": tessera.float64, "complex": tessera.complex128}

# Arguments of operators without derivatives of their own, where that of the operator they call is not there.
REFUSED_THROUGH_THE_CALL = {"special_zeta.other_scalar": {"self"}, "linalg_ldl_factor": {"self"}}


class Entry:
    """An operator and what the registry says of it."""

    def __init__(self, row):
        text, _, _, _, self.source, gradients, constants, self.numbers, self.tags, self.forward = row
        self.schema = FunctionSchema(text)
        self.name = identify(self.schema)
        self.full_name = self.schema.name + (f".{self.schema.overload_name}" if self.schema.overload_name else "")
        self.op = getattr(getattr(ops.aten, self.schema.name.split("::")[1]), self.schema.overload_name or "default")
        self.constants = {int(n) for n in constants.split()}
        self.differentiable = gradients != ""
        # A composed operator's view may be one of a result on the way, which has a history of its own.
        self.gives_views = gradients == "*" or "(a" in text
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
    # Operators of sparse tensors are checked on such tensors: python/tests/sparse/test_sparse_gradients.py. Gradients
    # that go straight through quantization are no derivatives of what it computes: python/tests/quantized.
    apart = ("sparse/", "quantization/")
    rows = [row for row in tessera._C._operator_table() if row[0].startswith("aten::") and not row[4].startswith(apart)]
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

    def __init__(self, entry, arguments, given):
        self.entry = entry
        self.given = given
        self.narrow = given.narrow
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

        maps = self.given.maps
        arguments = [
            maps[a.name](put(v)) if a.name in maps else put(v)
            for a, v in zip(self.entry.schema.arguments, self.arguments)
        ]
        by_name = {a.name: v for a, v in zip(self.entry.schema.arguments, arguments)}
        with tessera.no_grad():
            return [v.of(by_name) if isinstance(v, Computed) else v for v in arguments]

    def call(self, op, arguments):
        """All results, and the tensors among them that have to have a history."""
        positional, keywords = split_arguments(self.entry.schema, arguments)
        tessera.manual_seed(0)
        results = op(*positional, **keywords)
        many = len(self.entry.schema.returns) > 1
        results = results if many else [results]
        if self.given.view:
            found = self.given.view(*results)
        else:
            found = [t for i, r in enumerate(results) if i not in self.entry.constants for t in flatten(r)]
        return [t for t in found if t.numel() and (t.is_floating_point() or t.is_complex())]

    def __call__(self, *tensors):
        results = self.call(self.entry.op, self.filled(tensors))
        assert results, "there is no floating result"
        return tuple(r.to(tessera.float64) if self.narrow else r for r in results)


def samples_of(entry, dtype):
    found = [Sample(entry, *sample) for sample in samples(entry.schema, dtype)]
    return [s for s in found if s.leaves and all(t.dtype == dtype for t in s.leaves)]


# ---- in-place forms


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
