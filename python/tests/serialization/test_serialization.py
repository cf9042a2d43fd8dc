"""save and load: contents, sharing, the restricted unpickler, corrupted and hostile files."""

import collections
import copy
import io
import os
import pickle
import pickletools
import random
import struct
import types
import zipfile

import pytest
import tessera
from tessera import serialization
from tessera._weights_only_unpickler import Unpickler
from tessera._C import _ZipReader as ZipReader, _ZipWriter as ZipWriter


def packed(obj, **kwargs):
    buffer = io.BytesIO()
    tessera.save(obj, buffer, **kwargs)
    return buffer.getvalue()


def round_trip(obj, load=None, **kwargs):
    return tessera.load(io.BytesIO(packed(obj, **kwargs)), **(load or {}))


def archive(pickled, records=()):
    buffer = io.BytesIO()
    writer = ZipWriter(buffer, "archive")
    for name, data in [("data.pkl", pickled), ("byteorder", b"little"), *records, ("version", b"3\n")]:
        writer.write_record(name, data)
    writer.close()
    return io.BytesIO(buffer.getvalue())


def tensor_pickle(numel=2, offset=b"K\x00", size=b"K\x02\x85", stride=b"K\x01\x85", kind=b"FloatStorage", key=b"0"):
    """The pickle of one tensor, with any of its numbers replaced."""
    head = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n" + kind + b"\nX"
    head += (
        struct.pack("<I", len(key))
        + key
        + b"X\x03\x00\x00\x00cpu\x8a\x09"
        + numel.to_bytes(9, "little", signed=True)
        + b"tQ"
    )
    return head + offset + size + stride + b"\x89ccollections\nOrderedDict\n)RtR."


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("zipped", [True, False])
def test_containers_and_tensors(protocol, zipped):
    obj = collections.OrderedDict(
        a=tessera.arange(6).reshape(2, 3).t(),
        b=[1, 2.5, "s", None, True, 2**80],
        c=(tessera.float16, {"k": 1j}),
        d=tessera.Size([2, 3]),
        e={1, 2},
        f=tessera.device("cpu"),
    )
    got = round_trip(obj, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    assert list(got) == list(obj) and got["a"].tolist() == obj["a"].tolist() and got["a"].stride() == (1, 3)
    assert got["b"] == obj["b"] and got["c"][0] is tessera.float16 and got["c"][1] == {"k": 1j}
    assert (
        got["d"] == (2, 3)
        and type(got["d"]) is tessera.Size
        and got["e"] == {1, 2}
        and got["f"] == tessera.device("cpu")
    )


def test_names_in_the_file_are_pytorchs():
    data = zipfile.ZipFile(
        io.BytesIO(packed([tessera.ones(2), tessera.int8, tessera.Size([1]), "ctessera.x\ny\n"]))
    ).read("archive/data.pkl")
    found = {arg for op, arg, _ in pickletools.genops(data) if op.name == "GLOBAL"}
    assert found == {
        "torch._utils _rebuild_tensor_v2",
        "torch FloatStorage",
        "collections OrderedDict",
        "torch int8",
        "torch Size",
    }
    assert round_trip("ctessera.x\ny\n") == "ctessera.x\ny\n"


def test_records_are_aligned_and_complete(tmp_path):
    path = tmp_path / "model.pt"
    tessera.save([tessera.ones(3), tessera.zeros(5)], path)
    names = zipfile.ZipFile(path).namelist()
    assert names[0] == "model/data.pkl" and {
        "model/byteorder",
        "model/version",
        "model/data/0",
        "model/data/1",
        "model/.data/serialization_id",
    } <= set(names)
    assert zipfile.ZipFile(path).testzip() is None
    with open(path, "rb") as file:
        reader = ZipReader(file)
        assert all(reader.record_offset(name) % 64 == 0 for name in reader.names())


def test_sharing_inside_one_file():
    x = tessera.arange(1.0, 10.0)
    a, b = round_trip([x, x[1:8:2]])
    b *= 2
    assert a.tolist() == [1, 4, 3, 8, 5, 12, 7, 16, 9]
    assert round_trip(tessera.arange(99)[:5]).untyped_storage().nbytes() == 99 * 8


def test_two_dtypes_on_one_storage_are_refused():
    x = tessera.ones(4)
    with pytest.raises(RuntimeError, match="different types"):
        packed([x, x.view(tessera.int32)])


def test_requires_grad_and_attributes():
    x = tessera.ones(2, requires_grad=True)
    assert round_trip(x).requires_grad
    y = tessera.ones(2)
    y.note = "n"
    assert round_trip(y).note == "n"


@pytest.mark.parametrize("zipped", [True, False])
def test_conjugate_and_negative_bits(zipped):
    z = tessera.tensor([1 + 2j, 3 - 4j])
    negative = z.conj().imag
    leaf = tessera.tensor([5 + 6j]).conj().detach().requires_grad_()
    assert negative.is_neg() and leaf.is_conj()
    for got in (round_trip([negative, leaf], _use_new_zipfile_serialization=zipped), copy.deepcopy([negative, leaf])):
        assert got[0].is_neg() and got[0].tolist() == [-2, 4]
        assert got[1].is_conj() and got[1].is_leaf and got[1].requires_grad and got[1].tolist() == leaf.tolist()


def test_map_location_forms():
    x = tessera.ones(2)
    for where in (
        "cpu",
        tessera.device("cpu"),
        {"cpu": "cpu"},
        lambda storage, location: storage,
        lambda storage, location: None,
    ):
        assert round_trip(x, load={"map_location": where}).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="foo"):
        round_trip(x, load={"map_location": "foo"})


