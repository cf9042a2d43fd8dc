#include "tensor/cpu/support/simd.h"

#include <cstdlib>
#include <cstring>

namespace tessera::cpu {
namespace {

constexpr const char* kNames[3] = {"SSE4", "AVX2", "AVX3"};

// Exactly what Highway's AVX2 and AVX3 targets compile for. __builtin_cpu_supports also asks the operating system
// whether it saves the registers.
SimdLevel best_level() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  if (!avx2) return SimdLevel::kSse4;
  const bool avx3 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
  return avx3 ? SimdLevel::kAvx3 : SimdLevel::kAvx2;
}

SimdLevel chosen_level() {
  const SimdLevel best = best_level();
  const char* wanted = std::getenv("TESSERA_SIMD");
  if (wanted == nullptr) return best;
  SimdLevel level = best;
  if (std::strcmp(wanted, "sse4") == 0) level = SimdLevel::kSse4;
  if (std::strcmp(wanted, "avx2") == 0) level = SimdLevel::kAvx2;
  return level < best ? level : best;
}

}  // namespace

SimdLevel simd_level() {
  static const SimdLevel level = chosen_level();
  return level;
}

const char* simd_level_name() { return kNames[static_cast<int>(simd_level())]; }

}  // namespace tessera::cpu
