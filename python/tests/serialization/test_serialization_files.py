"""What `save` does to files, and what `load` finds in damaged ones: whole replacement, permissions, links,
checksums.
"""

import io
import os
import pathlib
import random
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile
import zlib

import pytest
import tessera
from tessera import serialization
from tessera._C import _FileSink, _ZipReader, _ZipWriter

TESTDATA = pathlib.Path(__file__).parents[3] / "serialization" / "testdata"
FORMATS = pytest.mark.parametrize("zipped", [True, False])


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


# ---- save
# -------------------------------------------------------------------------------------------------------------------


@FORMATS
def test_a_users_file_beside_is_left_alone(tmp_path, zipped):
    path, other = tmp_path / "m.pt", tmp_path / "m.pt.tmp"
    other.write_text("mine")
    tessera.save([1], path, _use_new_zipfile_serialization=zipped)
    tessera.save([2], path, _use_new_zipfile_serialization=zipped)
    assert tessera.load(path) == [2] and other.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["m.pt", "m.pt.tmp"]


@FORMATS
def test_links_stay(tmp_path, zipped):
    (tmp_path / "real").mkdir()
    real, link, dangling = tmp_path / "real" / "m.pt", tmp_path / "link.pt", tmp_path / "dangling.pt"
    tessera.save([1], real)
    link.symlink_to("real/m.pt")
    dangling.symlink_to("real/new.pt")
    for target in (link, dangling):
        tessera.save([2], target, _use_new_zipfile_serialization=zipped)
        assert target.is_symlink() and tessera.load(target) == [2]
    assert sorted(os.listdir(tmp_path / "real")) == ["m.pt", "new.pt"] and not real.is_symlink()


@FORMATS
def test_permissions_are_those_of_open(tmp_path, zipped):
    path = tmp_path / "m.pt"
    before = os.umask(0o027)
    try:
        tessera.save([1], path, _use_new_zipfile_serialization=zipped)
    finally:
        os.umask(before)
    assert mode_of(path) == 0o640
    for mode in (0o600, 0o664):
        os.chmod(path, mode)
        tessera.save([2], path, _use_new_zipfile_serialization=zipped)
        assert mode_of(path) == mode


@FORMATS
def test_pipes_are_written_directly(tmp_path, zipped):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    tessera.save({"x": tessera.arange(3)}, pipe, _use_new_zipfile_serialization=zipped)
    reader.join()
    assert tessera.load(io.BytesIO(got[0]))["x"].tolist() == [0, 1, 2]
    assert stat.S_ISFIFO(os.stat(pipe).st_mode) and os.listdir(tmp_path) == ["pipe"]


def test_standard_output():
    program = "import tessera; tessera.save([tessera.ones(2)], '/dev/stdout')"
    out = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout
    assert tessera.load(io.BytesIO(out))[0].tolist() == [1, 1]


@FORMATS
def test_a_failing_write_leaves_the_old_file(tmp_path, zipped):
    """The disk is full: files may not grow beyond 1 MiB."""
    path = tmp_path / "m.pt"
    tessera.save([1], path)
    old = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
        with pytest.raises(RuntimeError, match="can't write .*m.pt.*too large"):
            tessera.save(tessera.zeros(1 << 20), path, _use_new_zipfile_serialization=zipped)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == old and os.listdir(tmp_path) == ["m.pt"]


@FORMATS
def test_a_kill_leaves_a_whole_file(tmp_path, zipped):
    path = tmp_path / "m.pt"
    program = f"""
import itertools, tessera
print("ready", flush=True)
for i in itertools.count():
    x = tessera.full((1 << 20,), i, dtype=tessera.int32)
    tessera.save(x, {str(path)!r}, _use_new_zipfile_serialization={zipped})
    print(i, flush=True)
"""
    rng = random.Random(1)
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout.readline() == "ready\n" and child.stdout.readline() == "0\n"
            time.sleep(rng.random() * 0.1)
            child.kill()
        x = tessera.load(path)
        assert x.numel() == 1 << 20 and bool((x == x[0]).all())


