// Attention's forward pass with the tiles that suit the largest devices.
#include "nn/cuda/attention/attention_forward.h"

namespace tessera::cuda::attention {

bool tiled_forward(Job job, Arithmetic arithmetic) {
  const int64_t widest = job.shape.dim > job.shape.value_dim ? job.shape.dim : job.shape.value_dim;
  bool done = false;
  visit_arithmetic(arithmetic, [&](auto tag) {
    using P = typename decltype(tag)::type;
    constexpr bool kWide = sizeof(typename P::Element) == 4;
    if (widest <= 64)
      done = start<P, 64, 2, 64>(job);
    else if constexpr (kWide)
      done = start<P, 128, 1, 32>(job);
    else if (widest <= 128)
      done = start<P, 128, 2, 64>(job);
    else
      done = start<P, 256, 1, 32>(job);
  });
  return done || tiled_forward_small(job, arithmetic);
}

}  // namespace tessera::cuda::attention
