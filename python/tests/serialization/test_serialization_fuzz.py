"""Damaged and hostile checkpoints: `load` gives an object or one of the documented exceptions, whatever the bytes.
Never a crash, a hang or a huge allocation.

TESSERA_FUZZ_SECONDS=600 runs for that long; TESSERA_FUZZ_SEED repeats a run.
"""

import base64
import collections
import io
import os
import pickle
import random
import resource
import signal
import time
import warnings
import zlib

import pytest
import tessera

ALLOWED = (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError)
WORDS = [
    b"PK\x03\x04",
    b"PK\x01\x02",
    b"PK\x05\x06",
    b"\x80\x02",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"cposix\nsystem\n",
    b"\x85R",
    b"Q",
    b"\xff" * 8,
    b"\x00" * 8,
    b"\x7f\xff\xff\xff",
    b"(",
    b"t",
    b"}",
    b"u",
    b"J\xff\xff\xff\x7f",
    b"\x8a\x08" + b"\xff" * 7 + b"\x7f",
    b".",
]


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
    objects = [
        layer.state_dict(),
        optimizer.state_dict(),
        [shared, shared.t(), shared[1]],
        {"a": tessera.ones(2, dtype=tessera.complex64), "b": [1, "x", None, 2.5]},
        collections.OrderedDict(x=tessera.zeros(0), y=tessera.Size([2, 3])),
    ]
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
            del data[at : at + rng.randrange(1, 32)]
        elif kind == 4:
            word = rng.choice(WORDS)
            data[at : at + len(word)] = word
        else:
            other = rng.choice(others)
            begin = rng.randrange(len(other))
            data[at : at + rng.randrange(1, 64)] = other[begin : begin + rng.randrange(1, 64)]
    return bytes(data[: rng.randrange(len(data) + 1)]) if rng.random() < 0.05 else bytes(data)


# ---- sound files around wrong numbers
# -----------------------------------------------------------------------------------------

LENGTHS = {"0": 8, "1": 48, "2": 0}
KINDS = {
    b"FloatStorage": 4,
    b"DoubleStorage": 8,
    b"ByteStorage": 1,
    b"BoolStorage": 1,
    b"ComplexDoubleStorage": 16,
    b"BFloat16Storage": 2,
}
NUMBERS = [0, 1, 2, 3, -1, -2, 6, 12, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64, 2**70]
RANKS = [0, 1, 1, 2, 2, 3, 5, 6, 63, 64, 65, 200, 255, 256, 257, 300]


