"""Arguments: one that a function accepts is read by it, or stands here with the reason why not."""

import ast
import re

import pytest
import tessera
from tessera.nn.modules._declared import LAYERS
from package_sources import body, functions, modules, only_raises, parameters

# Methods whose parameters Python, NumPy or the overriding protocols have laid down.
PROTOCOLS = {
    "__exit__",
    "__class_getitem__",
    "__deepcopy__",
    "__reduce_ex__",
    "__setattr__",
    "__array_wrap__",
    "__torch_function__",
    "__torch_dispatch__",
}

ONE_RESULT = "says how, not what is computed: there is one implementation, which takes lists at once where it can"
LOADER = "importlib's protocol"
HOOK = "a hook: its caller lays down the parameters"
TABLE = "one of a table of functions with the same parameters"
ABSTRACT = "for subclasses to define; this one has nothing to do"
SUBCLASSES = "subclasses decide by it"
COMPILER = "read by the compiler where it stands in a program; Python has nothing to do"
EXECUTOR = "documented: for executors that specialise and optimise by what they see; there is one way here"
CPU = "the CPU's stand-in for devices' streams: work is done when a call returns"
INDICES = "part of the signature of the function whose other half this is; the positions are what this one is for"
CONTEXT = "an autograd Function's context, which is passed in any case"
NO_FAKE_QUANT = "from_float() of all layers has it; this one has no weight that training rounds"
PICKLE = "Python's pickle protocol; all of them take the same way"

