"""`weights_only=True`: memory bounded by the file, exact arguments for what may be called, states that hide nothing of
a class.
"""

import collections
import io
import pickle
import resource
import struct

import pytest
import tessera
from tessera import serialization
from tessera._C import _ZipWriter

Refused = (pickle.UnpicklingError, RuntimeError)


def archive(pickled, records=()):
    buffer = io.BytesIO()
    writer = _ZipWriter(buffer, "archive")
    for name, data in [("data.pkl", pickled), ("byteorder", b"little"), *records, ("version", b"3\n")]:
        writer.write_record(name, data)
    writer.close()
    return io.BytesIO(buffer.getvalue())


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def integer(n):
    return b"\x8a\x09" + n.to_bytes(9, "little", signed=True)


def integers(*numbers):
    return b"(" + b"".join(map(integer, numbers)) + b"t"


def tensor(
    size=(2,),
    stride=(1,),
    offset=0,
    numel=2,
    kind=b"FloatStorage",
    key="0",
    requires_grad=b"\x89",
    hooks=b"ccollections\nOrderedDict\n)R",
    rest=b"",
):
    """Opcodes that make one tensor, with any of its numbers replaced."""
    storage = b"(" + text("storage") + b"ctorch\n" + kind + b"\n" + text(key) + text("cpu") + integer(numel) + b"tQ"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + integer(offset)
        + integers(*size)
        + integers(*stride)
        + requires_grad
        + hooks
        + rest
        + b"tR"
    )


def call(name, *arguments):
    return b"c" + name.encode().replace(b" ", b"\n") + b"\n(" + b"".join(arguments) + b"tR"


def load(body, records=(("data/0", bytes(8)),), **options):
    return tessera.load(archive(b"\x80\x02" + body + b".", records), **options)


ZERO_DIM = tensor((), ())
HUGE = tensor((3_000_000,), (0,))  # one element, three million times
NUMBER = tensor((), (), 0, 1, b"LongStorage")
DICT = b"}" + text("a") + b"K\x01s"


def test_the_samples_load():
    assert load(tensor()).tolist() == [0, 0] and load(ZERO_DIM).shape == () and load(HUGE).shape == (3_000_000,)
    assert load(NUMBER).item() == 0
    assert load(call("torch Size", integers(2, 3))) == (2, 3)


@pytest.mark.parametrize(
    "body",
    [
        call("__builtin__ bytearray", tensor((), (), 0, 1, b"LongStorage")),
        call("builtins bytearray", integer(2**31)),
        call("builtins bytearray", HUGE),
        call("builtins bytearray", b"(K\x01K\x02t"),
        call("builtins bytearray", b"\x88"),
        call("__builtin__ set", HUGE),
        call("builtins set", text("abc")),
        call("builtins set", DICT),
        call("torch Size", HUGE),
        call("torch Size", b"(" + HUGE + b"t"),
        call("torch Size", integers(*[1] * 65)),
        call("torch Size", text("ab")),
        call("collections OrderedDict", HUGE),
        call("collections OrderedDict", DICT),
        call("collections OrderedDict", b"(K\x01t"),
        call("collections Counter", HUGE),
        call("collections Counter", text("abc")),
        call("collections Counter", integer(5)),
        call("builtins complex", text("1")),
        call("builtins complex", NUMBER),
        call("builtins complex", ZERO_DIM, ZERO_DIM),
        call("_codecs encode", text("a"), text("rot13")),
        call("_codecs encode", ZERO_DIM),
        call("torch device", integer(0)),
        call("torch device", text("c" * 65)),
        call("torch device", text("cuda"), NUMBER),
        call("torch Tensor", integer(1 << 40)),
        call("torch Tensor", integers(1 << 20, 1 << 20)),
        call("torch memory_format", integer(1)),
        call("torch FloatStorage", integer(1 << 40)),
        call("torch UntypedStorage", integer(1 << 40)),
        call("torch.nn.parameter Parameter", integer(1 << 40)),
        call("torch.nn.parameter Parameter", text("abc")),
        call("torch.nn.parameter Buffer", integer(1 << 40)),
        call("torch.serialization _get_layout", integer(1)),
        call("torch._utils _rebuild_tensor_v2", tensor()),
        call("torch._utils _rebuild_parameter", integer(1), b"\x88", b"}"),
        call("torch._utils _rebuild_parameter", tensor(), integer(1), b"}"),
        call("torch._utils _rebuild_parameter", tensor(), b"\x88", DICT),
        call("torch._utils _rebuild_parameter_with_state", tensor(), b"\x88", b"}", integer(1)),
        call("torch._utils _rebuild_meta_tensor_no_storage", b"ctorch\nfloat32\n", HUGE, b"(t", b"\x89"),
        call("torch._utils _rebuild_device_tensor_from_cpu_tensor", HUGE, b"ctorch\nfloat64\n", text("cpu"), b"\x89"),
        call("torch._utils _rebuild_device_tensor_from_numpy", HUGE, b"ctorch\nfloat64\n", text("cpu"), b"\x89"),
        call("torch._utils _rebuild_sparse_tensor", text("torch.sparse_coo"), b"(t"),
        call(
            "torch._utils _rebuild_wrapper_subclass",
            b"ctorch\nTensor\n",
            b"ctorch\nfloat32\n",
            integers(1),
            integers(1),
            integer(0),
            call("torch.serialization _get_layout", text("torch.strided")),
            text("cpu"),
            b"\x89",
        ),
        call(
            "torch._tensor _rebuild_from_type_v2",
            b"ctorch._utils\n_rebuild_tensor_v2\n",
            b"ctorch\nSize\n",
            b"(t",
            b"N",
        ),
        call(
            "torch._tensor _rebuild_from_type_v2",
            b"ctorch\nTensor\n",
            b"ctorch\nTensor\n",
            b"(\x8a\x05\x00\x00\x00\x00\x40t",
            b"N",
        ),
        tensor(requires_grad=b"K\x01"),
        tensor(requires_grad=NUMBER),
        tensor(hooks=DICT),
        tensor(rest=integer(1)),
        tensor(rest=b"}" + text("conj") + b"K\x01s"),
    ],
    ids=lambda body: repr(body[1:40]),
)
def test_calls_take_what_checkpoints_give_them(body):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        load(body, [("data/0", bytes(8))])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


