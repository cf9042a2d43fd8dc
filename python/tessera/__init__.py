"""Tessera: tensors, automatic differentiation and neural networks, with PyTorch's documented API.

Only the extension module is loaded here. Everything else loads on first use, see `_lazy.py`:

    >>> import tessera
    >>> tessera.nn.Linear(2, 1).weight.shape
    tessera.Size([1, 2])
"""

import math as _math
import sys as _sys

# How the library calls itself in messages and reprs; "torch" under `python -m tessera`.
_display_name = "tessera"

from tessera import _C
from tessera._lazy import attach as _attach
from tessera.version import __version__

# Graphs of programs and their types, by the names of the extension.
_program_names = (
    *("AliasDb", "AnyType", "AwaitType", "Block", "BoolType", "ClassType", "CompilationUnit", "ComplexType"),
    *(
        "DeviceObjType",
        "DictType",
        "EnumType",
        "FloatType",
        "FutureType",
        "Graph",
        "InferredType",
        "IntType",
        "InterfaceType",
    ),
    *("JITException", "ListType", "Node", "NoneType", "NumberType", "OptionalType", "PyObjectType", "RRefType"),
    *("ScriptMethod", "StreamObjType", "StringType", "SymBoolType", "SymIntType", "TensorType", "TupleType", "Type"),
    *("UnionType", "Use", "Value", "fork", "parse_ir", "parse_schema", "unify_type_list", "wait"),
)
# Modules that programs look for inside of the extension, and that are written in Python.
_C.__path__ = [__path__[0] + "/_c_modules"]
_C.__getattr__, _ = _attach(
    _C.__name__,
    {
        "DisableTorchFunction": ":tessera.overrides",
        "DisableTorchFunctionSubclass": ":tessera.overrides",
        "DispatchKey": ":tessera._ops",
        "DispatchKeySet": ":tessera._ops",
        "_ExcludeDispatchKeyGuard": ":tessera._ops ExcludeKeys",
        "_IncludeDispatchKeyGuard": ":tessera._ops IncludeKeys",
        "FunctionSchema": ":tessera._ops",
        "Future": ":tessera.futures",
        "PyTorchFileReader": ":tessera._archive_files",
        "PyTorchFileWriter": ":tessera._archive_files",
        "ScriptFunction": ":tessera.jit",
        "ScriptModule": ":tessera.jit",
        "ScriptObject": ":tessera.jit._objects",
        "Tag": ":tessera._ops",
        "_TensorMeta": ":tessera._C._types",
        **{name: ":tessera._C._types" for name in _program_names},
        **dict.fromkeys(("_are_functorch_transforms_active", "_get_accelerator"), ":tessera._C._host"),
        **dict.fromkeys(("_get_default_device", "_is_torch_function_mode_enabled"), ":tessera._C._host"),
        "_is_alias_of": ":tessera._C._host",
        "_log_api_usage_once": ":tessera._C._host",
    },
)
_C._functorch.__path__ = []
_C._functorch.__getattr__, _ = _attach(_C._functorch.__name__, {"is_legacy_batchedtensor": ":tessera._C._host"})
_sys.modules[_C._profiler.__name__], _C._profiler.__path__ = _C._profiler, []
_C._profiler.__getattr__, _ = _attach(
    _C._profiler.__name__,
    {name: ":tessera.profiler._kinds" for name in ("_ExperimentalConfig", "ProfilerActivity", "RecordScope")},
)

# Types, dtypes, layouts and the functions that the extension defines.
_core_names = [name for name in _C.__dict__ if not name.startswith("_") and type(_C.__dict__[name]) is not type(_sys)]
# Operators that are called through Python: these names come from functional.py.
_functional_names = (
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "combinations",
    "einsum",
    "gradient",
    "histogramdd",
    "lu",
    "meshgrid",
    "norm",
    "segment_reduce",
    "split",
    "tensordot",
    "unique",
    "unique_consecutive",
    "unravel_index",
)
_core_names = [name for name in _core_names if name not in _functional_names]
_private_operators = [name for name in _C.__dict__ if name.startswith("_") and type(_C.__dict__[name]) is type(_C.add)]
globals().update((name, _C.__dict__[name]) for name in _core_names + _private_operators)

