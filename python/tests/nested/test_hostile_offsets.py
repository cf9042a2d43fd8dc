"""Offsets, lengths and indices that lie: an operator raises or answers, and reads no other memory.

Run with more calls (TESSERA_HOSTILE_CALLS=50000) on an extension with the address sanitizer.
"""

import os

import numpy
import pytest
import tessera
from tessera import nested

F = tessera.nn.functional
CALLS = int(os.environ.get("TESSERA_HOSTILE_CALLS", "1500"))
NASTY = [-1, -7, 2**31, 2**62, 2**63 - 1, -(2**63), 99, 9, 8]
ROWS, WIDTH = 8, 4


def numbers(rng, count, right):
    """Integers in [0, right], now and then others."""
    return [int(rng.choice(NASTY)) if rng.random() < 0.15 else int(rng.integers(0, right + 1)) for _ in range(count)]


def places(rng, count, right, ascending=False, small=False):
    """A tensor of such integers: int64, or where they fit and `small` says so, int32."""
    found = numbers(rng, count, right)
    if ascending and rng.random() < 0.7:
        found.sort()
    if small and rng.random() < 0.3 and all(-(2**31) <= n < 2**31 for n in found):
        return tessera.tensor(found, dtype=tessera.int32)
    return tessera.tensor(found, dtype=tessera.int64)


def jagged(rng):
    values, count = tessera.from_numpy(rng.standard_normal((ROWS, WIDTH))), int(rng.integers(1, 5))
    offsets = places(rng, count + 1, ROWS, ascending=True, small=True)
    lengths = places(rng, count, 3, small=True) if rng.random() < 0.4 else None
    longest = int(rng.choice(NASTY)) if rng.random() < 0.1 else None
    if rng.random() < 0.1 and lengths is not None:
        return nested.nested_tensor_from_jagged(values, lengths=lengths)
    return nested.nested_tensor_from_jagged(values, offsets, lengths, max_seqlen=longest)


def heads(t):
    return t.unsqueeze(-1).transpose(1, 2)


SQUARE = tessera.eye(WIDTH, dtype=tessera.float64)
JAGGED = {
    "unbind": lambda t: t.unbind(),
    "padded": lambda t: nested.to_padded_tensor(t, 0.0),
    "padded to": lambda t: nested.to_padded_tensor(t, 0.0, (len(t), 3, WIDTH)),
    "sum": lambda t: t.sum(1),
    "amax": lambda t: t.amax(1),
    "softmax": lambda t: t.softmax(1),
    "cumsum": lambda t: t.cumsum(1),
    "sort": lambda t: t.sort(1),
    "linear": lambda t: F.linear(t, SQUARE),
    "norm": lambda t: F.layer_norm(t, (WIDTH,)),
    "attention": lambda t: F.scaled_dot_product_attention(heads(t), heads(t), heads(t)),
    "clone": lambda t: t.clone().unbind(),
    "norm over all": lambda t: t.norm(2, 1),
    "chosen": lambda t: t.masked_select(t > 0),
    "written": lambda t: t.__setitem__(0, 1.0),
    "first": lambda t: t[0],
    "print": repr,
    "by row": lambda t: (t * tessera.ones(len(t), 1, WIDTH, dtype=tessera.float64)).unbind(),
    "cat": lambda t: tessera.cat([t, t], -1).unbind(),
    "gradient": lambda t: nested.to_padded_tensor(t.requires_grad_(), 1.0).sum().backward(),
}


def table(rng):
    weight = tessera.from_numpy(rng.standard_normal((ROWS, WIDTH)).astype(rng.choice(["float32", "float64"])))
    return weight.requires_grad_() if rng.random() < 0.5 else weight


def backward(out):
    if out.requires_grad:
        out.sum().backward()


