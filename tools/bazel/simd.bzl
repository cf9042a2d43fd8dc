"""Libraries with Highway kernels."""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//tools/bazel:implementation.bzl", "linked")

# foreach_target.h compiles a file for the static target (SSE4, the baseline of .bazelrc) and for AVX2 and AVX3, and for no other one, so that the
# tables of tensor/cpu/support/simd.h have exactly these three columns.
SIMD_COPTS = [
    "-DHWY_BASELINE_TARGETS=HWY_SSE4",
    "-DHWY_DISABLED_TARGETS=(HWY_SCALAR|HWY_EMU128|HWY_SSSE3|HWY_AVX3_DL)",
    # GCC 12 warns in its own AVX-512 headers (uninitialized __Y), see its bug 105593.
    "-Wno-uninitialized",
    "-Wno-maybe-uninitialized",
    # The baseline's tuning is older than AVX2: it would split every unaligned load and store of 32 bytes.
    "-mno-avx256-split-unaligned-load",
    "-mno-avx256-split-unaligned-store",
    # SSE4 for size.
    "-include",
    "tensor/cpu/support/simd_options.h",
]

def simd_library(name, srcs = [], hdrs = [], copts = [], deps = [], implementation_deps = [], textual_hdrs = [], visibility = None):
    """A library whose files include hwy/foreach_target.h; see tensor/cpu/support/simd.h for how a kernel file looks.

    Args:
      name: of the library; NAME_kernels is the one that compiles srcs.
      srcs: as for cc_library.
      hdrs: as for cc_library.
      copts: for srcs.
      deps: as for cc_library.
      implementation_deps: what srcs include besides.
      textual_hdrs: as for cc_library.
      visibility: as for any rule.
    """
    deps = deps + ["@system//:hwy", "//tensor/cpu/support:simd"]
    files = [s for s in srcs if s.endswith(".cc")]
    if files:
        cc_library(
            name = name + "_kernels",
            srcs = srcs,
            hdrs = hdrs,
            copts = SIMD_COPTS + copts,
            textual_hdrs = textual_hdrs,
            deps = deps + implementation_deps + ["//tensor/cpu/support:simd_options"],
            visibility = ["//visibility:private"],
        )
        linked(name = name + "_linked", deps = [":%s_kernels" % name], visibility = ["//visibility:private"])
        deps = deps + [":%s_linked" % name]
    cc_library(
        name = name,
        srcs = [s for s in srcs if s not in files],
        hdrs = hdrs,
        textual_hdrs = textual_hdrs,
        deps = deps,
        visibility = visibility,
    )
