// Attention in float for each SIMD target.
#define TESSERA_ATTENTION_T float

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/attention/attention_f32.cc"
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/attention/attention_internal.h"
#include "tensor/cpu/pointwise/convert.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"
#include "nn/cpu/attention/attention_backward-inl.h"  // last: these use the headers above
#include "nn/cpu/attention/attention_forward-inl.h"

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(Forward);
TESSERA_SIMD_TABLE(Backward);

void attention_forward_f32(const ForwardCall& call) { TESSERA_SIMD(Forward)(call, {}); }
void attention_backward_f32(const BackwardCall& call) { TESSERA_SIMD(Backward)(call, {}); }

}  // namespace tessera::cpu::internal
#endif
