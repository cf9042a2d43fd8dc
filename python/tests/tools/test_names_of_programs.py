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
        _group_tensors_by_device_and_dtype([[a], [a, b]])
    assert _group_tensors_by_device_and_dtype([[a], []])[tessera.device("cpu"), tessera.float32] == ([[a], []], [])


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


def test_types_of_programs():
    from tessera import _C

    kind = _C.TensorType.get()
    assert isinstance(kind, tessera.TensorType) and not isinstance(kind, _C.ListType)
    assert str(_C.ListType(_C.IntType.get())) == "List[int]" and _C.OptionalType(kind).kind() == "OptionalType"


def test_questions_about_the_process(monkeypatch, capfd):
    from tessera import _C
    from tessera.overrides import TorchFunctionMode

    monkeypatch.setenv("PYTORCH_API_USAGE_STDERR", "1")
    _C._log_api_usage_once("test.event")
    _C._log_api_usage_once("test.event")
    assert capfd.readouterr().err == "PYTORCH_API_USAGE test.event\n"
    inside = []
    tessera.func.vmap(lambda x: inside.append(_C._are_functorch_transforms_active()) or x)(tessera.ones(2))
    assert inside == [True] and not _C._are_functorch_transforms_active()
    there = tessera.accelerator.current_accelerator(check_available=True)
    assert _C._get_accelerator() == (there or tessera.device("cpu"))
    assert _C._get_default_device() == "cpu"
    x = tessera.ones(3)
    assert _C._is_alias_of(x, x[1:]) and not _C._is_alias_of(x, x.clone())
    assert _C._functorch.is_legacy_batchedtensor(x) is False
    with TorchFunctionMode():
        assert _C._is_torch_function_mode_enabled()
    assert not _C._is_torch_function_mode_enabled()
    tessera._assert_async(tessera.tensor(True))
    with pytest.raises(RuntimeError, match="wrong"):
        tessera._assert_async(tessera.tensor(0), "wrong")


def test_modules_as_functions_by_the_older_names():
    from tessera._functorch.make_functional import (
        combine_state_for_ensemble,
        make_functional,
        make_functional_with_buffers,
    )

    model = tessera.nn.Sequential(tessera.nn.Linear(2, 3), tessera.nn.Tanh())
    x = tessera.ones(1, 2)
    function, parameters = make_functional(model)
    assert tessera.equal(function(parameters, x), model(x)) and function.stateless_model[0].weight.is_meta
    zero = function([p * 0 for p in parameters], x)
    assert zero.count_nonzero() == 0 and model(x).count_nonzero() == 3
    normed = tessera.nn.BatchNorm1d(2).eval()
    with pytest.raises(RuntimeError, match="make_functional_with_buffers"):
        make_functional(normed)
    function, parameters, buffers = make_functional_with_buffers(normed)
    assert tessera.equal(function(parameters, buffers, x), normed(x)) and len(buffers) == 3
    models = [tessera.nn.Linear(2, 3) for _ in range(4)]
    function, parameters, buffers = combine_state_for_ensemble(models)
    together = tessera.vmap(function, in_dims=(0, 0, None))(parameters, buffers, x)
    assert tessera.allclose(together, tessera.stack([m(x) for m in models]))


def test_flat_tensors():
    from tessera._utils import _flatten_dense_tensors, _unflatten_dense_tensors

    tensors = [tessera.ones(2, 2), tessera.zeros(3)]
    flat = _flatten_dense_tensors(tensors)
    parts = _unflatten_dense_tensors(flat, tensors)
    assert flat.shape == (7,) and parts[0].shape == (2, 2) and parts[1]._base is flat


def test_policies_of_sharded_training():
    from tessera.distributed.fsdp import wrap

    layer = tessera.nn.Linear(2, 2)
    assert wrap.ModuleWrapPolicy({tessera.nn.Linear})(layer, False, 0)
    assert wrap.size_based_auto_wrap_policy(layer, False, 10, min_num_params=10)
    assert not wrap.size_based_auto_wrap_policy(tessera.nn.ModuleList(), False, 10, min_num_params=10)
    assert wrap._or_policy(layer, False, 0, [wrap.CustomPolicy(lambda m: False), wrap.always_wrap_policy])