@pytest.mark.parametrize(
    "name, part",
    [
        ("collections OrderedDict", b"](" + b"K\x01K\x02\x86" * 1000 + b"e"),
        ("builtins set", b"](" + b"".join(integer(i) for i in range(1000)) + b"e"),
        ("builtins bytearray", call("_codecs encode", text("a" * 5000), text("latin1"))),
        ("collections Counter", b"}(" + b"".join(integer(i) + b"K\x01" for i in range(1000)) + b"u"),
        ("torch Size", integers(*[1] * 64)),
        ("_codecs encode", text("a" * 5000)),
    ],
)
def test_copies_are_counted(name, part):
    """A part that is named a hundred thousand times makes no object of a hundred thousand parts."""
    body = part + b"q\x00" + b"c" + name.encode().replace(b" ", b"\n") + b"\nq\x01("
    assert load(body + b"h\x01h\x00\x85R" * 2 + b"t")
    with pytest.raises(pickle.UnpicklingError, match="larger than the file"):
        load(body + b"h\x01h\x00\x85R" * 100_000 + b"t")


def test_converted_tensors_are_counted():
    make = b"ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\nq\x01("
    arguments = b"h\x00ctorch\nfloat64\n" + text("cpu") + b"\x89tq\x02"
    body = tensor((2,)) + b"q\x00" + make + arguments
    assert load(body + b"h\x01h\x02R").dtype is tessera.float64
    big = (("data/0", bytes(4_000_000)),)
    body = tensor((1_000_000,), (1,), 0, 1_000_000) + b"q\x00" + make + arguments + b"("
    with pytest.raises(pickle.UnpicklingError, match="larger than the file"):
        load(body + b"h\x01h\x02R" * 1000 + b"t", big)


def test_the_storages_of_a_stream_are_bounded_together():
    def storage(key, numel):
        return b"(" + text("storage") + b"ctorch\nByteStorage\n" + text(key) + text("cpu") + integer(numel) + b"NtQ"

    head = (
        pickle.dumps(serialization.MAGIC_NUMBER, 2)
        + pickle.dumps(serialization.PROTOCOL_VERSION, 2)
        + pickle.dumps({"little_endian": True}, 2)
    )
    fill = bytes(1_000_000)
    body = b"\x80\x02(" + b"".join(storage(str(i), 900_000) for i in range(1000)) + b"t."
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RuntimeError, match="which the file does not have"):
        tessera.load(io.BytesIO(head + body + fill))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


