"""Names change no numbers: every operator on tensors with names gives what it gives without them, or says that it takes
none, and leaves its arguments' names alone. Operators come from the registry, arguments from op_samples.py.
"""

import pytest
import tessera
from op_arguments import flatten, split_arguments
from op_derivatives import FUNCTIONAL as DIFFERENTIABLE
from op_samples import samples

pytestmark = pytest.mark.filterwarnings("ignore")
FUNCTIONAL = [
    e
    for e in DIFFERENTIABLE
    if not e.random and not any(w in e.name for w in ("rand", "empty", "dropout", "backward", "split_with_sizes"))
]


def named(value, count):
    """The tensors in an argument with a name for every dimension, the same from the right in all of them."""
    if isinstance(value, (list, tuple)):
        return type(value)(named(v, count) for v in value)
    if not isinstance(value, tessera.Tensor) or value.dim() == 0:
        return value
    count.append(value)
    return value.detach().rename(*(f"d{value.dim() - i}" for i in range(value.dim())))


def call(entry, arguments):
    positional, keywords = split_arguments(entry.schema, arguments)
    return [r for r in flatten(entry.op(*positional, **keywords)) if isinstance(r, tessera.Tensor)]


@pytest.mark.parametrize("entry", FUNCTIONAL, ids=lambda e: e.full_name)
def test_names_change_no_numbers(entry):
    dtype = tessera.complex128 if entry.numbers == "complex" else tessera.float64
    for arguments, given in samples(entry.schema, dtype)[:3]:
        if given.narrow is not None:
            continue
        count = []
        with_names = [named(a, count) for a in arguments]
        before = [t.names for t in flatten(with_names) if isinstance(t, tessera.Tensor)]
        plain = [a.detach() if isinstance(a, tessera.Tensor) else a for a in arguments]
        want = call(entry, plain)
        try:
            found = call(entry, with_names)
        except RuntimeError as error:
            known = ("not yet supported with named", "do not match", "Misaligned", "duplicate names", "other sizes")
            assert any(text in str(error) for text in known), error
            continue
        assert [t.names for t in flatten(with_names) if isinstance(t, tessera.Tensor)] == before
        assert len(found) == len(want)
        for a, b in zip(found, want):
            assert len(a.names) == a.dim()
            tessera.testing.assert_close(a.rename(None), b, equal_nan=True)