def test_names_that_optimizers_of_others_import():
    from tessera.optim import optimizer as names

    a, b, z = tessera.ones(1), tessera.ones(1, dtype=tessera.int64), tessera.ones(2, dtype=tessera.complex64)
    group = tessera.optim.Optimizer._group_tensors_by_device_and_dtype
    assert {key[1]: lists for key, (lists, _) in group([[a, b], []]).items()} == {
        tessera.float32: [[a], []],
        tessera.int64: [[b], []],
    }
    assert names._default_to_fused_or_foreach([a, None], False, use_fused=True) == (True, False)
    assert names._default_to_fused_or_foreach([a], True, use_fused=True) == (False, False)
    assert names._default_to_fused_or_foreach([b], False, use_fused=True) == (False, False)
    assert "xla" in names._get_capturable_supported_devices()
    assert "xla" not in names._get_capturable_supported_devices(supports_xla=False)
    with pytest.raises(RuntimeError, match="int64"):
        names._device_dtype_check_for_fused(b)
    params, states = [a, z], [a, z * 2]
    names._view_as_real(params, states)
    assert params[0] is a and params[1].shape == states[1].shape == (2, 2)
    assert names._dispatch_sqrt(4.0) == 2.0 == names._dispatch_sqrt(4 * a).item()
    assert names._stack_if_compiling(params) is params
    assert names._disable_dynamo_if_unsupported(single_tensor_fn=None)(group) is group
    assert "params" in names._params_doc


def test_gradients_of_samples():
    from tessera.nn.utils._per_sample_grad import call_for_per_sample_grads as per_sample

    module = tessera.nn.Sequential(tessera.nn.Linear(3, 2), tessera.nn.Tanh())
    x, weight = tessera.randn(4, 3), module[0].weight
    (per_sample(module, loss_reduction="mean")(x) ** 2).mean().backward()
    assert weight.grad is None
    for one, wanted in zip(x, weight.grad_sample):
        module.zero_grad()
        (module(one[None]) ** 2).mean().backward()
        tessera.testing.assert_close(weight.grad, wanted)
    with pytest.raises(RuntimeError, match="grad_sample already"):
        per_sample(module)(x)
    for bad in (lambda: per_sample(3), lambda: per_sample(module, loss_reduction="max")):
        with pytest.raises(RuntimeError):
            bad()
    weight.grad_sample = module[0].bias.grad_sample = None
    with pytest.raises(RuntimeError, match="batch size"):
        per_sample(module)()
    (per_sample(module, batch_first=False)(x[None])).sum().backward()
    assert weight.grad_sample.shape == (4, 2, 3)


def test_older_questions_and_checks():
    from tessera.testing._comparison import get_tolerances

    for name, asked in (("has_cuda", tessera.backends.cuda.is_built), ("has_mps", tessera.backends.mps.is_built)):
        with pytest.warns(UserWarning, match=name):
            assert getattr(tessera._api, name) == asked()
    assert tessera._shape_as_tensor(tessera.ones(2, 0)).tolist() == [2, 0]
    with pytest.raises(KeyError, match="no"):
        tessera._check_tensor_all_with(KeyError, tessera.tensor([True, False]), lambda: "no")
    assert get_tolerances(tessera.ones(1), rtol=None, atol=None) == (1.3e-6, 1e-5)
    assert get_tolerances(rtol=1, atol=2) == (1, 2)
    assert tessera.ByteStorage._from_buffer(b"ab").tolist() == [97, 98]
    level = tessera.autograd.forward_ad
    with level.dual_level():
        assert level._current_level == 0
    assert level._current_level == -1
    profile = tessera.profiler.profile()
    profile.start()
    tessera.autograd._disable_profiler()
    assert not tessera.autograd._profiler_enabled()


def test_graph_modules_are_known_by_the_name_of_their_class():
    module = tessera.fx.symbolic_trace(tessera.nn.Linear(1, 1))
    assert "GraphModuleImpl" in str(type(module)) and type(module).__name__ == "Linear"


def test_types_of_scripted_modules_can_be_taken_out():
    class Plain(tessera.nn.Module):
        def forward(self, x):
            return x + 1

    from tessera.jit._recursive import concrete_type_store

    tessera.jit.script(Plain())
    assert len(concrete_type_store.type_store.pop(Plain)) == 1
    assert Plain not in concrete_type_store.type_store


def test_a_setattr_that_asks_for_a_lazy_property():
    class Prior(tessera.distributions.LogNormal):
        def __setattr__(self, name, value):
            hasattr(self, name)
            super().__setattr__(name, value)

    assert Prior(0.0, 1.0).base_dist.mean == 0
