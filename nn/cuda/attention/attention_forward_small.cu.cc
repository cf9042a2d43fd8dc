// Attention's forward pass with smaller tiles, for devices whose blocks have 99 KB of shared memory (8.6, 8.9, 12.0).
#include "nn/cuda/attention/attention_forward.h"

namespace tessera::cuda::attention {

bool tiled_forward_small(Job job, Arithmetic arithmetic) {
  bool done = false;
  visit_arithmetic(arithmetic, [&](auto tag) {
    using P = typename decltype(tag)::type;
    done = start < P, 128, 1, sizeof(typename P::Element) == 4 ? 16 : 32 > (job);
  });
  return done;
}

}  // namespace tessera::cuda::attention