# (qualified name, or a prefix that ends in a dot) -> (parameters, why they are not read)
SCHEMA = "of an operator's schema: how and not what is computed, or sizes that the trace knows"
UNREAD = {
    "tessera.optim._shared._disable_dynamo_if_unsupported": (
        "single_tensor_fn",
        "for the scripts of what is captured here as it is",
    ),
    "tessera.ao.nn.quantized.modules.Quantize.from_float": ("use_precomputed_fake_quant", NO_FAKE_QUANT),
    "tessera.ao.nn.quantized.modules.activation.ReLU6.from_float": ("use_precomputed_fake_quant", NO_FAKE_QUANT),
    "tessera.ao.nn.quantized.modules.activation.Sigmoid.from_float": ("use_precomputed_fake_quant", NO_FAKE_QUANT),
    "tessera.ao.nn.quantized.modules.functional_modules.QFunctional.from_float": (
        "use_precomputed_fake_quant",
        NO_FAKE_QUANT,
    ),
    "tessera.ao.nn.quantized.modules.utils.Observed.from_float": ("use_precomputed_fake_quant", NO_FAKE_QUANT),
    "tessera.ao.nn.quantized.modules.DeQuantize.from_float": ("mod use_precomputed_fake_quant", NO_FAKE_QUANT),
    "tessera.ao.nn.quantized.modules.activation.Hardswish.from_reference": (
        "mod",
        "from_reference() of all layers has it; this one has no options",
    ),
    "tessera.ao.nn.quantized.modules.dropout.Dropout.from_float": ("use_precomputed_fake_quant", NO_FAKE_QUANT),
    "tessera.ao.nn.quantized.modules.dropout.Dropout.from_reference": (
        "scale zero_point",
        "documented: those of the input stay",
    ),
    "tessera.ao.nn.quantized.modules.embedding_ops.Embedding.__init__": (
        "padding_idx scale_grad_by_freq sparse",
        "documented: about gradients, which integers have none of",
    ),
    "tessera.ao.quantization.fuser_method_mappings._sequential_wrapper2.fuser_method": ("is_qat", TABLE),
    "tessera.ao.quantization.fx.qconfig_mapping_utils._generate_node_name_to_qconfig": (
        "root",
        "the modules and the graph of it are given, too",
    ),
    "tessera.ao.quantization.observer.AffineQuantizedObserverBase.forward": ("input", ABSTRACT),
    "tessera.ao.quantization.quantize._after": ("input", HOOK),
    "tessera.ao.pruning.": ("args kwargs", "documented: subclasses have more; a state dict of nothing"),
    "tessera.ao.pruning._experimental.activation_sparsifier.activation_sparsifier.ActivationSparsifier.": (
        "module",
        HOOK,
    ),
    "tessera.ao.pruning._experimental.pruner.parametrization.BiasHook.__call__": ("input", HOOK),
    "tessera.ao.pruning._experimental.pruner.prune_functions.prune_lstm_chain": ("getitem", TABLE),
    "tessera.ao.pruning.sparsifier.base_sparsifier.BaseSparsifier.update_mask": ("module tensor_name", ABSTRACT),
    "tessera.utils.cpp_extension._jit.load_inline": ("use_pch", "of no effect on results: headers are read anew"),
    "tessera._root.operators.prepare_multiprocessing_environment": ("path", "documented: a place for other builds"),
    "tessera._root.operators.is_distributed": ("input", "no tensor of this library is"),
    "tessera._root.operators.batch_norm_elemt": ("eps", SCHEMA),
    "tessera._root.operators.batch_norm_gather_stats_with_counts": ("input", SCHEMA),
    "tessera.onnx._operators.": (
        "b unsafe sparse_grad padding_idx scale_grad_by_freq sparse assume_unique sorted return_inverse return_counts "
        "momentum cudnn_enabled cudnn_enable N C HxW half_to_float stride padding memory_format requires_grad "
        "generator non_blocking stable path compute_mode for_backward return_debug_mask dropout_mask implicit "
        "output_size",
        SCHEMA,
    ),
    "tessera.onnx._script.Scripts.": ("node args", TABLE),
    "tessera.onnx._translate.": ("named i", TABLE),
    "tessera.onnx.ops._symbolic._node": ("shape", SCHEMA),
    "tessera.onnx._exporter.export": ("autograd_inlining", "documented: functions of autograd are always taken apart"),
    "tessera._subclasses._symbolic_calls.": ("mode env func kwargs", TABLE),
    "tessera._subclasses.fake_tensor.FakeTensor.__repr__": ("tensor_contents", SUBCLASSES),
    "tessera._subclasses.fake_tensor.FakeTensorMode.__new__": ("args kwargs", "go to __init__"),
    "tessera._symbolic.SymInt.__round__": ("ndigits", "an integer is its own rounding"),
    "tessera.fx.experimental.sym_node.SymNode.": ("file line", "documented: the user's line is found"),
    "tessera.fx.experimental.symbolic_shapes.ShapeEnv.": (
        "symbolic_context source hint fx_node forcing_spec args kwargs",
        "documented: of no effect; what they help elsewhere is computed",
    ),
    "tessera.fx.experimental.symbolic_shapes.expect_true": ("skip", "documented: the user's line is found"),
    "tessera._alias._AliasLoader.": ("spec fullname", LOADER),
    "tessera._alias._AliasFinder.": ("path target", LOADER),
    "tessera._decomp._registry.register_decomposition": ("unsafe", "every form of function may be registered"),
    "tessera._higher_order_ops.wrap.TagActivationCheckpoint.trace": (
        "mode options",
        "the function's own operators are recorded: what is saved is decided on their graph",
    ),
    "tessera._higher_order_ops.wrap.TagActivationCheckpoint._functional": ("options", "as for trace"),
    "tessera._higher_order_ops._bodies._Through.forward": (
        "operands",
        "autograd connects them; their like is in given",
    ),
    "tessera._library.opcheck.": ("tolerance", TABLE),
    "tessera._subclasses.functional_tensor.FunctionalTensor.__new__": ("mode", "what is traced is the same"),
    "tessera._subclasses.functional_tensor.FunctionalTensorMode.__init__": ("pre_dispatch export", "the same"),
    "tessera._tensor.__array_wrap__": (
        "self context return_scalar",
        "NumPy's protocol; results are tensors whatever NumPy would make of them",
    ),
    "tessera.nested._internal.base.common.": ("func kwargs", TABLE),
    "tessera.nested._internal.ops.": ("func kwargs", TABLE),
    "tessera.nested._strided.": ("func kwargs", TABLE),
    "tessera._utils.reduce_tensor_ex": ("protocol", PICKLE),
    "tessera._utils.reduce_parameter_ex": ("protocol", PICKLE),
    "tessera._weights_only_calls._anything": ("value", TABLE),
    "tessera._weights_only_unpickler.Unpickler.": ("stack marks memo", TABLE),
    "tessera._dynamo._builtins.": ("tracer args kwargs unbound", TABLE),
    "tessera._dynamo._library.": ("tracer kwargs", TABLE),
    "tessera._dynamo._transforms.": ("tracer", TABLE),
    "tessera._dynamo._breaks.": ("ins", TABLE),
    "tessera._dynamo._frames.": ("f ins", TABLE),
    "tessera._dynamo._raising.fail": ("tracer", TABLE),
    "tessera._dynamo._explain.explain.inner.listen": ("point", HOOK),
    "tessera._dynamo.backends.": (
        "example_inputs kwargs options",
        "a backend's signature; these run graphs as they are",
    ),
    "tessera._dynamo.decorators.": ("msg", "for the capture, which reads it instead of calling this"),
    "tessera._functorch.aot_autograd.": (
        "cudagraphs boxed_forward_device_index ignore_shape_env num_params_buffers",
        "for compilers that keep buffers between calls",
    ),
    "tessera._functorch.partitioners.": (
        "compiler static_lifetime_input_indices static_lifetime_input_nodes",
        "a partitioner's signature",
    ),
    "tessera._inductor.list_mode_options": ("dynamic", "the settings of modes do not depend on it"),
    "tessera.accelerator._streams.Stream.__new__": ("priority kwargs", "go to __init__ of the device's class"),
    "tessera.cuda.streams.Stream.__new__": ("args kwargs", "go to __init__"),
    "tessera.autograd.function.FunctionCtx.mark_shared_storage": (
        "pairs",
        "deprecated, and says so: shared memory is tracked by itself",
    ),
    "tessera.autograd.function.Function.__init__": ("args kwargs", "warns: Functions are not for being instantiated"),
    "tessera.autograd.gradcheck._undefined_grad.UndefinedGrad.backward": ("ctx", CONTEXT),
    "tessera.autograd.graph._any_hook.hook": ("index", HOOK),
    "tessera.cpu.": ("stream event device args kwargs", CPU),
    "tessera.cuda.graphs._graphed.Graphed.": ("ctx", CONTEXT),
    "tessera.func._custom._generated.Batched.jvp": ("ctx", CONTEXT),
    "tessera.cuda.memory.memory_snapshot": (
        "include_traces",
        "segments, which this returns, have no traces; _snapshot has both",
    ),
    "tessera.distributed._fake.": (
        "keys timeout opts output_split_sizes input_split_sizes wait_all_ranks tensors dstRank tag",
        "a group without others: nobody is waited for",
    ),
    "tessera.distributed._groups.init_process_group": ("group_name", "documented: without effect"),
    "tessera.distributed._nccl.ProcessGroupNCCL.__init__": ("args kwargs", "there is no such backend"),
    "tessera.distributed._objects.": ("group", "what other libraries call has it; the device says where bytes lie"),
    "tessera.distributed._mpi.ProcessGroupMPI._connect": ("store", "members of MPI know each other without one"),
    "tessera.export._tracer.ExportTracer.ran": ("op args kwargs", SUBCLASSES),
    "tessera.distributed._stores.Store.": ("key value keys expected_value desired_value block", ABSTRACT),
    "tessera.distributed._functional_collectives.AsyncCollectiveTensor.__repr__": (
        "tensor_contents",
        "of Tensor.__repr__; the values are shown as they are",
    ),
    "tessera.distributed._reducer.Reducer._listen.listener.arrived": ("param", HOOK),
    "tessera.nn.parallel.distributed.DistributedDataParallel._reduce_delayed": ("param", HOOK),
    "tessera.distributed.algorithms.ddp_comm_hooks.powerSGD_hook.powerSGD_hook.compress": ("buffer", TABLE),
    "tessera.distributed.algorithms.join.": ("is_last_joiner kwargs", ABSTRACT),
    "tessera.distributed.algorithms.model_averaging.averagers.ModelAverager.": ("params", ABSTRACT),
    "tessera.distributed.argparse_util.": ("parser values option_string", "argparse's protocol of actions"),
    "tessera.distributed.elastic.agent.server.api.": ("role worker_group death_sig", ABSTRACT),
    "tessera.distributed.elastic.agent.server.health_check_server.": ("format args", "http.server's protocol"),
    "tessera.distributed.elastic.agent.server.local_elastic_agent.LocalElasticAgent._stop_workers": (
        "worker_group",
        "an agent has one",
    ),
    "tessera.distributed.elastic.control_plane.": ("format args", "http.server's protocol"),
    "tessera.distributed.elastic.metrics.api.": ("metric_data", ABSTRACT),
    "tessera.distributed.elastic.multiprocessing.api.LogsSpecs.reify": ("envs", ABSTRACT),
    "tessera.distributed.elastic.multiprocessing.api.PContext._close": ("death_sig timeout", ABSTRACT),
    "tessera.distributed.elastic.rendezvous.dynamic_rendezvous.RendezvousBackend.": ("state token", ABSTRACT),
    "tessera.distributed.elastic.timer.api.": (
        "scope_id expiration_time size timeout timer_requests worker_ids deadline worker_id",
        ABSTRACT,
    ),
    "tessera.distributed.nn.functional.reduce.back": ("like", TABLE),
    "tessera.distributed.autograd._Out.": ("ctx", CONTEXT),
    "tessera.distributed.autograd._In.forward": ("begin", "requires a gradient, so that backward comes here"),
    "tessera.distributed.checkpoint.planner.": (
        "state_dict storage_meta is_coordinator all_plans global_plan new_plan central_plan write_item metadata "
        "read_item value tensor",
        ABSTRACT,
    ),
    "tessera.distributed.checkpoint.storage.": (
        "checkpoint_id is_coordinator args kwargs plan plans planner metadata results",
        ABSTRACT,
    ),
    "tessera.distributed.checkpoint.stateful.": ("state_dict", ABSTRACT),
    "tessera.distributed.checkpoint.staging.": ("state_dict kwargs type_check", ABSTRACT),
    "tessera.distributed.checkpoint.filesystem.": (
        "path mode suffix new_path checkpoint_id is_coordinator args kwargs name per_thread_copy_ahead",
        "of a method that other storages define, or documented as without effect",
    ),
    "tessera.distributed.checkpoint.hf_storage.": ("metadata", "of a method that subclasses define otherwise"),
    "tessera.distributed.checkpoint.format_utils.": ("metadata", ABSTRACT),
    "tessera.distributed.checkpoint.default_planner.": (
        "is_coordinator read_item tensor flatten_sharded_tensors dedup_replicated_tensors",
        "of a method that other planners define, or documented as without effect",
    ),
    "tessera.distributed.tensor.parallel.style.ParallelStyle._apply": ("module device_mesh", ABSTRACT),
    "tessera.distributed._work.DoneWork.wait": ("timeout", "it has ended"),
    "tessera.distributed.pipelining.schedules.": ("rank", "of a rule whose other schedules look at it"),
    "tessera.distributed.rendezvous.": ("kwargs", HOOK),
    "tessera._export.verifier.Verifier.check_additional": ("gm", ABSTRACT),
    "tessera._export.verifier.TrainingIRVerifier.check_valid_op": ("op", "all operators are valid there"),
    "tessera.export._trace._export": ("pre_dispatch", "graphs have composite operators as they are called in any case"),
    "tessera.export.unflatten.FlatArgsAdapter.adapt": ("target_spec input_spec input_args metadata obj", ABSTRACT),
    "tessera.fx._symbolic_trace.Tracer.is_leaf_module": ("module_qualified_name", SUBCLASSES),
    "tessera.fx._symbolic_trace.Tracer.getattr": ("attr", SUBCLASSES),
    "tessera.fx.experimental.proxy_tensor.PythonKeyTracer.": ("m attr parameter_proxy_cache", SUBCLASSES),
    "tessera.fx.experimental.proxy_tensor.DecompositionInterpreter.": ("target kwargs", TABLE),
    "tessera.fx.graph.Graph.find_nodes": ("sort", "what is found is in the graph's order in any case"),
    "tessera.fx.graph_module.reduce_graph_module.KeepModules.is_leaf_module": ("m module_qualified_name", SUBCLASSES),
    "tessera.fx.passes.operator_support.OperatorSupportBase.is_node_supported": ("submodules node", SUBCLASSES),
    "tessera.fx.graph_module.GraphModule.__new__": ("args kwargs", "go to __init__"),
    "tessera.fx.graph_module.GraphModule.print_readable": ("fast_sympy_print", "there are no symbols in the text"),
    "tessera.fx.interpreter.Interpreter.": ("target args kwargs", TABLE),
    "tessera.fx.interpreter.Transformer.": ("kwargs m module_qualified_name", TABLE),
    "tessera.fx.passes.infra.pass_base.PassBase.": ("graph_module", ABSTRACT),
    "tessera.fx.passes.infra.pass_manager.PassManager.check": ("module", ABSTRACT),
    "tessera.fx.passes.split_module.split_module": ("root_m", "documented; the traced module holds all that is needed"),
    "tessera.distributions._kl_pairs.": ("p known", TABLE),
    "tessera.distributions.constraint_registry.": ("constraint", TABLE),
    "tessera.distributions.transforms.": ("y", "both ends are given; most maps need one of them"),
    "tessera.distributions.utils.lazy_property.": ("owner", "Python's protocol of descriptors"),
    "tessera.jit._marks.annotate": ("the_type", COMPILER),
    "tessera.jit._frontend.ScriptFunction.__get__": ("owner", "Python's protocol of descriptors"),
    "tessera.jit._frontend.ScriptFunction.graph_for": ("args kwargs", EXECUTOR),
    "tessera.jit._modules.ScriptModule.graph_for": ("args kwargs", EXECUTOR),
    "tessera.jit._archives.run_frozen_optimizations": ("optimize_numerics preserved_methods", "freeze() did it"),
    "tessera.jit._trace.": ("optimize", EXECUTOR),
    "tessera.jit._script.CompilationUnit.define": ("rcb", "names are found in the caller's frame"),
    "tessera.nn.utils._computed.Computed.__call__": ("inputs", HOOK),
    "tessera.utils.benchmark.utils.fuzzer.FuzzedTensor.default_tensor_constructor": ("kwargs", HOOK),
    "tessera.package.package_importer.PackageImporter.__import__": ("locals", LOADER),
    "tessera.nn._functional.spatial.max_pool1d_with_indices": ("return_indices", INDICES),
    "tessera.nn._functional.spatial.max_pool2d_with_indices": ("return_indices", INDICES),
    "tessera.nn._functional.spatial.max_pool3d_with_indices": ("return_indices", INDICES),
    "tessera.nn._functional.spatial.adaptive_max_pool1d_with_indices": ("return_indices", INDICES),
    "tessera.nn._functional.spatial.adaptive_max_pool2d_with_indices": ("return_indices", INDICES),
    "tessera.nn._functional.spatial.adaptive_max_pool3d_with_indices": ("return_indices", INDICES),
    "tessera.nn._functional.spatial.fractional_max_pool2d_with_indices": ("return_indices", INDICES),
    "tessera.nn._functional.spatial.fractional_max_pool3d_with_indices": ("return_indices", INDICES),
    "tessera.nn.attention._block_mask.noop_mask": ("head token_q token_kv", "a mask function; this one keeps all"),
    "tessera.nn.attention.bias.CausalBias.__new__": ("variant seq_len_q seq_len_kv", "go to __init__"),
    "tessera.nn.modules._backward_hooks._identity.BackwardHookFunction.backward": ("ctx", CONTEXT),
    "tessera.nn.modules.conv._LazyConvXdMixin.initialize_parameters": (
        "args kwargs",
        "forward's other arguments, of which the sizes do not depend",
    ),
    "tessera.nn.modules.lazy.LazyModuleMixin._lazy_load_hook": (
        "local_metadata strict missing_keys unexpected_keys error_msgs",
        HOOK,
    ),
    "tessera.nn.utils.clip_grad.": ("foreach", ONE_RESULT),
    "tessera.nn.utils.parametrizations.weight_norm._weight_norm_compat_hook": (
        "local_metadata strict missing_keys unexpected_keys error_msgs",
        HOOK,
    ),
    "tessera.nn.utils.prune.Identity.compute_mask": ("t", "prunes nothing, whatever the values are"),
    "tessera.nn.utils.prune.CustomFromMask.compute_mask": ("t", "the mask is given, whatever the values are"),
    "tessera.nn.utils.spectral_norm.SpectralNormLoadStateDictPreHook.__call__": (
        "strict missing_keys unexpected_keys error_msgs",
        HOOK,
    ),
    "tessera.nn.utils.spectral_norm.SpectralNormStateDictHook.__call__": ("module state_dict prefix", HOOK),
    "tessera.optim.adadelta.adadelta": (
        "foreach has_complex capturable",
        ONE_RESULT + "; no formula takes the count of steps",
    ),
    "tessera.optim.adagrad.adagrad": ("fused has_sparse_grad foreach differentiable has_complex", ONE_RESULT),
    "tessera.optim.adam.adam": ("foreach fused has_complex", ONE_RESULT),
    "tessera.optim.sgd.sgd": ("has_sparse_grad foreach fused", ONE_RESULT),
    "tessera.optim._single.SingleTensorOptimizer._new_state": ("group", ABSTRACT),
    "tessera.optim.lr_scheduler.ReduceLROnPlateau._reduce_lr": (
        "epoch",
        "subclasses override it; the base class prints nothing",
    ),
    "tessera.optim.swa_utils.get_ema_avg_fn.ema_update": (
        "num_averaged",
        "avg_fn's signature; this average does not depend on the count",
    ),
    "tessera.distributed.fsdp._flat.FlatParameters.": ("line", "what all pieces get; these are cut in one way"),
    "tessera.distributed.fsdp._unit.Unit.": ("module gradient", HOOK),
    "tessera.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel._before_load": ("ignored", HOOK),
    "tessera.distributed.fsdp.wrap.": ("nonwrapped_numel args kwargs", "what all policies get"),
    "tessera.nested._internal.nested_tensor.NestedTensor.__tensor_unflatten__": (
        "outer_size outer_stride",
        "a protocol; they follow from the parts",
    ),
    "tessera.distributed.tensor._api.DTensor.__tensor_unflatten__": (
        "outer_size outer_stride",
        "a protocol; the size of the whole is known",
    ),
    "tessera.distributed.tensor._api.DTensor.redistribute": ("async_op", "results are complete when they are returned"),
    "tessera.utils._device.exit_device": ("device exc_info", "Python's __exit__"),
    "tessera.utils.data._utils.collate.": (
        "collate_fn_map",
        "collate functions all have it; numbers and text have no parts to collate",
    ),
    "tessera.utils.data.sampler.Sampler.__init__": ("data_source", "deprecated, documented as unused"),
}

