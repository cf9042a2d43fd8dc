"""Libraries with CUDA kernels.

Kernel sources (*.cu.cc) are compiled twice: by nvcc for devices, and by the host's compiler for the emulated device of tensor/cuda/emulation. So
cuda_library(name = "x") defines x and x_emulated, cuda_test(name = "x_test") x_test, which skips its tests where there is no device, and
x_test_emulated. Without a CUDA toolkit those for devices, and what depends on them, are skipped; the emulated ones need its headers alone.
"""

load("@cuda//:defs.bzl", "ARCHITECTURES", "CUDA_COMPATIBLE", "EMULATION_COMPATIBLE", "NVCC")
load("@rules_cc//cc:defs.bzl", "cc_library", "cc_test")

def _gencode(number):
    return "-gencode=arch=compute_%s,code=[%s]" % (number, ",".join([a for a in ARCHITECTURES if a.split("_")[1] == number]))

_FLAGS = [_gencode(a[len("sm_"):]) for a in ARCHITECTURES if a.startswith("sm_")] + [
    "-std=c++20", "-O2", "--expt-relaxed-constexpr", "--extended-lambda",
    "--compress-mode=size",  # a seventh of the default's bytes
    "-Xcompiler=-fPIC,-ffunction-sections,-fdata-sections,-march=westmere,-fno-strict-aliasing,-ffp-contract=off",
]
# What host code says of the kernels (tensor/cuda/runtime/architectures.h).
ARCHITECTURES_DEFINE = "TESSERA_CUDA_ARCHITECTURES=\\\"%s\\\"" % ",".join(ARCHITECTURES)

_EMULATED_FLAGS = ["-O1", "-fno-strict-aliasing", "-Wno-unknown-pragmas", "-Wno-unused-function"]

def _cuda_objects(ctx):
    context = cc_common.merge_cc_infos(cc_infos = [d[CcInfo] for d in ctx.attr.deps]).compilation_context
    toolkit = ctx.attr._toolkit[CcInfo].compilation_context.system_includes.to_list()  # nvcc knows them
    flags = ["-x", "cu", "-c"] + _FLAGS + ctx.attr.copts + ["-I."]
    for path in context.includes.to_list() + context.quote_includes.to_list():
        flags += ["-I", path]
    for path in context.system_includes.to_list():
        if path not in toolkit:
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
        "srcs": attr.label_list(allow_files = [".cu.cc"]),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "_toolkit": attr.label(default = "@cuda//:headers"),
    },
)

def _emulated(labels):
    return [(label if ":" in label else label + ":" + label.split("/")[-1]) + "_emulated" for label in labels]

def _device_srcs(name, srcs, hdrs, deps, **kwargs):
    """The sources for a cc_* rule: kernel sources are replaced by the objects of nvcc."""
    kernels = [s for s in srcs if s.endswith(".cu.cc")]
    others = [s for s in srcs if not s.endswith(".cu.cc")]
    if not kernels:
        return others
    cuda_objects(name = name + "_objects", srcs = kernels, hdrs = hdrs + [s for s in others if s.endswith(".h")], deps = deps, target_compatible_with = CUDA_COMPATIBLE, **kwargs)
    return others + [":%s_objects" % name]

def cuda_library(name, srcs = [], hdrs = [], deps = [], cuda_deps = [], device_deps = [], emulated_srcs = [], emulated_hdrs = [], emulated_deps = [], emulated_defines = [], **kwargs):
    """A library of kernels and host code.

    Args:
      name: of the library for devices; the other one is called NAME_emulated.
      srcs: *.cu.cc, and *.cc that both have.
      hdrs: headers that both have.
      deps: ordinary libraries.
      cuda_deps: other cuda_library's.
      device_deps: libraries that only the one for devices needs.
      emulated_srcs: sources of the other one alone.
      emulated_hdrs: headers of the other one alone.
      emulated_deps: libraries that the other one alone needs.
      emulated_defines: macros for the other one and all that use it.
      **kwargs: for both cc_library's.
    """
    real = deps + cuda_deps + device_deps
    cc_library(name = name, srcs = _device_srcs(name, srcs, hdrs, real), hdrs = hdrs, deps = real, target_compatible_with = CUDA_COMPATIBLE, **kwargs)
    cc_library(
        name = name + "_emulated",
        srcs = srcs + emulated_srcs,
        hdrs = hdrs + emulated_hdrs,
        copts = _EMULATED_FLAGS,
        defines = emulated_defines,
        deps = deps + emulated_deps + _emulated(cuda_deps),
        target_compatible_with = EMULATION_COMPATIBLE,
        **kwargs
    )

def cuda_test(name, srcs, deps = [], cuda_deps = [], **kwargs):
    """A test (*_test.cc, or *_test.cu.cc with kernels of its own) that runs on a device and on the emulated one."""
    real = deps + cuda_deps
    cc_test(name = name, srcs = _device_srcs(name, srcs, [], real, testonly = True), deps = real, target_compatible_with = CUDA_COMPATIBLE, **kwargs)
    cc_test(name = name + "_emulated", srcs = srcs, copts = _EMULATED_FLAGS, tags = ["emulated"], deps = deps + _emulated(cuda_deps), target_compatible_with = EMULATION_COMPATIBLE, **kwargs)
