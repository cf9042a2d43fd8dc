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

struct RandomEngines : EngineTable<RandomEngines> {
  TESSERA_RANDOM_ENGINES(TESSERA_ENGINE_MEMBER)
};

}  // namespace tessera

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &RandomEngines::name;
TESSERA_RANDOM_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