class Writer:
    """Opcodes of tensors, where any number, dtype, length, flag or call may be another one."""

    def __init__(self, rng, legacy):
        self.rng, self.legacy = rng, legacy

    @staticmethod
    def text(s):
        return b"X" + len(s).to_bytes(4, "little") + s.encode()

    @staticmethod
    def integer(n):
        return b"\x8a\x0a" + n.to_bytes(10, "little", signed=True)

    def number(self):
        return self.integer(self.rng.choice(NUMBERS[:4] if self.rng.random() < 0.7 else NUMBERS))

    def other(self):
        return self.rng.choice(
            [
                b"N",
                b"\x88",
                b"K\x01",
                b")",
                b"]",
                b"}",
                self.text("a"),
                b"ctorch\nfloat32\n",
                b"ctorch\nTensor\n",
                b"h\x01",
            ]
        )

    def maybe(self, good, odds=0.03):
        return self.other() if self.rng.random() < odds else good

    def integers(self, rank):
        body = b"".join(self.maybe(self.number() if rank < 9 else self.integer(1), 0.01) for _ in range(rank))
        return self.maybe(b"(" + body + b"t")

    def storage(self, kind):
        key = self.rng.choice("0001123")
        numel = self.integer(LENGTHS.get(key, 8) // KINDS[kind]) if self.rng.random() < 0.8 else self.number()
        return (
            b"("
            + self.text("storage")
            + b"ctorch\n"
            + kind
            + b"\n"
            + self.text(key)
            + self.text("cpu")
            + self.maybe(numel)
            + (b"N" if self.legacy else b"")
            + b"tQ"
        )

    def geometry(self):
        rank = self.rng.choice(RANKS[:6] if self.rng.random() < 0.7 else RANKS)
        offset = self.integer(0) if self.rng.random() < 0.5 else self.number()
        return (
            self.maybe(offset)
            + self.integers(rank)
            + self.integers(rank if self.rng.random() < 0.9 else self.rng.choice(RANKS))
        )

    def tensor(self):
        rng, hooks = self.rng, b"ccollections\nOrderedDict\n)R"
        kind = rng.choice(list(KINDS))
        flags = self.maybe(rng.choice([b"\x88", b"\x89", b"\x89"])) + self.maybe(hooks)
        metadata = rng.choice([b"", b"", b"}", b"}" + self.text("conj") + b"\x88s", b"}" + self.text("neg") + b"\x88s"])
        if rng.random() < 0.2:
            args = (
                self.storage(kind)
                + self.geometry()
                + flags
                + rng.choice([b"ctorch\nfloat8_e5m2\n", b"ctorch\nint64\n", b"ctorch\nbool\n"])
                + metadata
            )
            body = b"ctorch._utils\n_rebuild_tensor_v3\n(" + args + b"tR"
        elif rng.random() < 0.1:
            body = (
                b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat32\n" + self.geometry()[12:] + b"\x89tR"
            )
        else:
            body = (
                b"ctorch._utils\n_rebuild_tensor_v2\n("
                + self.storage(kind)
                + self.geometry()
                + flags
                + metadata
                + b"tR"
            )
        choice = rng.random()
        if choice < 0.1:
            body = b"ctorch._utils\n_rebuild_parameter\n(" + body + rng.choice([b"\x88", b"\x89"]) + hooks + b"tR"
        elif choice < 0.15:
            body += b"(" + self.storage(kind) + self.geometry() + b"tb"
        elif choice < 0.2:
            body += b"}" + self.text(rng.choice(["note", "item", "data", "__class__"])) + self.other() + b"sb"
        elif choice < 0.3:
            name = rng.choice(
                [
                    b"builtins\nset",
                    b"builtins\nbytearray",
                    b"torch\nSize",
                    b"collections\nCounter",
                    b"builtins\ncomplex",
                    b"torch\ndevice",
                    b"torch\nTensor",
                ]
            )
            body = b"c" + name + b"\n" + body + b"\x85R"
        return body

    def checkpoint(self):
        pickled = b"\x80\x02(]q\x01" + b"".join(self.tensor() for _ in range(self.rng.choice((1, 1, 2, 3)))) + b"t."
        if not self.legacy:
            file = io.BytesIO()
            writer = tessera._C._ZipWriter(file, "archive")
            writer.write_record("data.pkl", pickled)
            for key, length in LENGTHS.items():
                writer.write_record("data/" + key, bytes(length))
            writer.close()
            return file.getvalue()
        heads = [tessera.serialization.MAGIC_NUMBER, tessera.serialization.PROTOCOL_VERSION, {"little_endian": True}]
        keys = [key for key in LENGTHS if b"X\x01\x00\x00\x00" + key.encode() in pickled]
        data = b"".join(pickle.dumps(head, protocol=2) for head in heads) + pickled + pickle.dumps(keys, protocol=2)
        for key in keys:
            kind = next((kind for kind in KINDS if b"ctorch\n" + kind in pickled), b"ByteStorage")
            data += (LENGTHS[key] // KINDS[kind]).to_bytes(8, "little") + bytes(LENGTHS[key])
        return data


def look(value):
    """Reads what was loaded, so that a tensor that leaves its storage is found; gives the number of tensors."""
    if isinstance(value, tuple):
        return sum(map(look, value))
    if not isinstance(value, tessera.Tensor):
        return 0
    assert value.dim() <= 64 and min(value.shape, default=0) >= 0
    if 0 < value.numel() < 1000 and not value.is_meta:
        value.detach().resolve_conj().resolve_neg().tolist()
    return 1


# A tensor of 2^31 elements over eight bytes, lazily negated, that gets another state: found by test_wrong_numbers.
_NEGATED = (
    "c-m`V>f*}zGso?xLe`1^NxcRp-<QllvbK;Rf|r4TAt$q>BqudKH7_MIF|UxZqZlZs5nITZT#{duoS_$AT9TPl%oSghnpB#ZlM-"
    "K&npd1(6kle<rJ)hQ4%A-^RF{~Z3Q^AGR9TW53=!dqU<67VL@)!%<bu*JE)E75@GA-"
    "I;)3%SG{Bq&2&Y5?S*oNnIXOQk2WWg|eqJ$`e^E+mQEG}yW^xIaW>78I?7Y<Uj^dIa;+$iQ(>aU?=agualq8h^!yy(JMqp1AGA8O"
    "F)I$IO>G)H>"
)


def test_a_state_for_what_is_lazily_negated_is_refused():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(pickle.UnpicklingError, match="malformed state of a tensor"):
        tessera.load(io.BytesIO(zlib.decompress(base64.b85decode(_NEGATED))))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


def test_wrong_numbers():
    seconds = float(os.environ.get("TESSERA_FUZZ_SECONDS", "3"))
    seed = int(os.environ.get("TESSERA_FUZZ_SEED", "1"))
    rng = random.Random(seed)
    writers = [Writer(rng, legacy) for legacy in (False, True)]
    end, tensors, refused = time.monotonic() + seconds, [0, 0], 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while time.monotonic() < end:
            writer = rng.choice(writers)
            data = writer.checkpoint()
            signal.alarm(60)
            try:
                tensors[writer.legacy] += look(tessera.load(io.BytesIO(data)))
            except ALLOWED:
                refused += 1
            finally:
                signal.alarm(0)
    assert min(tensors) > 5 and refused > 50, (tensors, refused)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000, (
        "wrong numbers made the loader allocate"
    )  # kB


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
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000, (
        "a damaged file made the loader allocate"
    )  # kB
