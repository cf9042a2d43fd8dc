"""Names of this package that the package itself uses: they exist, or are asked for with `require`, which says what is
missing.
"""

import ast
import importlib

import pytest
import tessera
from package_sources import dotted, functions, modules, only_raises
from tessera._lazy import require


def missing(parts):
    """The part of a dotted name that does not resolve, or None."""
    value = tessera
    for i, part in enumerate(parts[1:], 2):
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = importlib.import_module(".".join(parts[:i]))
            except ImportError:
                return ".".join(parts[:i])
    return None


def names_used(tree, module, package):
    """(dotted name, line): tessera.a.b in expressions, and what import statements fetch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            parts = dotted(node)
            if parts is not None and parts[0] == "tessera":
                yield parts, node.lineno
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.split(".")[0] == "tessera":
                    yield name.name.split("."), node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".") if package else module.split(".")[:-1]
            source = base[: len(base) - node.level + 1] if node.level else []
            source = source + (node.module.split(".") if node.module else [])
            if source and source[0] == "tessera":
                for name in node.names:
                    yield [*source, name.name], node.lineno


def test_every_name_resolves():
    found, seen = [], 0
    for module, tree in modules().items():
        package = hasattr(importlib.import_module(module), "__path__") if module != "tessera.__main__" else False
        for parts, line in names_used(tree, module, package):
            seen += 1
            gone = missing(parts)
            source = ".".join(parts[:-1])  # a module, maybe one that a function of its name hides
            if (
                gone is not None
                and parts[-1] != "*"
                and not (source in modules() and hasattr(importlib.import_module(source), parts[-1]))
            ):
                found.append(f"{module}:{line} {gone}")
    assert seen > 1000
    assert not found, (
        f"names that do not exist; ask for those that are still to come with tessera._lazy.require: {found}"
    )


def test_the_finder_finds():
    tree = ast.parse(
        "import tessera\nfrom tessera import nosuchthing\nfrom . import other\ntessera.nn.nosuch.deep\ntessera.ones"
    )
    names = {".".join(parts) for parts, _ in names_used(tree, "tessera.nn.init", False)}
    assert {"tessera.nosuchthing", "tessera.nn.other", "tessera.nn.nosuch", "tessera.ones"} <= names
    assert (
        missing(["tessera", "nn", "nosuch", "deep"]) == "tessera.nn.nosuch"
        and missing(["tessera", "nn", "init"]) is None
    )


def required():
    """The texts that `require` is called with."""
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "require" and node.args:
                if isinstance(node.args[0], ast.Constant):
                    yield module, node.args[0].value


def test_require_gives_what_is_there_and_says_what_is_not():
    assert (
        require("nn.functional.relu", "a test") is tessera.nn.functional.relu
        and require("utils.data", "a test") is tessera.utils.data
    )
    with pytest.raises(
        NotImplementedError,
        match=r"a test needs tessera\.nosuch\.name, which this version does not have\. Do without\.",
    ):
        require("nosuch.name", "a test", "Do without.")
    assert len(list(required())) > 10


NO_DEVICE = "there are no such devices, which is what it says"
ABSTRACT = "for subclasses to define"
ENDS = "ends the graph: what it stands for is done by Python"
CALLED = "what a call of something that is not there to be called gets"

UNKNOWN_OF_A_DISTRIBUTION = (
    "arg_constraints support mean mode variance expand rsample log_prob cdf icdf enumerate_support entropy".split()
)

# Functions that can only fail, and why they are there. A name that would stand for something that is not there yet is
# left out of the package instead.
ONLY_RAISE = {
    "tessera.ao.nn._quantized_ops._Operators.__getattr__": "names that there are lie in the namespace itself",
    "tessera.ao.nn.quantizable.modules.rnn.LSTM.from_observed": "documented: the quantized class makes it",
    "tessera.ao.nn.quantized.modules.attention.MultiheadAttention.from_float": "documented: of an observed one alone",
    "tessera.ao.nn.quantized.modules.functional_modules.FXFloatFunctional.forward": "documented: its methods serve",
    "tessera.ao.nn.quantized.modules.functional_modules.QFunctional.forward": "documented: its methods are called",
    "tessera.ao.nn.quantized.modules.rnn.LSTM.from_float": "documented: of an observed one alone",
    "tessera.ao.pruning._experimental.data_scheduler.base_data_scheduler.BaseDataScheduler.get_schedule_param": (
        ABSTRACT
    ),
    "tessera.ao.pruning._experimental.data_sparsifier.base_data_sparsifier.BaseDataSparsifier.prepare": (
        "documented: there is no model"
    ),
    "tessera.ao.pruning.scheduler.base_scheduler.BaseScheduler.get_sl": ABSTRACT,
    "tessera.ao.quantization.observer.NoopObserver.calculate_qparams": "documented: it watches nothing",
    "tessera.ao.quantization.observer.PlaceholderObserver.calculate_qparams": "documented: it watches nothing",
    "tessera.ao.quantization.observer.RecordingObserver.calculate_qparams": "documented: it watches nothing",
    "tessera.ao.quantization.observer.ReuseInputObserver.calculate_qparams": "documented: it watches nothing",
    "tessera.ao.quantization.observer.UniformQuantizationObserverBase.reset_min_max_vals": ABSTRACT,
    "tessera._dynamo._library.forbidden.run": ENDS,
    "tessera._dynamo._calls._refuse": ENDS,
    "tessera._dynamo._frames._build_class": ENDS,
    "tessera._dynamo._objects._refuse_equal": ENDS,
    "tessera._dynamo.backends.debugging.error_backend": "a backend that fails, for tests",
    "tessera._guards.Source.name": ABSTRACT,
    "tessera._higher_order_ops.while_loop._no_gradient": "documented: a loop of unknown length has no traced gradient",
    "tessera._subclasses.fake_tensor.FakeTensor.__reduce_ex__": "there is no data to pickle",
    "tessera._subclasses.fake_tensor.FakeTensor.data_ptr": "there is no data",
    "tessera._subclasses.fake_tensor.FakeTensor.numpy": "there is no data",
    "tessera.distributed.fsdp._fully_shard.FSDPModule.__deepcopy__": "documented: groups of processes are not copied",
    "tessera.onnx._exportable.ExportableModule.example_arguments": ABSTRACT,
    "tessera.onnx.symbolic_helper._onnx_unsupported": ENDS,
    "tessera.onnx.symbolic_helper._unimplemented": ENDS,
    "tessera._symbolic._Number.__hash__": "equal to numbers that are not known",
    "tessera._symbolic._Number.__reduce_ex__": "symbols belong to a trace",
    "tessera._symbolic.sym_fresh_size": "sizes of operators without a rule for fake tensors: get_ctx() has them",
    "tessera._tensor._of_quantized.method": "what tensors have that are not quantized; QuantizedTensor has its own",
    "tessera._linalg_utils.removed.function": "names that are documented as removed",
    "tessera._library.infer_schema.infer_schema.fail": "the error of its neighbours",
    "tessera._serialization_tools.validate_hpu_device": NO_DEVICE,
    "tessera._tensor.reinforce": "documented as removed",
    "tessera._utils.ExceptionWrapper.reraise": "raises what it holds",
    **{
        f"tessera.ao.quantization.{name}": ABSTRACT
        for cls in ("fake_quantize.FakeQuantizeBase", "observer.ObserverBase")
        for name in (f"{cls}.forward", f"{cls}.calculate_qparams")
    },
    "tessera.autograd.function.Function.__call__": CALLED,
    "tessera.autograd.function.Function.vmap": ABSTRACT,
    "tessera.func._custom._OneElement.mark_dirty": "documented: generated rules are for functions without mutation",
    "tessera.distributed._process_group._lacks.method": "what a backend lacks; third parties define what they have",
    "tessera.distributed.elastic.multiprocessing.api._raise_signal": "a signal's handler",
    "tessera.distributed._stores.Store._missing": ABSTRACT,
    "tessera.distributed._symmetric_memory._operators._multimem": NO_DEVICE,
    "tessera.distributed._symmetric_memory._operators._of_gpus": NO_DEVICE,
    "tessera.distributed._symmetric_memory.get_mem_pool": NO_DEVICE,
    "tessera.distributed._symmetric_memory.set_backend": NO_DEVICE,
    "tessera.distributed.checkpoint.planner.LoadPlanner.resolve_bytes": ABSTRACT,
    "tessera.distributed.nn.api.remote_module._refused.method": "documented: the module is elsewhere",
    "tessera.distributed.nn.api.remote_module.RemoteModule.__getstate__": "documented: for the process that made it",
    "tessera.distributed.rpc._rref.RRef.__reduce_ex__": "documented: for remote calls, which pickle RRefs themselves",
    "tessera.distributed._stores.Store.__reduce_ex__": "documented: stores belong to their process",
    "tessera.futures.Future.__reduce_ex__": "a value to come belongs to its process",
    **{f"tessera.distributed._work.Work.{name}": ABSTRACT for name in ("is_completed", "wait", "result", "get_future")},
    "tessera.distributed._work.Work.source_rank": "of messages only, whose handles define it",
    "tessera.distributed._work.Work.get_future_result": "documented: of the NCCL backend only",
    "tessera.export._guards._fail": "the error of its neighbours",
    "tessera.export._unlift._refuse.refused": "documented: programs are as they were exported",
    "tessera.export.dynamic_shapes.Dim.__rsub__": "documented: dimensions grow with their roots",
    "tessera.export.exported_program.ExportedProgram.__call__": "documented: refuses, and says what to call",
    "tessera.export.exported_program._fixed.set_attribute": "documented: attributes of programs are fixed",
    "tessera.export.unflatten.UnflattenedModule.eval": "documented: programs are as they were exported",
    "tessera.export.unflatten.UnflattenedModule.train": "documented: programs are as they were exported",
    "tessera.fx.immutable_collections._refusal.refuse": "what these containers are for",
    "tessera.fx.proxy.Proxy.__len__": "documented: Python allows no symbolic length",
    "tessera.fx.proxy.TracerBase.iter": "documented; tracers of one's own know better",
    "tessera.fx.proxy.TracerBase.to_bool": "documented; tracers of one's own know better",
    "tessera.jit._frontend.ScriptFunction.get_debug_state": "there is no executor that keeps a state",
    "tessera.jit._modules.ScriptModule.get_debug_state": "there is no executor that keeps a state",
    "tessera.autograd.function.NestedIOFunction.backward_extended": ABSTRACT,
    "tessera.autograd.function.NestedIOFunction.forward_extended": ABSTRACT,
    "tessera.autograd.function._DelayedError.backward": "the error that once_differentiable delays",
    "tessera.autograd.function._SingleLevelFunction.backward": ABSTRACT,
    "tessera.autograd.function._SingleLevelFunction.forward": ABSTRACT,
    "tessera.autograd.function._SingleLevelFunction.jvp": ABSTRACT,
    "tessera.autograd.function._SingleLevelFunction.setup_context": ABSTRACT,
    "tessera.backends.mps.get_core_count": NO_DEVICE,
    "tessera.backends.mps.get_name": NO_DEVICE,
    "tessera.cuda._CudaDeviceProperties.__setattr__": "properties are constant",
    "tessera.cuda._no_device": "the error of its neighbours",
    **{
        "tessera.distributions." + name: ABSTRACT
        for name in (
            *(f"distribution.Distribution.{what}" for what in UNKNOWN_OF_A_DISTRIBUTION),
            *(f"exp_family.ExponentialFamily.{what}" for what in ("_natural_params", "_log_normalizer")),
            "exp_family.ExponentialFamily._mean_carrier_measure",
            "transformed_distribution.Mapped._map",
            *(f"transforms.Transform.{what}" for what in ("sign", "_call", "_inverse", "log_abs_det_jacobian")),
            "constraints.Constraint.check",
        )
    },
    "tessera.distributions.constraints._Dependent.check": "documented: needs what the constraint depends on",
    "tessera.cuda.gds.GdsFile.__init__": "documented for systems without GPUDirect Storage, such as this one",
    "tessera.cuda.gds.GdsFile.deregister_handle": "of files that cannot be opened here",
    "tessera.cuda.gds.GdsFile.register_handle": "of files that cannot be opened here",
    "tessera.library.fallthrough_kernel": CALLED,
    "tessera.nn.attention._block_mask._of_slice": "the place of a slice is the caller's to know, as documented",
    "tessera.nn.modules.container.ParameterDict.__call__": CALLED,
    "tessera.nn.modules.container.ParameterList.__call__": CALLED,
    "tessera.nn.modules.lazy.LazyModuleMixin._replicate_for_data_parallel": "lazy modules have no parameters to copy",
    "tessera.nn.modules.lazy.LazyModuleMixin.initialize_parameters": ABSTRACT,
    "tessera.nn.modules._module_state.get_extra_state": ABSTRACT,
    "tessera.nn.modules._module_state.set_extra_state": ABSTRACT,
    "tessera.nn.modules.module._forward_unimplemented": ABSTRACT,
    "tessera.nn.parameter.UninitializedTensorMixin.shape": "has none yet",
    "tessera.nn.parameter.UninitializedTensorMixin.share_memory_": "has no memory yet",
    "tessera.nn.utils.parametrize._refuse_to_pickle": "parametrized modules are not pickled whole",
    "tessera.nn.utils.prune.BasePruningMethod.compute_mask": ABSTRACT,
    "tessera.optim._single.SingleTensorOptimizer._update": ABSTRACT,
    "tessera.optim.lr_scheduler.LRScheduler.get_lr": ABSTRACT,
    "tessera.optim.optimizer.Optimizer.step": ABSTRACT,
    "tessera.overrides.TorchFunctionMode.__torch_function__": ABSTRACT,
    "tessera.package.importer.Importer.import_module": ABSTRACT,
    "tessera.package.package_importer._Resources.resource_path": "importlib's protocol: no file outside of the archive",
    "tessera.utils._contextlib._DecoratorContextManager.__enter__": ABSTRACT,
    "tessera.utils._contextlib._DecoratorContextManager.__exit__": ABSTRACT,
    "tessera.utils._python_dispatch.TorchDispatchMode.__torch_dispatch__": ABSTRACT,
    "tessera.utils.data.dataloader._BaseDataLoaderIter.__getstate__": "iterators are not pickled",
    "tessera.utils.cpp_extension._setuptools.SyclExtension": "SYCL devices have no engines; the error says what to use",
    "tessera.utils.benchmark.utils.timer.Timer.autorange": "documented: refuses, and says what to call",
    "tessera.utils.benchmark.utils.timer.Timer.repeat": "documented: refuses, and says what to call",
    "tessera.utils.data.dataloader._BaseDataLoaderIter._next_data": ABSTRACT,
    "tessera.utils.data.datapipes.utils.common._raise": "what os.walk calls with an error",
    "tessera.utils.data.dataset.Dataset.__getitem__": ABSTRACT,
    "tessera.utils.data.dataset.IterableDataset.__iter__": ABSTRACT,
    "tessera.utils.data.sampler.Sampler.__iter__": ABSTRACT,
}


def test_no_name_is_there_only_to_fail():
    found = {name for name, function, _ in functions() if only_raises(function)}
    assert found == set(ONLY_RAISE), (sorted(found - set(ONLY_RAISE)), sorted(set(ONLY_RAISE) - found))


def test_layers_without_autocast_check_dtypes():
    """RNN asked whether autocast is on, which there is no function for: an AttributeError hid the reason."""
    with pytest.raises(ValueError, match="does not match weight dtype"):
        tessera.nn.LSTM(2, 2)(tessera.ones(3, 1, 2, dtype=tessera.float64))
