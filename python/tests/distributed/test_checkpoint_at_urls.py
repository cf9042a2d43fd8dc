"""Checkpoints at URLs, by the package fsspec: the real one where it is installed, else one that knows folders."""

import importlib.machinery
import importlib.util
import os
import shutil
import sys
import types

import pytest
import ranks
import tessera
import tessera.distributed.checkpoint as dcp
from tessera.distributed.checkpoint._fsspec_filesystem import FileSystem, FsspecReader, FsspecWriter


class _Folders:
    """What of fsspec's AbstractFileSystem is used, for folders of the machine."""

    def __init__(self, **options):
        self.options = options

    def open(self, path, mode):
        return open(path, mode)

    def mv(self, path1, path2):
        os.replace(path1, path2)

    def makedirs(self, path, exist_ok):
        os.makedirs(path, exist_ok=exist_ok)

    def invalidate_cache(self):
        pass

    def exists(self, path):
        return os.path.exists(path)

    def rm(self, path):
        os.remove(path)

    def ls(self, path, detail):
        return [os.path.join(path, name) for name in os.listdir(path)]

    @staticmethod
    def _strip_protocol(path):
        return path.removeprefix("file://")


def _url_to_fs(url, **options):
    if "://" in url and not url.startswith("file://"):
        raise ValueError(f"Protocol not known: {url}")
    return _Folders(**options), _Folders._strip_protocol(url)


@pytest.fixture
def fsspec(monkeypatch):
    if importlib.util.find_spec("fsspec") is None:
        package, core = types.ModuleType("fsspec"), types.ModuleType("fsspec.core")
        package.__spec__ = importlib.machinery.ModuleSpec("fsspec", None)
        package.core, core.url_to_fs = core, _url_to_fs
        monkeypatch.setitem(sys.modules, "fsspec", package)
        monkeypatch.setitem(sys.modules, "fsspec.core", core)


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_save_and_load_at_a_url(fsspec, tmp_path, world):
    url = f"file://{tmp_path}/run/7"

    def body(rank, world):
        state = {f"own{rank}": tessera.full((3,), float(rank)), "step": 5}
        dcp.save(state, storage_writer=FsspecWriter(url, thread_count=2))
        found = {f"own{(rank + 1) % world}": tessera.zeros(3), "step": 0}
        reader = FsspecReader(url)
        dcp.load(found, storage_reader=reader)
        return reader.checkpoint_id, found["step"], found[f"own{(rank + 1) % world}"].tolist()

    expected = [(url, 5, [float((rank + 1) % world)] * 3) for rank in range(world)]
    assert ranks.run(body, world) == expected
    assert {".metadata", "__0_0.distcp"} <= set(os.listdir(tmp_path / "run/7"))
    assert not any(name.endswith(".tmp") for name in os.listdir(tmp_path / "run/7"))


def test_a_url_alone_says_who_reads_and_writes(fsspec, tmp_path):
    url = f"file://{tmp_path}/a"
    dcp.save({"w": tessera.arange(4.0)}, checkpoint_id=url, no_dist=True)
    state = {"w": tessera.zeros(4)}
    dcp.load(state, checkpoint_id=url, no_dist=True)
    assert state["w"].tolist() == [0.0, 1.0, 2.0, 3.0]
    state = {"w": tessera.zeros(4)}
    dcp.load(state, storage_reader=dcp.FileSystemReader(tmp_path / "a"), no_dist=True)
    assert state["w"].tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(RuntimeError, match="no URL that the package fsspec"):
        dcp.save({}, checkpoint_id="nosuch://x/y", no_dist=True)


def test_a_checkpoint_is_not_written_over_unless_that_is_wanted(fsspec, tmp_path):
    url = f"file://{tmp_path}/b"
    dcp.save({"n": 1}, storage_writer=FsspecWriter(url), no_dist=True)
    with pytest.raises(dcp.CheckpointException, match="overwrite=False"):
        dcp.save({"n": 2}, storage_writer=FsspecWriter(url, overwrite=False), no_dist=True)
    with pytest.warns(UserWarning, match="existing checkpoint"):
        dcp.save({"n": 2}, storage_writer=FsspecWriter(url), no_dist=True)
    state = {"n": 0}
    dcp.load(state, storage_reader=FsspecReader(url), no_dist=True)
    assert state == {"n": 2}


def test_names_and_folders(fsspec, tmp_path):
    files = FileSystem()
    url = f"file://{tmp_path}"
    assert files.init_path(url) == url and files.concat_path(url, "c") == f"{url}/c"
    files.mkdir(f"{url}/c/d")
    with files.create_stream(f"{url}/c/one", "wb") as stream:
        stream.write(b"x")
    files.rename(f"{url}/c/one", f"{url}/c/two")
    assert sorted(os.path.basename(name) for name in files.ls(f"{url}/c")) == ["d", "two"]
    files.rm_file(f"{url}/c/two")
    assert not files.exists(f"{url}/c/two") and files.exists(f"{url}/c/d")
    assert not FileSystem.validate_checkpoint_id(tmp_path) and FileSystem.validate_checkpoint_id(str(tmp_path))
    shutil.rmtree(tmp_path / "c")


def test_options_reach_the_file_system(monkeypatch, fsspec, tmp_path):
    from fsspec import core

    seen = []
    real = core.url_to_fs
    monkeypatch.setattr(core, "url_to_fs", lambda url, **options: seen.append(options) or real(url, **options))
    reader = FsspecReader(f"file://{tmp_path}/q", auto_mkdir=True)
    reader.reset(f"file://{tmp_path}/r")
    assert seen == [{"auto_mkdir": True}] * 2 and reader.checkpoint_id == f"file://{tmp_path}/r"


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match="pip install fsspec"):
        FsspecReader("memory://x")
    with pytest.raises(ImportError, match="pip install fsspec"):
        FsspecWriter("memory://x")