# Constructors' parameters that become an attribute which this package itself does not read.
KEPT = {
    "tessera.ao.quantization.observer.AffineQuantizedObserverBase": (
        "mapping_type scale_dtype zero_point_dtype preserve_zero",
        "for subclasses, which calculate with them",
    ),
    "tessera._subclasses.fake_tensor.FakeTensorMode": (
        "allow_fallback_kernels allow_non_fake_inputs",
        "read by python/bindings/library/fake.cc; all operators have Meta kernels",
    ),
    "tessera.cpu.Stream": ("priority", CPU),
    "tessera.distributed._gloo._Device": ("lazy_init", "an attribute that programs read"),
    "tessera.distributed.elastic.multiprocessing.subprocess_handler.SubprocessHandler": (
        "local_rank_id",
        "an attribute that programs read",
    ),
    "tessera.distributed.pipelining._pipe.Pipe": ("loss_spec", "an attribute that programs read"),
    "tessera.distributed.tensor.parallel.fsdp.DTensorExtensions": ("device_handle", "an attribute that programs read"),
    "tessera.distributed._nccl._NCCLOptions": ("is_high_priority_stream", "there is no such backend"),
    "tessera.serialization.skip_data": ("materialize_fake_tensors", "there are no fake tensors"),
    "tessera.utils._python_dispatch.TorchDispatchMode": ("_dispatch_key", "an attribute that programs read"),
    "tessera.utils.data.dataloader.DataLoader": (
        "pin_memory_device",
        "checked before it is kept; all pinned memory serves all devices",
    ),
}

