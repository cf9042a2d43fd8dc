// Included in front of every file with Highway kernels (tools/bazel/simd.bzl): SSE4's are compiled for size. They are
// for processors of before AVX2 alone, and a third of what is compiled three times.
#pragma once

#include "hwy/base.h"

#if defined(__GNUC__) && !defined(__clang__)
#define TESSERA_SIMD_OPTIONS_N_SSE4 HWY_PRAGMA(GCC optimize "Os")
#define TESSERA_SIMD_OPTIONS_N_AVX2
#define TESSERA_SIMD_OPTIONS_N_AVX3
#define TESSERA_SIMD_OPTIONS(NAMESPACE) HWY_CONCAT(TESSERA_SIMD_OPTIONS_, NAMESPACE)

// What HWY_BEFORE_NAMESPACE() begins with; HWY_AFTER_NAMESPACE() goes back to what was before.
#undef HWY_PUSH_ATTRIBUTES
#define HWY_PUSH_ATTRIBUTES(targets) \
  HWY_PRAGMA(GCC push_options) HWY_PRAGMA(GCC target targets) TESSERA_SIMD_OPTIONS(HWY_NAMESPACE)
#endif
