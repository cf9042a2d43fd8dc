// The orders in which the emulated device does what a real one does in any order: the blocks of a grid, the threads of
// a block between two barriers, the work of streams that do not wait for each other.
//
// Environment: TESSERA_EMULATED_SEED=N draws them from N (without it, or 0: as they are numbered);
// TESSERA_EMULATED_BACKWARDS=1 turns them round.
#pragma once

#include <cstdint>

namespace tessera::cuda::emulation {

// A number below n, the next one of the seed's; 0 without a seed.
uint64_t drawn(uint64_t n);
bool has_seed();

// A permutation of [0, n): place i is (i * step + first) mod n, with a step that n has no divisor in common with.
class Order {
 public:
  explicit Order(uint64_t n);
  uint64_t operator[](uint64_t i) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(i) * step_ + first_) % n_);
  }

 private:
  uint64_t n_, step_ = 1, first_ = 0;
};

}  // namespace tessera::cuda::emulation
