// Random numbers: which functions serve a device.
#pragma once

#include "tensor/cpu/random/random.h"
#include "tensor/engine/engine.h"

#define TESSERA_RANDOM_ENGINES(F) \
  F(random_uniform)               \
  F(random_normal)                \
  F(random_log_normal)            \
  F(random_bernoulli)             \
  F(random_bernoulli_tensor)      \
  F(random_exponential)           \
  F(random_cauchy)                \
  F(random_geometric)             \
  F(random_full)                  \
  F(random_integers)              \
  F(random_permutation)           \
  F(random_multinomial)           \
  F(random_poisson)               \
  F(random_gamma)                 \
  F(random_binomial)

namespace tessera {

class Tensor;

// Dropout of n dense elements: mask is 1 with probability 1 - p, y = x * mask * scale. Floating dtypes.
using RandomDropout = void(DType dtype, int64_t n, double p, double scale, const void* x, void* y, bool* mask,
                           const Generator& gen);

// The operator over it, which has a derivative: dropout of x with probability p.
using DropAtOnce = Tensor(const Tensor& x, double p);

struct RandomEngines : EngineTable<RandomEngines> {
  TESSERA_RANDOM_ENGINES(TESSERA_ENGINE_MEMBER)
  RandomDropout* random_dropout = nullptr;  // may be null: then it is made of numbers and products
  DropAtOnce* drop_at_once = nullptr;       // set by who links the operator with the device; null: as above
};

}  // namespace tessera

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &RandomEngines::name;
TESSERA_RANDOM_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