def has_nameless_files(folder):
    try:
        os.close(os.open(folder, os.O_WRONLY | os.O_TMPFILE))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("exists", [True, False])
def test_a_kill_while_writing_leaves_nothing_behind(tmp_path, exists):
    """Where the file system has files without names; else one with a name that tells whose it is."""
    path = tmp_path / "m.pt"
    if exists:
        path.write_bytes(b"old")
    program = f"""
import sys
from tessera._C import _FileSink
sink = _FileSink({str(path)!r})
sink.write(b"half" * (1 << 20))
print("written", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "written\n"
        child.kill()
    left = [name for name in os.listdir(tmp_path) if name != "m.pt"]
    if has_nameless_files(tmp_path):
        assert left == []
    else:
        assert len(left) == 1 and left[0].startswith(".m.pt.") and left[0].endswith(".tmp")
    assert path.exists() == exists and (not exists or path.read_bytes() == b"old")


def test_an_error_in_the_middle_removes_what_was_written(tmp_path):
    path = tmp_path / "m"
    with pytest.raises(ZeroDivisionError), _FileSink(path) as sink:
        sink.write(b"half")
        1 / 0
    assert os.listdir(tmp_path) == []
    with pytest.raises(RuntimeError, match="closed"):
        sink.write(b"more")
    with _FileSink(os.fsencode(path)) as sink:
        assert sink.write(bytearray(b"whole")) == 5
    assert path.read_bytes() == b"whole"
    with pytest.raises(TypeError):
        _FileSink(3)


def test_saving_over_a_mapped_file(tmp_path):
    path = tmp_path / "m.pt"
    tessera.save(tessera.arange(1000), path)
    x = tessera.load(path, mmap=True)
    tessera.save(x + 1, path)
    assert x.tolist() == list(range(1000)) and tessera.load(path)[0] == 1


class Short:
    """A file object that writes and reads less than it is asked for."""

    def __init__(self, data=b""):
        self.data, self.position = bytearray(data), 0

    def write(self, data):
        self.data += bytes(data[:1000])
        return min(len(data), 1000)

    def tell(self):
        return self.position

    def seek(self, position, whence=0):
        self.position = position + (0, self.position, len(self.data))[whence]

    def read(self, n=-1):
        data = bytes(self.data[self.position :][: n if n < 0 else min(n, 1000)])
        self.position += len(data)
        return data


def test_file_objects_of_other_kinds():
    x = tessera.arange(5000)
    file = Short()
    tessera.save(x, file)
    assert tessera.load(Short(file.data)).tolist() == x.tolist()

    class Failing(Short):
        def write(self, data):
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        tessera.save(x, Failing())

    kept = []

    class Keeping(io.BytesIO):
        """Keeps what it was given to read into and to write."""

        def readinto(self, view):
            kept.append(view)
            return super().readinto(view)

        def write(self, data):
            kept.append(data)
            return super().write(data)

    assert tessera.load(Keeping(bytes(file.data))).tolist() == x.tolist()
    assert b"".join(kept) == bytes(tessera.arange(5000).untyped_storage())
    kept.clear()
    out = Keeping()
    tessera.save(tessera.arange(5000), out)
    assert b"".join(kept) == out.getvalue()


# ---- checksums
# --------------------------------------------------------------------------------------------------------------


def flip(data, position):
    data = bytearray(data)
    data[position] ^= 0x20
    return bytes(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_flipped_byte_does_not_load(tmp_path, method):
    path = tmp_path / "m.pt"
    tessera.save({"weight": tessera.arange(100_000)}, path)
    if method == zipfile.ZIP_DEFLATED:
        plain = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
        with zipfile.ZipFile(path, "w", method) as out:
            for name in plain.namelist():
                out.writestr(name, plain.read(name))
    good = path.read_bytes()
    archive = zipfile.ZipFile(io.BytesIO(good))
    for record in ("data.pkl", "data/0"):
        info = archive.getinfo(f"m/{record}")
        lengths = good[info.header_offset + 26 : info.header_offset + 30]
        begin = info.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        for position in (begin + info.compress_size // 3, begin + info.compress_size * 2 // 3):
            bad = flip(good, position)
            path.write_bytes(bad)
            for weights_only in (True, False):
                for source in (path, io.BytesIO(bad)):
                    with pytest.raises(RuntimeError, match="PytorchStreamReader failed reading"):
                        tessera.load(source, weights_only=weights_only)
            if method == zipfile.ZIP_DEFLATED:
                continue
            if record == "data.pkl":
                with pytest.raises(RuntimeError, match="checksum of record data.pkl"):
                    tessera.load(path, mmap=True)
            else:  # as documented: the data are not read
                assert tessera.load(path, mmap=True)["weight"].shape == (100_000,)


def test_files_without_checksums_load(tmp_path):
    path = tmp_path / "m.pt"
    serialization.set_crc32_options(False)
    try:
        tessera.save(tessera.arange(5), path)
    finally:
        serialization.set_crc32_options(True)
    assert {info.CRC for info in zipfile.ZipFile(path).infolist()} == {0}
    assert tessera.load(path).tolist() == [0, 1, 2, 3, 4]
    tessera.save(tessera.arange(5), path)
    archive = zipfile.ZipFile(path)
    assert archive.testzip() is None and 0 not in {info.CRC for info in archive.infolist()}


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, (256 << 10) - 1, 256 << 10, (256 << 10) + 1, 1_000_003])
def test_checksums_are_zlibs(tmp_path, size):
    data = random.Random(size).randbytes(size)
    for target in (io.BytesIO(), tmp_path / "z"):
        sink = target if isinstance(target, io.BytesIO) else _FileSink(target)
        writer = _ZipWriter(sink, "a")
        assert writer.write_record("r", data) == zlib.crc32(data)
        writer.close()
        if sink is target:
            target.seek(0)
            assert _ZipReader(target).read("r") == data
        else:
            sink.close()
            with open(target, "rb") as file:
                reader = _ZipReader(file, file.fileno())
                assert reader.read("r") == data and reader.size == os.path.getsize(target)
                assert zipfile.ZipFile(target).read("a/r") == data


# ---- files that PyTorch wrote
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["legacy.pt", "unchecked.pt"])
def test_files_of_pytorch(name):
    """legacy.pt: _use_new_zipfile_serialization=False; unchecked.pt: after set_crc32_options(False)."""
    for options in ({}, {"weights_only": False}, {"mmap": True}):
        if options.get("mmap") and name == "legacy.pt":
            continue
        got = tessera.load(TESTDATA / name, **options)
        assert got["base"].tolist() == tessera.arange(12.0).view(3, 4).tolist()
        assert (
            got["view"].stride() == (1, 4)
            and got["row"].untyped_storage()._cdata == got["base"].untyped_storage()._cdata
        )
        assert got["conj"].is_conj() and got["conj"].tolist() == [1 - 2j]
        assert isinstance(got["param"], tessera.nn.Parameter) and got["param"].tag == "t"
        assert got["size"] == (2, 3) and got["set"] == {1, 2} and got["bytes"] == b"a\xff" and got["counter"]["a"] == 2
        assert (
            got["device"] == tessera.device("cpu") and got["dtype"] is tessera.int8 and got["layout"] is tessera.strided
        )
        assert got["half"].dtype is tessera.float16 and got["epoch"] == 3
        assert isinstance(got["buffer"], tessera.nn.Buffer) and got["buffer"].persistent


def test_storages_know_the_file_that_they_share(tmp_path):
    path = str(tmp_path / "shared")
    tensor = tessera.from_file(path, shared=True, size=4)
    assert tensor.untyped_storage().filename == path and tensor[1:].untyped_storage().filename == path
    assert tessera.UntypedStorage.from_file(path, shared=True, nbytes=8).filename == path
    assert tessera.UntypedStorage.from_file(path, shared=False, nbytes=8).filename is None
    assert tessera.ones(2).untyped_storage().filename is None