def bags(rng):
    weight, count = table(rng), int(rng.integers(0, 7))
    indices, small = places(rng, count, ROWS - 1), bool(rng.integers(0, 2))
    offsets = places(rng, int(rng.integers(0, 5)), count, ascending=True)
    if offsets.numel() and rng.random() < 0.7:
        offsets[0] = 0
    if small and all(abs(n) < 2**31 for n in (*indices.tolist(), *offsets.tolist())):
        indices, offsets = indices.int(), offsets.int()
    mode = str(rng.choice(["sum", "mean", "max"]))
    each = tessera.ones(count, dtype=weight.dtype) if mode == "sum" and rng.random() < 0.3 else None
    backward(
        F.embedding_bag(
            indices,
            weight,
            offsets,
            mode=mode,
            include_last_offset=bool(rng.integers(0, 2)),
            per_sample_weights=each,
            padding_idx=int(rng.integers(0, ROWS)) if rng.random() < 0.3 else None,
            sparse=mode == "sum" and rng.random() < 0.3,
            scale_grad_by_freq=bool(rng.random() < 0.2),
        )
    )


def lookup(rng):
    sparse = bool(rng.integers(0, 2))
    backward(F.embedding(places(rng, int(rng.integers(0, 7)), ROWS - 1, small=True), table(rng), sparse=sparse))


def segments(rng):
    data, how = table(rng), str(rng.choice(["sum", "mean", "max", "min", "prod"]))
    if rng.random() < 0.5:
        by = {"lengths": places(rng, int(rng.integers(0, 5)), 4, small=True)}
    else:
        by = {"offsets": places(rng, int(rng.integers(0, 5)), ROWS, ascending=True, small=True)}
    backward(tessera.segment_reduce(data, how, **by, unsafe=bool(rng.integers(0, 2))))


def described(rng):
    from tessera.nested._strided import from_description

    count = int(rng.integers(0, 4))
    sizes, strides = (tessera.tensor(numbers(rng, count * 2, 3), dtype=tessera.int64).reshape(count, 2) for _ in "ab")
    made = from_description(tessera.zeros(ROWS), sizes, strides, places(rng, count, ROWS))
    if all(size < 1 << 10 for size in sizes.flatten().tolist()):  # strides of 0 go on for ever in no memory
        nested.to_padded_tensor(made, 0.0)


def cut(rng):
    entries = tessera.from_numpy(rng.standard_normal((3, ROWS)))
    starts, lengths = (places(rng, 3, 4) for _ in "ab")
    nested.narrow(entries, 1, starts, lengths, layout=tessera.jagged).unbind()


def packed(rng):
    lengths = places(rng, 3, ROWS - 1)
    rnn = tessera.nn.utils.rnn
    made = rnn.pack_padded_sequence(tessera.ones(ROWS, 3, 2), lengths, enforce_sorted=False)
    rnn.pad_packed_sequence(made)


def packed_by_hand(rng):
    steps = tessera.tensor([3, 2, 1]) if rng.random() < 0.2 else places(rng, 4, 3)
    made = tessera.nn.utils.rnn.PackedSequence(tessera.ones(6, 2), steps)
    if rng.random() < 0.5:
        tessera.nn.utils.rnn.pad_packed_sequence(made)
    else:
        tessera.nn.LSTM(2, 3)(made)


CALLED = {
    "jagged": lambda rng: JAGGED[str(rng.choice(list(JAGGED)))](jagged(rng)),
    "bags": bags,
    "lookup": lookup,
    "segments": segments,
    "described": described,
    "cut": cut,
    "packed": packed,
    "packed by hand": packed_by_hand,
}


@pytest.mark.parametrize("name", CALLED)
def test_random_calls_with_lying_offsets(name):
    rng = numpy.random.default_rng(int(os.environ.get("TESSERA_HOSTILE_SEED", "0")))
    calls = CALLS // len(CALLED)
    ended = {True: 0, False: 0}
    for _ in range(calls):
        try:
            CALLED[name](rng)
            ended[True] += 1
        except (RuntimeError, IndexError, ValueError):
            ended[False] += 1
    assert min(ended.values()) > calls // 50, ended


def test_a_bag_that_ends_before_it_begins_is_refused():
    with pytest.raises((RuntimeError, ValueError)):
        F.embedding_bag(tessera.tensor([0, 1]), tessera.ones(3, 2), tessera.tensor([0, 5]))
