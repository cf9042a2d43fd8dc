// Run-time choice of SIMD target for Highway kernels, without Highway's run-time library (so that static programs need
// none).
//
// A kernel file is compiled once per target by Highway's foreach_target.h:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "tensor/cpu/foo.cc"
//   #include "hwy/foreach_target.h"
//   #include "hwy/highway.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace tessera::cpu { namespace HWY_NAMESPACE { void Foo(...) {...} } }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   namespace tessera::cpu {
//   TESSERA_SIMD_TABLE(Foo);                        // one pointer per target
//   void foo(...) { TESSERA_SIMD(Foo)(...); }       // calls the best one for this machine
//   }
//   #endif
//
// The build disables all targets but SSE4 (the baseline), AVX2 and AVX3.
#pragma once

namespace tessera::cpu {

enum class SimdLevel : int { kSse4 = 0, kAvx2 = 1, kAvx3 = 2 };

// The best level of this machine, lowered by the environment variable TESSERA_SIMD=sse4|avx2|avx3; fixed at first use.
SimdLevel simd_level();
const char* simd_level_name();  // "SSE4", "AVX2", "AVX3"

}  // namespace tessera::cpu

#define TESSERA_SIMD_TABLE(F) \
  static constexpr decltype(&N_SSE4::F) F##_simd_table[3] = {&N_SSE4::F, &N_AVX2::F, &N_AVX3::F}
#define TESSERA_SIMD(F) (F##_simd_table[static_cast<int>(::tessera::cpu::simd_level())])
