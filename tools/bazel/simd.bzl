"""Libraries with Highway kernels."""

load("@rules_cc//cc:defs.bzl", "cc_library")

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
]

def simd_library(name, copts = [], deps = [], **kwargs):
    """A cc_library whose files include hwy/foreach_target.h; see tensor/cpu/support/simd.h for how a kernel file looks."""
    cc_library(name = name, copts = SIMD_COPTS + copts, deps = deps + ["@system//:hwy", "//tensor/cpu/support:simd"], **kwargs)
