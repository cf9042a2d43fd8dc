"""Settings of the capture. `patch` changes some for a while; names that are no settings are errors."""

import os

from tessera.utils._config_module import install_config_module

recompile_limit = 8
accumulated_recompile_limit = 256
fail_on_recompile_limit_hit = False
skip_code_recursive_on_recompile_limit_hit = True
dynamic_shapes = True
assume_static_by_default = True
automatic_dynamic_shapes = True
specialize_int = False
specialize_float = False
allow_unspec_int_on_nn_module = False
force_parameter_static_shapes = True
force_nn_module_property_static_shapes = True
capture_scalar_outputs = os.environ.get("TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS") == "1"
capture_dynamic_output_shape_ops = os.environ.get("TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS") == "1"
suppress_errors = bool(os.environ.get("TORCHDYNAMO_SUPPRESS_ERRORS"))
verbose = os.environ.get("TORCHDYNAMO_VERBOSE") == "1"
disable = os.environ.get("TORCH_COMPILE_DISABLE") == "1"
error_on_recompile = False
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_file_name = None
job_id = None
force_disable_caches = False
wrap_top_frame = False
enable_cpp_symbolic_shape_guards = True
skip_tensor_guards_with_matching_dict_tags = True
reorderable_logging_functions = set()
ignore_logger_methods = set()
optimize_ddp = True
skip_fwd_side_effects_in_bwd_under_checkpoint = False
allow_rnn = False
numpy_default_float = "float64"
numpy_default_complex = "complex128"
numpy_default_int = "int64"
trace_numpy = True
compiled_autograd = False
enable_compiler_collectives = False
cudagraph_backend_keep_input_mutation = False
do_not_emit_runtime_asserts = False
prefer_deferred_runtime_asserts_over_guards = False
fake_tensor_cache_enabled = True
raise_on_ctx_manager_usage = True
inline_torch_dispatch_torch_compile = True
caching_precompile = False

install_config_module(
    __name__,
    {"cache_size_limit": "recompile_limit", "accumulated_cache_size_limit": "accumulated_recompile_limit"},
)
