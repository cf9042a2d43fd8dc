"""Names beyond the documents that other people's packages look for at import, and what they use them for."""

import io

import pytest
import tessera


def test_named_tuples_are_there_before_the_first_call():
    assert type(tessera.topk(tessera.ones(3), 2)) is tessera.return_types.topk
    for name in ("max", "cummin", "linalg_qr", "histogramdd"):
        assert name in dir(tessera.return_types) and issubclass(getattr(tessera.return_types, name), tuple)
    with pytest.raises(AttributeError, match="nosuch"):
        tessera.return_types.nosuch


def test_records_of_a_checkpoint(tmp_path):
    file = io.BytesIO()
    tessera.save({"a": tessera.arange(3.0)}, file)
    file.seek(0)
    reader = tessera.PyTorchFileReader(file)
    assert reader.has_record("data/0") and "version" in reader.get_all_records()
    assert reader.get_record_size("data/0") == 12 and reader.get_record("version") == b"3\n"
    read = reader.get_storage_from_record("data/0", 3, tessera.float32)
    assert read.shape == (0,) and read.set_(read.untyped_storage(), 0, (3,)).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="12 bytes"):
        reader.get_storage_from_record("data/0", 4, tessera.float32)

    path = str(tmp_path / "x.zip")
    writer = tessera.PyTorchFileWriter(path)
    writer.write_record("text", "abc", 3)
    writer.write_record("numbers", tessera.ones(2).untyped_storage(), 8)
    with pytest.raises(RuntimeError, match="already"):
        writer.write_record("text", b"", 0)
    with pytest.raises(ValueError, match="9 bytes"):
        writer.write_record("more", b"abc", 9)
    writer.write_end_of_file()
    with open(path, "rb") as written:
        reader = tessera._C.PyTorchFileReader(written)
        assert writer.archive_name() == "x" and reader.get_record("text") == b"abc" and reader.has_record("version")


def test_names_of_the_extension():
    from tessera import _C

    assert _C.Tag is tessera.Tag and _C.DisableTorchFunctionSubclass is tessera.DisableTorchFunctionSubclass
    assert isinstance(tessera.nn.Parameter, _C._TensorMeta) and not isinstance(int, _C._TensorMeta)
    assert isinstance(tessera.jit.trace(lambda x: x + 1, tessera.ones(1)).graph, _C.Graph)
    assert tessera.torch is tessera


def test_dispatch_keys():
    from tessera import _C

    key = _C.DispatchKey.AutocastCPU
    both = _C.DispatchKeySet(key) | _C.DispatchKeySet(_C.DispatchKey.AutocastCUDA)
    assert both.has(key) and set(both) == {"AutocastCPU", "AutocastCUDA"} and _C.DispatchKeySet("Autograd").bits
    x = tessera.ones(2, 2)
    with tessera.autocast("cpu"):
        with _C._ExcludeDispatchKeyGuard(both):
            assert (x @ x).dtype == tessera.float32
        assert (x @ x).dtype == tessera.bfloat16


def test_lists_sorted_by_device_and_dtype():
    from tessera.utils._foreach_utils import _group_tensors_by_device_and_dtype

    a, b, c = tessera.ones(1), tessera.ones(1, dtype=tessera.float64), tessera.zeros(1)
    groups = _group_tensors_by_device_and_dtype([[a, b, c], [c, None, a]], with_indices=True)
    lists, indices = groups[tessera.device("cpu"), tessera.float32]
    assert indices == [0, 2] and lists[0][1] is c and lists[1][1] is a and len(groups) == 2
    with pytest.raises(ValueError, match="one length"):
        _group_tensors_by_device_and_dtype([[a], []])


def test_where_downloads_are_kept(monkeypatch):
    monkeypatch.setenv("TORCH_HOME", "/some/where")
    assert tessera.hub._get_torch_home() == "/some/where" and tessera.hub.get_dir() == "/some/where/hub"


def test_marks_for_quantization_give_their_input():
    from tessera.ao.quantization import FakeQuantizeBase, ObserverBase, QuantWrapper

    model = QuantWrapper(tessera.nn.Linear(2, 2))
    x = tessera.ones(1, 2)
    assert tessera.equal(model(x), model.module(x))

    class Nothing(FakeQuantizeBase):
        def forward(self, x):
            return x

        def calculate_qparams(self, **kwargs):
            return None

    fake = Nothing()
    fake.disable_observer()
    assert fake.state_dict()["observer_enabled"].item() == 0 and fake.fake_quant_enabled.item() == 1
    with pytest.raises(TypeError):
        ObserverBase(tessera.qint8)


def test_attributes_out_of_a_dictionary():
    from tessera.fx.graph_module import _CodeOnlyModule, _copy_attr

    source = tessera.nn.Sequential(tessera.nn.Linear(1, 1))
    code, target = _CodeOnlyModule(source.__dict__), tessera.nn.Module()
    assert code.get_submodule("0") is source[0]
    _copy_attr(code, target, "0.weight")
    assert getattr(target, "0").weight is source[0].weight