# Options of parameter groups that no step reads.
OPTIONS = {
    "foreach": ONE_RESULT,
    "fused": ONE_RESULT + " (optimizer.py reads it where the counters are made)",
    "initial_accumulator_value": "read when the state is made, in __init__",
}


def unread(function, owner):
    """Parameters that the body does not read. A function that hands one on to itself does not read it."""
    used = set()

    def visit(node):
        if (
            owner is None
            and isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == function.name
        ):
            children = [a for a in (*node.args, *(k.value for k in node.keywords)) if not isinstance(a, ast.Name)]
        else:
            children = ast.iter_child_nodes(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.update(parameters(function, owner) if node.id == "locals" else [node.id])
        for child in children:
            visit(child)

    for statement in body(function):
        visit(statement)
    return [p for p in parameters(function, owner) if p not in used and not p.startswith("_")]


def reason_for(name, parameter):
    """The entry of UNREAD that lets a parameter be, or None."""
    for entry, (names, _) in UNREAD.items():
        if parameter in names.split() and (name.startswith(entry) if entry.endswith(".") else name == entry):
            return entry, parameter
    return None


def test_the_finder_finds():
    tree = ast.parse("def f(a, b, *, c, _d):\n    'a doc'\n    return f(b, c=c + a)")
    assert unread(tree.body[0], None) == ["b"]
    tree = ast.parse(
        "class C:\n    def g(self, a):\n        pass\n    @staticmethod\n    def h(a, b):\n        return lambda: a"
    )
    assert [unread(f, tree.body[0]) for f in tree.body[0].body] == [["a"], ["b"]]


def test_every_parameter_is_read():
    found, used = [], set()
    for name, function, owner in functions():
        if only_raises(function) or (owner is not None and function.name in PROTOCOLS):
            continue
        for parameter in unread(function, owner):
            entry = reason_for(name, parameter)
            if entry is None:
                found.append(f"{name}({parameter})")
            used.add(entry)
    assert not found, f"accepted, and not read: {found}"
    stale = [(entry, p) for entry, (names, _) in UNREAD.items() for p in names.split() if (entry, p) not in used]
    assert not stale, f"read after all, or gone: {stale}"


def read_names():
    """Attributes that are read anywhere in the package, and texts, by which they may be read."""
    reads = set()
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                reads.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                reads.add(node.value)
    for cls in LAYERS.values():
        about = cls._declared
        reads |= words(about.computes, about.shows, *about.shapes.values())
    return reads


def words(*texts):
    """Names in expressions."""
    return {word for text in texts if text for word in re.findall(r"[A-Za-z_]\w*", text)}


# Options of declared layers that nothing reads.
UNREAD_OPTIONS = {
    "Identity": ("args kwargs", "documented: unused, so that any layer can be replaced by this one"),
}


def test_every_option_of_a_declared_layer_is_read():
    """By its constructor (where the option is more than kept), by the attribute of its name, or as device and dtype."""
    reads, found = read_names(), []
    for name, cls in LAYERS.items():
        if cls._declared.options is None or not cls.__module__.startswith("tessera."):
            continue
        constructor = ast.parse(cls._declared.constructor()).body[0]
        used = {n.id for n in ast.walk(constructor) if isinstance(n, ast.Name)} - set(cls._declared.kept)
        for option in parameters(constructor, cls):
            if option not in used and not (option in cls._declared.kept and option in reads):
                if option not in UNREAD_OPTIONS.get(name, ("",))[0].split():
                    found.append(f"{name}({option})")
    assert not found, f"accepted, and not read: {found}"


def stored(function):
    """{parameter: attribute} of those that become an attribute, maybe through a call such as bool(...), and are read
    nowhere else.
    """
    loads = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    kept = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        tuples = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        for t, v in zip(target.elts, value.elts) if tuples else [(target, value)]:
            while isinstance(v, ast.Call) and len(v.args) == 1:
                v = v.args[0]
            if isinstance(t, ast.Attribute) and isinstance(v, ast.Name) and loads.count(v.id) == 1:
                kept[v.id] = t.attr
    return kept


def test_what_constructors_keep_is_read():
    reads, found, used = read_names(), [], set()
    for name, function, owner in functions():
        if owner is None or function.name != "__init__":
            continue
        cls = name[: -len(".__init__")]
        for parameter, attribute in stored(function).items():
            if parameter in parameters(function, owner) and attribute not in reads:
                if parameter not in KEPT.get(cls, ("",))[0].split():
                    found.append(f"{cls}({parameter})")
                used.add((cls, parameter))
    assert not found, f"kept, and read by nothing: {found}"
    stale = [(cls, p) for cls, (names, _) in KEPT.items() for p in names.split() if (cls, p) not in used]
    assert not stale, f"read after all, or gone: {stale}"


def texts_of(*names):
    """The texts by which options are looked up in modules; dict(name=...) is no look-up."""
    return {
        node.value
        for name in names
        for node in ast.walk(modules()[name])
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.parametrize(
    "name",
    [
        "ASGD",
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "Adamax",
        "LBFGS",
        "Muon",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "SGD",
        "SparseAdam",
    ],
)
def test_every_option_of_an_optimizer_is_looked_up(name):
    cls = getattr(tessera.optim, name)
    params = [tessera.nn.Parameter(tessera.ones(2, 2))]
    defaults = cls(params).defaults
    bases = [c.__module__ for c in cls.__mro__ if c.__module__.startswith("tessera.")]
    looked_up = texts_of(*bases, "tessera.optim.optimizer")
    assert set(defaults) - looked_up - set(OPTIONS) == set()