def test_mmap_reads_private_pages(tmp_path):
    path = tmp_path / "m.pt"
    tessera.save(tessera.arange(4), path)
    x = tessera.load(path, mmap=True)
    x += 1
    assert x.tolist() == [1, 2, 3, 4] and tessera.load(path).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="mmap"):
        round_trip(1, load={"mmap": True})


def test_big_endian_checkpoint():
    file = archive(tensor_pickle(), [("data/0", struct.pack(">2f", 1.0, 2.0))])
    raw = file.getvalue().replace(b"little", b"big\x00\x00\x00")
    assert tessera.load(io.BytesIO(raw.replace(b"big\x00\x00\x00", b"little"))).tolist() != [1.0, 2.0]
    buffer = io.BytesIO()
    writer = ZipWriter(buffer, "archive")
    for name, data in (("data.pkl", tensor_pickle()), ("byteorder", b"big"), ("data/0", struct.pack(">2f", 1.0, 2.0))):
        writer.write_record(name, data)
    writer.close()
    assert tessera.load(io.BytesIO(buffer.getvalue())).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("mapped", [False, True])
def test_big_endian_checkpoints_of_each_dtype(tmp_path, mapped):  # that has a storage class of its own
    """As a machine of the other order writes them: every element's bytes (of complex numbers each part's) reversed."""
    half_parts = {tessera.complex64: 4, tessera.complex128: 8}
    for dtype in (tessera.float64, tessera.float16, tessera.bfloat16, tessera.int16, tessera.int64, tessera.uint8,
                  tessera.bool, *half_parts):  # fmt: skip
        x = tessera.arange(6).to(dtype)
        plain = zipfile.ZipFile(io.BytesIO(packed([x, x[2:]])))
        root = plain.namelist()[0].split("/")[0]
        width = half_parts.get(dtype, x.element_size())
        bytes_of = {name: plain.read(name) for name in plain.namelist()}
        values = bytes_of[f"{root}/data/0"]
        bytes_of[f"{root}/data/0"] = b"".join(values[i : i + width][::-1] for i in range(0, len(values), width))
        for order in (b"big", None):  # None: before the order was recorded
            path = tmp_path / "big.pt"
            with zipfile.ZipFile(path, "w") as out:
                for name, data in bytes_of.items():
                    if not name.endswith("/byteorder"):
                        out.writestr(name, data)
                    elif order:
                        out.writestr(name, order)
            tessera.serialization.set_default_load_endianness(
                None if order else tessera.serialization.LoadEndianness.BIG
            )
            try:
                a, b = tessera.load(path, mmap=mapped)
            finally:
                tessera.serialization.set_default_load_endianness(None)
            assert a.dtype == dtype and a.tolist() == x.tolist() and b.tolist() == x[2:].tolist()


def test_compressed_archives_load():
    plain = zipfile.ZipFile(io.BytesIO(packed(tessera.arange(1000))))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        for name in plain.namelist():
            out.writestr(name, plain.read(name))
    assert tessera.load(io.BytesIO(buffer.getvalue())).tolist() == list(range(1000))


