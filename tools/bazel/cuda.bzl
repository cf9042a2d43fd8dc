"""cuda_library: .cu files compiled by nvcc. Where there is no CUDA toolkit the library, and all that depends on it, is skipped."""

load("@cuda//:defs.bzl", "CUDA_COMPATIBLE", "NVCC")
load("@rules_cc//cc:defs.bzl", "cc_library")

# One architecture keeps nvcc fast; a newer device compiles the embedded PTX itself.
_FLAGS = [
    "-std=c++20", "-O2", "-gencode=arch=compute_90,code=[sm_90,compute_90]", "--expt-relaxed-constexpr", "--extended-lambda",
    "-Xcompiler=-fPIC,-ffunction-sections,-fdata-sections,-march=westmere",
]

def _cuda_objects(ctx):
    context = cc_common.merge_cc_infos(cc_infos = [d[CcInfo] for d in ctx.attr.deps]).compilation_context
    flags = ["-c"] + _FLAGS + ctx.attr.copts + ["-I."]
    for path in context.includes.to_list() + context.quote_includes.to_list():
        flags += ["-I", path]
    for path in context.system_includes.to_list():
        flags += ["-isystem", path]
    flags += ["-D" + d for d in context.defines.to_list()]
    objects = []
    for src in ctx.files.srcs:
        out = ctx.actions.declare_file("%s_%s.o" % (ctx.label.name, src.basename))
        objects.append(out)
        ctx.actions.run(
            executable = NVCC,
            arguments = flags + [src.path, "-o", out.path],
            inputs = depset([src] + ctx.files.hdrs, transitive = [context.headers]),
            outputs = [out],
            mnemonic = "Nvcc",
            progress_message = "Compiling %s" % src.short_path,
            use_default_shell_env = True,
        )
    return [DefaultInfo(files = depset(objects))]

cuda_objects = rule(
    implementation = _cuda_objects,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
    },
)

def cuda_library(name, srcs, hdrs = [], deps = [], copts = [], **kwargs):
    deps = deps + ["@cuda//:cudart"]
    cuda_objects(name = name + "_objects", srcs = srcs, hdrs = hdrs, deps = deps, copts = copts, target_compatible_with = CUDA_COMPATIBLE)
    cc_library(
        name = name,
        srcs = [":%s_objects" % name],
        hdrs = hdrs,
        deps = deps,
        alwayslink = True,
        target_compatible_with = CUDA_COMPATIBLE,
        **kwargs
    )
