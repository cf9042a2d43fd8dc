"""Settings of the compiler that programs change: those of the capture, under their names."""

from tessera._dynamo import config as _config
from tessera.utils._config_module import install_config_module

job_id = None

_names = (
    "accumulated_recompile_limit allow_unspec_int_on_nn_module assume_static_by_default automatic_dynamic_shapes "
    "capture_dynamic_output_shape_ops capture_scalar_outputs dynamic_shapes enable_cpp_symbolic_shape_guards "
    "fail_on_recompile_limit_hit force_disable_caches log_file_name recompile_limit reorderable_logging_functions "
    "skip_tensor_guards_with_matching_dict_tags verbose wrap_top_frame"
).split()

install_config_module(__name__, {name: (_config, name) for name in _names})