class Custom:
    def __init__(self):
        self.value = 3


def test_weights_only_refuses_and_safe_globals_allow():
    with pytest.raises(
        pickle.UnpicklingError, match="Unsupported global: GLOBAL .*Custom was not an allowed global by default"
    ):
        round_trip(Custom())
    with serialization.safe_globals([Custom]):
        assert Custom in serialization.get_safe_globals() and round_trip(Custom()).value == 3
    assert Custom not in serialization.get_safe_globals()
    assert round_trip(Custom(), load={"weights_only": False}).value == 3
    rnn = tessera.nn.LSTM(2, 3)
    with serialization.safe_globals([tessera.nn.LSTM, getattr]):
        assert tessera.equal(round_trip(rnn).all_weights[0][0], rnn.weight_ih_l0)
    assert serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(packed(Custom()))) == [f"{__name__}.Custom"]


@pytest.mark.parametrize(
    "stream",
    [
        b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
        b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.",
        b"\x80\x02ctorch\nload\nX\x01\x00\x00\x00f\x85R.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}X\x08\x00\x00\x00__code__Ns\x86b.",  # BUILD on a function
        b"\x80\x02ctorch\nTensor\nN}X\x04\x00\x00\x00evilK\x01s\x86b.",  # BUILD on a class
        b"\x80\x02cbuiltins\nbytearray\n\x8a\x06\xff\xff\xff\xff\xff\x00\x85R.",
        b"\x80\x02]r\xff\xff\xff\x7f.X",  # a memo index of 2 GiB is only a key
        b"\x80\x02X\xff\xff\xff\xffa.",
        b"\x80\x02K\x01\x85R.",
        b"\x80\x02a.",
        b"\x80\x02",
        b"\x80\x63.",
        b"\x80\x02h\x07.",
        b"\x80\x02(.",
        b"\x80\x02)" + b"\x85" * 100000 + b"}\x8c\x00s.",
    ],
)
def test_hostile_pickles(stream):
    if stream.endswith(b".X"):
        assert Unpickler(stream[:-1], None).load() == []
        return
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        tessera.load(archive(stream))


def test_deep_tuples_do_not_overflow_the_stack():
    with pytest.raises(pickle.UnpicklingError):
        tessera.load(archive(b"\x80\x02}" + b")" + b"\x85" * 1000000 + b"K\x01s."))
    deep = tessera.load(archive(b"\x80\x02" + b"](" * 50000 + b"e" * 50000 + b"."))
    assert isinstance(deep, list)


@pytest.mark.parametrize(
    "changes",
    [
        dict(numel=3),
        dict(numel=-1),
        dict(numel=2**62),
        dict(offset=b"K\x01"),
        dict(offset=b"J\xff\xff\xff\xff"),
        dict(size=b"K\x03\x85"),
        dict(size=b"J\xfe\xff\xff\xff\x85"),
        dict(stride=b"K\x02\x85"),
        dict(stride=b"J\xff\xff\xff\xff\x85"),
        dict(size=b"K\x02K\x02\x86"),
        dict(
            size=b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x86",
            stride=b"K\x00K\x00\x86",
        ),
        dict(size=b"X\x01\x00\x00\x00a\x85"),
        dict(kind=b"NopeStorage"),
        dict(key=b"1"),
        dict(key=b"../0"),
        dict(size=b"N"),
    ],
)
def test_tensors_that_leave_their_storage(changes):
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        tessera.load(archive(tensor_pickle(**changes), [("data/0", bytes(8))]))


def test_broken_archives():
    data = packed({"w": tessera.ones(3)})
    for broken in (data[:-30], data[:100], data[10:], b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"not a checkpoint"):
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            tessera.load(io.BytesIO(broken))
    with pytest.raises(EOFError):
        tessera.load(io.BytesIO(b""))


