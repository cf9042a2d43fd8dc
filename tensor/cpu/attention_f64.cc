// Attention in double for each SIMD target.
#define TESSERA_ATTENTION_T double

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/attention_f64.cc"
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/attention_internal.h"
#include "tensor/cpu/convert.h"
#include "tensor/cpu/scratch.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/attention_forward-inl.h"  // last: it uses the headers above

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(Forward);

void attention_forward_f64(const ForwardCall& call) { TESSERA_SIMD(Forward)(call, {}); }

}  // namespace tessera::cpu::internal
#endif