# From here on names such as `float`, `bool` and `sum` are the library's.
if "Tensor" not in _core_names:
    Tensor = _C.TensorBase
    _core_names.append("Tensor")

inf = _math.inf
nan = _math.nan
pi = _math.pi
e = _math.e
newaxis = None
USE_GLOBAL_DEPS, USE_RTLD_GLOBAL_WITH_LIBTORCH = False, False
torch = _sys.modules[__name__]  # "torch.torch"
legacy_contiguous_format = _C.contiguous_format

# Public name -> module that defines it, loaded when the name is first used.
_lazy_names = {
    "Generator": "_C",
    "GradScaler": "amp.grad_scaler",
    "autocast": "amp.autocast_mode",
    "_nested_view_from_buffer": "nested._strided from_description",
    "align_tensors": "_named",
    "cond": "_higher_order_ops.cond",
    "while_loop": "_higher_order_ops.while_loop",
    "Event": "accelerator._streams",
    "Stream": "accelerator._streams",
    "TypedStorage": "storage",
    "UntypedStorage": "storage",
    "enable_grad": "autograd.grad_mode",
    "explain": "_root.explain",
    "finfo": "_root.type_info",
    "fork_rng": "random",
    "from_dlpack": "utils.dlpack",
    "from_file": "_api",
    "get_device": "_api",
    "_convert_indices_from_coo_to_csr": "sparse._indices",
    "_convert_indices_from_csr_to_coo": "sparse._indices",
    "_segment_reduce": "functional segment_reduce",
    "get_default_device": "utils._device",
    "get_rng_state": "random",
    "iinfo": "_root.type_info",
    "inference_mode": "autograd.grad_mode",
    "initial_seed": "random",
    "_shape_as_tensor": "_api",
    **dict.fromkeys(("has_cuda", "has_cudnn", "has_mkldnn", "has_mps"), "_api"),
    "has_lapack": "_api",
    "has_mkl": "_api",
    "has_openmp": "_api",
    "has_spectral": "_api",
    "is_storage": "_api",
    "is_tensor": "_api",
    "load": "serialization",
    "lobpcg": "_lobpcg",
    "manual_seed": "random",
    "no_grad": "autograd.grad_mode",
    "pca_lowrank": "_lowrank",
    "PyTorchFileReader": "_archive_files",
    "PyTorchFileWriter": "_archive_files",
    "ScriptFunction": "jit",
    "ScriptModule": "jit",
    "Future": "futures",
    "DisableTorchFunction": "overrides",
    "DisableTorchFunctionSubclass": "overrides",
    "save": "serialization",
    "seed": "random",
    "set_default_device": "utils._device",
    "set_default_tensor_type": "_api",
    "set_grad_enabled": "autograd.grad_mode",
    "set_printoptions": "_tensor_str",
    "set_rng_state": "random",
    "svd_lowrank": "_lowrank",
    "to_dlpack": "utils.dlpack",
    "typename": "_api",
    "vmap": "func._vmap",
    "_assert": "_api",
    "_assert_async": "_api",
    "compile": "_dynamo._compile",
    "default_generator": "random",
    "Tag": "_ops",
    "ctc_loss": "nn._functional.ctc",
    "DispatchKey": "_ops",
    "DispatchKeySet": "_ops",
    "ExcludeDispatchKeyGuard": "_ops ExcludeKeys",
    "FunctionSchema": "_ops",
    "Argument": "_ops",
    "FileCheck": "testing",
    "Storage": "storage FloatStorage",
    "ThroughputBenchmark": "utils.throughput_benchmark",
    "ops": "_ops",
    "read_vitals": "_root.vitals",
    "set_vital": "_root.vitals",
    "vitals_enabled": "_root.vitals",
    "classes": "_root.classes",
    "ScriptObject": "jit._objects",
    "__all__": "_api _public_names",
}
for _name in _functional_names:
    _lazy_names[_name] = "functional"