def test_random_damage_never_escapes():
    rng = random.Random(0)
    seeds = [
        packed({"w": tessera.ones(2, 2), "n": [1, "x"]}, _use_new_zipfile_serialization=zipped)
        for zipped in (True, False)
    ]
    allowed = (pickle.UnpicklingError, RuntimeError, EOFError, ValueError)
    refused = 0
    for _ in range(2000):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.choice((1, 1, 3, 10))):
            at = rng.randrange(len(data))
            if rng.random() < 0.5:
                data[at] = rng.randrange(256)
            else:
                data[at : at + rng.randrange(4)] = bytes(
                    rng.choices(b"\x85\x86)](}tRQbsu.\xff\x00", k=rng.randrange(4))
                )
        try:
            tessera.load(io.BytesIO(bytes(data)))
        except allowed:
            refused += 1
    assert 200 < refused < 2000


def test_bad_arguments(tmp_path):
    with pytest.raises(FileNotFoundError):
        tessera.load(tmp_path / "missing.pt")
    with pytest.raises(RuntimeError, match="does not exist"):
        tessera.save(1, tmp_path / "no" / "file.pt")
    with pytest.raises(AttributeError, match="write"):
        tessera.save(1, 3)
    with pytest.raises(AttributeError, match="seekable"):
        tessera.load(3)
    with pytest.raises(RuntimeError, match="pickle_module"):
        tessera.load(io.BytesIO(packed(1)), pickle_module=pickle, weights_only=True)


def test_failing_pickle_leaves_no_file(tmp_path):
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        tessera.save(lambda: 0, tmp_path / "f.pt")
    assert not os.path.exists(tmp_path / "f.pt")


def test_storage_types_by_name():
    kind = tessera.serialization.StorageType("FloatStorage")
    assert kind.dtype is tessera.float32 and "float32" in repr(kind)
    assert tessera.FloatStorage.dtype is tessera.float32 and tessera.LongStorage([1]).dtype is tessera.int64
    for name in ("Float", "NoSuchStorage", "Storage"):
        with pytest.raises(ValueError, match="is not the name of a storage class"):
            tessera.serialization.StorageType(name)


def test_versions_of_modules_are_compared():
    module = types.ModuleType("sample")
    compare = tessera.serialization.check_module_version_greater_or_equal
    module.__version__ = "1.10.0a"
    assert compare(module, (1, 9)) and compare(module, (1, 10)) and not compare(module, (2,))
    assert compare(module, (1, 10, "0a")) and not compare(module, (1, 11))
    for wanted in ((1, 10, 0), (1, 10, "0a", 1)):
        with pytest.raises(RuntimeError, match=r"the version '1\.10\.0a' of 'sample' can't be compared"):
            compare(module, wanted)
        with pytest.warns(UserWarning, match="taken as new enough"):
            assert compare(module, wanted, error_if_malformed=False)


def test_helpers_for_folders_and_missing_devices():
    with tessera.serialization.mkdtemp() as folder:
        tessera.save(tessera.ones(1), os.path.join(folder, "a.pt"))
    assert not os.path.exists(folder)
    with pytest.raises(RuntimeError, match=r"data for the device 'hpu:1'.*map_location='cpu'"):
        tessera.serialization.validate_hpu_device("hpu:1")
    storage = tessera.ones(2).untyped_storage()
    assert not storage.is_hpu and tessera.ones(2)._typed_storage().resizable()
    for move in (storage.hpu, storage.mps):
        with pytest.raises(RuntimeError, match="no library for device"):
            move()


def test_storages_are_cast_to_small_floats():
    storage = tessera.tensor([1.0, 300.0])._typed_storage()
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"):
        small = getattr(storage, name)()
        assert small.dtype is getattr(tessera, name) and len(small) == 2 and small[0] == 1.0
        assert len(getattr(storage.untyped(), name)()) == 8


def test_names_that_begin_with_the_package():
    """As PyTorch writes memory formats under protocol 4: a dotted name in the module where it met the package."""
    pickled = (
        b"\x80\x04]\x94(\x8c\x0ctorch._utils\x94\x8c\x13torch.channels_last\x94\x93\x94\x8c\x13torch.serialization\x94"
        b"\x8c\x0b_get_layout\x94\x93\x94\x8c\rtorch.strided\x94\x85\x94R\x94e."
    )
    value = tessera.load(archive(pickled), weights_only=False)
    assert value == [tessera.channels_last, tessera.strided]


def test_a_location_that_is_none():
    file = io.BytesIO()
    tessera.save(tessera.ones(1), file)
    with pytest.raises(TypeError, match="map_location"):
        tessera.load(io.BytesIO(file.getvalue()), map_location=3)
