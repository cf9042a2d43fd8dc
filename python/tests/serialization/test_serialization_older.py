"""Files that older versions wrote: streams, in which the bytes come behind the objects, and archives of PyTorch 0.1."""

import io
import pickle
import struct
import tarfile

import pytest
import tessera


def stream_of(obj):
    file = io.BytesIO()
    tessera.save(obj, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_sparse_tensors_in_streams(layout, weights_only):
    x = tessera.eye(4) * 3
    blocks = ((2, 2),) if layout in ("bsr", "bsc") else ()
    sparse = x.to_sparse() if layout == "coo" else getattr(x, f"to_sparse_{layout}")(*blocks)
    back = tessera.load(io.BytesIO(stream_of({"a": sparse})), weights_only=weights_only)["a"]
    assert back.layout == sparse.layout and back.to_dense().equal(x)


def test_members_in_streams_are_checked_when_their_bytes_are_there():
    data = stream_of(tessera.eye(4).to_sparse())
    indices = struct.pack("<4q", 0, 1, 2, 3)
    assert data.count(indices) == 2 or indices + indices in data
    broken = data.replace(indices, struct.pack("<4q", 0, 1, 2, 77))
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        tessera.load(io.BytesIO(broken))


def test_jagged_tensors_with_what_pytorch_adds_to_them():
    from tessera._dynamo.decorators import _DimRange

    jagged = tessera.nested.nested_tensor([tessera.ones(2, 3), tessera.zeros(1, 3)], layout=tessera.jagged)
    jagged._offsets._dynamo_dynamic_range = {_DimRange(0, None, 5)}
    file = io.BytesIO()
    tessera.save(jagged, file)
    for weights_only in (True, False):
        file.seek(0)
        back = tessera.load(file, weights_only=weights_only)
        assert [t.tolist() for t in back.unbind()] == [t.tolist() for t in jagged.unbind()]
        assert back._offsets._dynamo_dynamic_range == {_DimRange(0, None, 5)}
    function, (rebuild, cls, parts, _) = jagged.__reduce_ex__(2)
    again = function(rebuild, cls, parts, {"_values": 5, "note": 7})  # as attributes PyTorch repeats the parts
    assert again.values().shape == (3, 3) and again.note == 7


class Key:
    def __init__(self, number):
        self.number = str(number)


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return obj.number if isinstance(obj, Key) else None


def old_archive(offset=1, leave_out=()):
    """{"a": all of a float storage, "b": two numbers of an integer one, "c": a view of the first}"""
    floats, numbers = struct.pack("<12f", *range(12)), struct.pack("<6q", *range(6))
    storages, tensors, objects = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pickle.dump(2, storages, 2)
    for key, data, size, cls in ((10, floats, 12, tessera.FloatStorage), (20, numbers, 6, tessera.LongStorage)):
        pickle.dump((key, "cpu", cls), storages, 2)
        storages.write(struct.pack("<q", size) + data)
    pickle.dump([(30, 10, 4, 4)], storages, 2)
    pickle.dump(3, tensors, 2)
    for key, storage, sizes, strides, first in (
        (1, 10, (3, 4), (4, 1), 0),
        (2, 20, (2,), (2,), offset),
        (3, 30, (4,), (1,), 0),
    ):
        pickle.dump((key, storage, tessera.Tensor), tensors, 2)
        dims = len(sizes)
        tensors.write(struct.pack(f"<i4x{2 * dims + 1}q", dims, *sizes, *strides, first))
    Pickler(objects, 2).dump({"a": Key(1), "b": [Key(2), 5], "c": Key(3)})
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:", format=tarfile.USTAR_FORMAT) as archive:
        for name, file in (("pickle", objects), ("tensors", tensors), ("storages", storages)):
            if name not in leave_out:
                info = tarfile.TarInfo(name)
                info.size = len(file.getvalue())
                archive.addfile(info, io.BytesIO(file.getvalue()))
    return made


def test_archives_of_the_first_version():
    made = old_archive()
    made.seek(0)
    back = tessera.load(made, weights_only=False)
    assert back["a"].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert back["b"][0].tolist() == [1, 3] and back["b"][0].dtype == tessera.int64 and back["b"][1] == 5
    assert back["c"].tolist() == [4, 5, 6, 7]
    made.seek(0)
    assert tessera.load(made, map_location="meta", weights_only=False)["a"].is_meta
    made.seek(0)
    with pytest.raises(RuntimeError, match=r"Cannot use ``weights_only=True`` with files saved in the legacy .tar"):
        tessera.load(made)


@pytest.mark.parametrize("options", [dict(offset=4), dict(offset=-1), dict(leave_out=["tensors"])])
def test_archives_of_the_first_version_that_do_not_fit(options):
    made = old_archive(**options)
    made.seek(0)
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        tessera.load(made, weights_only=False)


def test_archives_of_the_first_version_that_end_early():
    data = old_archive().getvalue()
    for end in range(600, len(data.rstrip(b"\0")) - 20, 397):
        cut = io.BytesIO(data[:end])
        with pytest.raises((RuntimeError, EOFError, KeyError, pickle.UnpicklingError, tarfile.TarError)):
            tessera.load(cut, weights_only=False)
