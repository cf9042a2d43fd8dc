"""Settings of the default backend. It runs graphs operator by operator, so they change nothing yet."""

import types

from tessera.utils._config_module import install_config_module

debug = False
verbose_progress = False
fx_graph_cache = True
fx_graph_remote_cache = None
force_disable_caches = False
max_autotune = False
max_autotune_pointwise = False
max_autotune_gemm = False
max_autotune_gemm_backends = "ATEN,TRITON,CPP"
max_autotune_gemm_search_space = "DEFAULT"
coordinate_descent_tuning = False
coordinate_descent_check_all_directions = False
coordinate_descent_search_radius = 1
epilogue_fusion = True
epilogue_fusion_first = False
pattern_matcher = True
shape_padding = True
freezing = False
cpp_wrapper = False
dce = False
size_asserts = True
nan_asserts = False
fallback_random = False
implicit_fallbacks = True
aggressive_fusion = False
max_fusion_size = 64
unroll_reductions_threshold = 8
compile_threads = 1
benchmark_kernel = False
conv_1x1_as_mm = False
force_fuse_int_mm_with_mul = False
force_same_precision = False
layout_optimization = True
keep_output_stride = True
permute_fusion = False
split_reductions = True
realize_reads_threshold = 4
reorder_for_locality = True
use_mixed_mm = True
mixed_mm_choice = "heuristic"
pre_grad_custom_pass = None
post_grad_custom_pre_pass = None
post_grad_custom_post_pass = None
joint_custom_pre_pass = None
joint_custom_post_pass = None
inplace_buffers = True
allow_buffer_reuse = True
memory_planning = False
search_autotune_cache = False
save_args = False
profile_bandwidth = False
generate_intermediate_hooks = False
emulate_precision_casts = False


class _Group(types.SimpleNamespace):
    """Settings with a common prefix."""


cpp = _Group(threads=-1, simdlen=None, min_chunk_size=4096, enable_concat_linear=False, weight_prepack=True,
             enable_kernel_profile=False, dynamic_threads=False, no_redundant_loops=True, max_horizontal_fusion_size=16,
             fallback_scatter_reduce_sum=True, enable_tiling_heuristics=True, gemm_max_k_slices=1)  # fmt: skip
triton = _Group(
    cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True, descriptive_names="original_aten", max_tiles=None,
    autotune_pointwise=True, persistent_reductions=True, tiling_prevents_pointwise_fusion=True, dense_indexing=False,
    store_cubin=False, cudagraph_skip_dynamic_graphs=False, multi_kernel=0,
)  # fmt: skip
aot_inductor = _Group(output_path="", debug_compile=False, package=False, metadata={}, force_mmap_weights=False)
trace = _Group(enabled=False, debug_dir=None, fx_graph=True, graph_diagram=False, output_code=True)
cuda = _Group(arch=None, version=None, compile_opt_level="-O1", cutlass_dir="")
eager_numerics = _Group(division_rounding=False)


def has_setting(name):
    """Whether there is a setting, also one of a group: "triton.cudagraphs"."""
    return name.replace("-", "_") in names()


def names():
    """All names, those of groups with their prefix."""
    found = []
    for name, value in globals().items():
        if isinstance(value, _Group):
            found += [f"{name}.{inner}" for inner in vars(value)]
        elif name[0] != "_" and not isinstance(value, (type, types.ModuleType, types.FunctionType)):
            found.append(name)
    return sorted(found)


install_config_module(__name__)