# ---- states
# -----------------------------------------------------------------------------------------------------------------

HIDING = [
    "item",
    "shape",
    "data",
    "grad",
    "__class__",
    "__dict__",
    "__torch_function__",
    "__anything__",
    "backward",
    "_version",
    "numpy",
]


def state(*names):
    return b"}(" + b"".join(text(name) + b"K\x01" for name in names) + b"u"


@pytest.mark.parametrize("name", HIDING)
def test_a_state_hides_nothing_of_a_tensor(name):
    of_type = [
        b"ctorch._utils\n_rebuild_tensor_v2\n",
        b"ctorch\nTensor\n",
        b"(" + tensor()[tensor().index(b"(") + 1 : -1],
    ]
    assert load(call("torch._tensor _rebuild_from_type_v2", *of_type, state("note"))).note == 1
    assert load(call("torch._utils _rebuild_parameter_with_state", tensor(), b"\x88", b"}", state("note"))).note == 1
    assert load(tensor() + state("note") + b"b").note == 1
    for body in (
        call("torch._tensor _rebuild_from_type_v2", *of_type, state("note", name)),
        call("torch._tensor _rebuild_from_type_v2", *of_type, b"N" + state("note", name) + b"\x86"),
        call("torch._utils _rebuild_parameter_with_state", tensor(), b"\x88", b"}", state("note", name)),
        tensor() + state("note", name) + b"b",
    ):
        with pytest.raises(pickle.UnpicklingError, match="would hide"):
            load(body)


@pytest.mark.parametrize("name", ["items", "keys", "update", "__class__", "move_to_end", "__missing__"])
def test_a_state_hides_nothing_of_a_dict(name):
    ordered = b"ccollections\nOrderedDict\n)R"
    assert load(ordered + state("_metadata") + b"b")._metadata == 1
    with pytest.raises(pickle.UnpicklingError, match="would hide"):
        load(ordered + state(name) + b"b")
    with pytest.raises(pickle.UnpicklingError, match="names"):
        load(ordered + b"}K\x01K\x02sb")


class Allowed:
    default = 1
    __slots__ = ("slot", "__dict__")

    def method(self):
        return "method"

    @property
    def value(self):
        return "value"


class WithSetstate:
    def __setstate__(self, state):
        self.got = state


class Scaled(tessera.Tensor):
    scale = 1

    def method(self):
        return "method"


def test_states_of_allowed_classes():
    new = f"c{__name__}\nAllowed\n)\x81".encode("latin1")
    with serialization.safe_globals([Allowed, WithSetstate, Scaled, tessera.nn.Linear]):
        got = load(new + state("default", "other") + b"b")
        assert got.default == 1 and got.other == 1 and got.method() == "method"
        assert load(new + b"N" + state("slot") + b"\x86b").slot == 1
        for name in ("method", "value", "__class__", "__len__"):
            with pytest.raises(pickle.UnpicklingError, match="would hide"):
                load(new + state(name) + b"b")
        assert load(f"c{__name__}\nWithSetstate\n)\x81".encode("latin1") + state("method") + b"b").got == {"method": 1}
        of_type = [
            b"ctorch._utils\n_rebuild_tensor_v2\n",
            f"c{__name__}\nScaled\n".encode(),
            b"(" + tensor()[tensor().index(b"(") + 1 : -1],
        ]
        assert load(call("torch._tensor _rebuild_from_type_v2", *of_type, state("scale"))).scale == 1
        for name in ("method", "item"):
            with pytest.raises(pickle.UnpicklingError, match="would hide"):
                load(call("torch._tensor _rebuild_from_type_v2", *of_type, state(name)))
        module = b"ctorch.nn.modules.linear\nLinear\n)\x81"
        for name in ("forward", "state_dict"):
            with pytest.raises(pickle.UnpicklingError, match="would hide"):
                load(module + state(name) + b"b")
    with pytest.raises(pickle.UnpicklingError):
        load(new + state("other") + b"b")


def test_modules_of_allowed_classes_load():
    layer = tessera.nn.Linear(3, 2)
    file = io.BytesIO()
    tessera.save(layer, file)
    file.seek(0)
    allowed = [tessera.nn.Linear, (set, "builtins.set")]
    with serialization.safe_globals(allowed):
        got = tessera.load(file)
    assert got.weight.tolist() == layer.weight.tolist() and got(tessera.ones(1, 3)).shape == (1, 2)


