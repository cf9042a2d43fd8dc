"""Damaged and hostile checkpoints: `load` gives an object or one of the documented exceptions, whatever the bytes. Never a crash, a hang or a huge allocation.

TESSERA_FUZZ_SECONDS=600 runs for that long; TESSERA_FUZZ_SEED repeats a run.
"""

import collections
import io
import os
import pickle
import random
import resource
import signal
import time
import warnings

import tessera

ALLOWED = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError)
WORDS = [b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"\x80\x02", b"ctorch._utils\n_rebuild_tensor_v2\n", b"cposix\nsystem\n", b"\x85R", b"Q", b"\xff" * 8, b"\x00" * 8,
         b"\x7f\xff\xff\xff", b"(", b"t", b"}", b"u", b"J\xff\xff\xff\x7f", b"\x8a\x08" + b"\xff" * 7 + b"\x7f", b"."]


def saved(obj, **options):
    file = io.BytesIO()
    tessera.save(obj, file, **options)
    return file.getvalue()


def samples():
    layer = tessera.nn.Linear(3, 2)
    optimizer = tessera.optim.Adam(layer.parameters())
    layer(tessera.ones(1, 3)).sum().backward()
    optimizer.step()
    shared = tessera.arange(12.0).view(3, 4)
    objects = [layer.state_dict(), optimizer.state_dict(), [shared, shared.t(), shared[1]], {"a": tessera.ones(2, dtype=tessera.complex64), "b": [1, "x", None, 2.5]},
               collections.OrderedDict(x=tessera.zeros(0), y=tessera.Size([2, 3]))]
    return [saved(o) for o in objects] + [saved(o, _use_new_zipfile_serialization=False) for o in objects]


def damaged(data, rng, others):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.randrange(256)
        elif kind == 2:
            data[at:at] = rng.choice(WORDS)
        elif kind == 3:
            del data[at:at + rng.randrange(1, 32)]
        elif kind == 4:
            word = rng.choice(WORDS)
            data[at:at + len(word)] = word
        else:
            other = rng.choice(others)
            begin = rng.randrange(len(other))
            data[at:at + rng.randrange(1, 64)] = other[begin:begin + rng.randrange(1, 64)]
    return bytes(data[:rng.randrange(len(data) + 1)]) if rng.random() < 0.05 else bytes(data)


def test_damaged_checkpoints():
    seconds = float(os.environ.get("TESSERA_FUZZ_SECONDS", "3"))
    seed = int(os.environ.get("TESSERA_FUZZ_SEED", "1"))
    rng = random.Random(seed)
    good = samples()
    end, count, refused = time.monotonic() + seconds, 0, 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while time.monotonic() < end:
            data = damaged(rng.choice(good), rng, good)
            count += 1
            signal.alarm(60)  # a hang ends the run
            try:
                tessera.load(io.BytesIO(data))
            except ALLOWED:
                refused += 1
            finally:
                signal.alarm(0)
    assert count > 50 and 0 < refused
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000, "a damaged file made the loader allocate"  # kB