for _name in _program_names:
    _lazy_names[_name] = "_C._types"
for _name in (
    "are_deterministic_algorithms_enabled",
    "compiled_with_cxx11_abi",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_float32_matmul_precision",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_warn_always",
    "use_deterministic_algorithms",
):
    _lazy_names[_name] = "_root.settings"
for _name in ("coo", "compressed", "csr", "csc", "bsr", "bsc"):
    _lazy_names[f"sparse_{_name}_tensor"] = "sparse._factories"
    if len(_name) == 3 and _name != "coo":
        _lazy_names[f"_sparse_{_name}_tensor_unsafe"] = "sparse._factories"
        _lazy_names[f"_validate_sparse_{_name}_tensor_args"] = "sparse._factories"
_lazy_names.update(spmm="_C mm", dsmm="_C mm", hsmm="_C hspmm", saddmm="_C sspaddmm")
for _name in (
    "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all",
    "_check_tensor_all_with", "_check_type",
    "_check_value", "_check_with", "SymBool", "SymFloat", "SymInt", "sym_float", "sym_fresh_size", "sym_int",
    "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum", "_sym_acos", "_sym_asin", "_sym_atan",
    "_sym_cos", "_sym_cosh", "_sym_log2", "_sym_sin", "_sym_sinh", "_sym_sqrt", "_sym_tan", "_sym_tanh",
):  # fmt: skip
    _lazy_names[_name] = "_symbolic"
for _name in (
    "_empty_affine_quantized", "_empty_per_channel_affine_quantized", "_make_per_channel_quantized_tensor",
    "_make_per_tensor_quantized_tensor", "dequantize", "empty_quantized", "fake_quantize_per_channel_affine",
    "fake_quantize_per_tensor_affine", "int_repr", "per_channel_affine", "per_channel_affine_float_qparams",
    "per_channel_symmetric", "per_tensor_affine", "per_tensor_symmetric", "q_per_channel_axis", "q_per_channel_scales",
    "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme", "quantize_per_channel", "quantize_per_tensor",
    "quantize_per_tensor_dynamic", "quantized_batch_norm", "quantized_max_pool1d", "quantized_max_pool2d",
    "quantized_max_pool3d",
):  # fmt: skip
    _lazy_names[_name] = "_root.quantized"
for _name in (
    "AVG", "FatalError", "SUM", "affine_grid_generator", "batch_norm_backward_elemt", "batch_norm_backward_reduce",
    "batch_norm_elemt", "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts", "batch_norm_stats",
    "batch_norm_update_stats", "classproperty", "cudnn_is_acceptable", "get_file_path", "init_num_threads",
    "is_distributed", "is_vulkan_available", "prepare_multiprocessing_environment", "sym_constrain_range",
    "sym_constrain_range_for_size",
):  # fmt: skip
    _lazy_names[_name] = "_root.operators"
for _name in ("gru", "lstm", "rnn_relu", "rnn_tanh"):
    _lazy_names[_name] = _lazy_names[_name + "_cell"] = "nn._recurrent"
for _name in ("eig", "lstsq", "matrix_rank", "solve", "symeig"):
    _lazy_names[_name] = "_linalg_utils"
for _kind in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"):
    _lazy_names[_kind + "Storage"] = "storage"
    _lazy_names[_kind + "Tensor"] = "_root.tensor_types"
for _kind in ("ComplexFloat", "ComplexDouble", "QUInt8", "QInt8", "QInt32", "QUInt4x2", "QUInt2x4"):
    _lazy_names[_kind + "Storage"] = "storage"
del _kind, _name

__getattr__, __dir__ = _attach(__name__, _lazy_names)

# Methods of the extension's types that are written in Python.
from tessera import _tensor, storage

_tensor.install(Tensor)
storage.install(_C.UntypedStorage)