# ---- geometry
# ---------------------------------------------------------------------------------------------------------------

GEOMETRIES = [
    ([-1], [1]),
    ([2, -1], [1, 1]),
    ([0, -1], [1, 1]),
    ([2], [1, 1]),
    ([2, 2], [1]),
    ([], [1]),
    ([1], [-1]),
    ([1] * 65, [1] * 65),
    ([1] * 200, [1] * 200),
    ([1] * 256, [1] * 256),
    ([1] * 300, [0] * 300),
    ([2**62, 2**62], [0, 0]),
    ([2], [2**62]),
    ([2**63 - 1], [2**63 - 1]),
]


@pytest.mark.parametrize("size, stride", GEOMETRIES, ids=lambda v: str(v[:3]))
def test_geometries_are_checked_where_tensors_are_made(size, stride):
    """The loader, and every operator below it that takes sizes and strides."""
    with pytest.raises(Refused):
        load(tensor(size, stride))
    base = tessera.ones(4)
    target = tessera.ones(2)
    for make in (
        lambda: base.as_strided(size, stride),
        lambda: base.clone().as_strided_(size, stride),
        lambda: target.set_(base.untyped_storage(), 0, size, stride),
        lambda: target.set_(base, 0, size, stride),
        lambda: tessera._utils._rebuild_tensor_v2(
            tessera.storage._typed(base.untyped_storage(), base.dtype), 0, tuple(size), tuple(stride), False, None
        ),
    ):
        with pytest.raises(RuntimeError):
            make()
    assert target.shape == (2,) and target.tolist() == [1, 1] and base.shape == (4,)
    if (
        len(stride) > len(size)
        or max(size, default=0) < 2**60
        and max(stride) < 2**60
        and (min(size) < 0 or min(stride) < 0 or len(size) != len(stride) or len(size) > 64)
    ):
        for device in ("cpu", "meta"):
            with pytest.raises(RuntimeError):
                tessera.empty_strided(size, stride, device=device)


@pytest.mark.parametrize("dims", [65, 128, 200, 255, 256, 300, 1000])
def test_tensors_have_64_dimensions_at_most(dims):
    x = tessera.ones(2)
    for make in (
        lambda: tessera.ones([1] * dims),
        lambda: tessera.zeros([1] * dims, device="meta"),
        lambda: x.view([1] * (dims - 1) + [2]),
        lambda: x.expand([1] * (dims - 1) + [2]),
        lambda: x.reshape([1] * (dims - 1) + [2]),
        lambda: tessera.empty(0).resize_([1] * dims),
        lambda: x.repeat([1] * dims),
        lambda: tessera.rand([1] * dims),
        lambda: x.new_full([1] * dims, 1.0),
        lambda: x.broadcast_to([1] * (dims - 1) + [2]),
        lambda: x.unflatten(0, [1] * (dims - 1) + [2]),
    ):
        with pytest.raises(RuntimeError, match="dim"):
            make()


def test_64_dimensions_work():
    x = tessera.ones([1] * 63 + [2])
    assert (
        x.dim() == 64
        and (x + x).sum().item() == 4
        and x.sum(list(range(64))).item() == 2
        and x.permute(list(range(64))[::-1]).shape[0] == 2
    )
    assert load(tensor([1] * 64, [1] * 64)).dim() == 64
    with pytest.raises(RuntimeError, match="up to 64 dims"):
        x.unsqueeze(0)
    with pytest.raises(RuntimeError, match="up to 64 dims"):
        tessera.stack([x, x])


def test_states_of_old_tensors():
    """PyTorch 0.4 gave tensors their storage by BUILD."""
    storage = tensor()[tensor().index(b"(") + 1 : tensor().index(b"Q") + 1]
    assert load(tensor((1,)) + b"(" + storage + integer(0) + integers(2) + integers(1) + b"tb").shape == (2,)
    for bad in (
        storage + integer(0) + integers(3) + integers(1),
        storage + integer(-1) + integers(2) + integers(1),
        storage + integer(0) + integers(2) + integers(1, 1),
        storage + integer(0) + integers(*[1] * 200) + integers(*[1] * 200),
        storage + NUMBER + integers(2) + integers(1),
        integer(1) * 4,
    ):
        with pytest.raises(Refused):
            load(tensor((1,)) + b"(" + bad + b"tb")
    assert collections.Counter(load(call("collections Counter", DICT))) == {"a": 1}
