// The best of something that is there for each SIMD target, templates too, which a TESSERA_SIMD_TABLE cannot name.
#pragma once

#include "tensor/cpu/support/simd.h"

// The address of X in this file's namespace of the SIMD level of this machine.
#define TESSERA_SIMD_CHOICE(...)                                                             \
  (::tessera::cpu::simd_level() == ::tessera::cpu::SimdLevel::kAvx3   ? &N_AVX3::__VA_ARGS__ \
   : ::tessera::cpu::simd_level() == ::tessera::cpu::SimdLevel::kAvx2 ? &N_AVX2::__VA_ARGS__ \
                                                                      : &N_SSE4::__VA_ARGS__)
