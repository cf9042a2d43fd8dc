#include "tensor/cuda/emulation/orders.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>

namespace tessera::cuda::emulation {
namespace {

uint64_t seed() {
  static const uint64_t value = [] {
    const char* s = std::getenv("TESSERA_EMULATED_SEED");
    return s ? std::strtoull(s, nullptr, 10) : 0;
  }();
  return value;
}

bool backwards() {
  static const bool value = [] {
    const char* s = std::getenv("TESSERA_EMULATED_BACKWARDS");
    return s && std::strcmp(s, "1") == 0;
  }();
  return value;
}

// S. Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", ACM TOMS 42 (2016), and his
// public-domain splitmix64.
uint64_t next() {
  static std::mutex& turn = *new std::mutex;
  static uint64_t state = seed() * 0x9E3779B97F4A7C15u;
  std::lock_guard lock(turn);
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

bool has_seed() { return seed() != 0; }
uint64_t drawn(uint64_t n) { return has_seed() && n > 1 ? next() % n : 0; }

Order::Order(uint64_t n) : n_(n ? n : 1) {
  if (backwards()) {
    step_ = first_ = n_ - 1;
    if (n_ == 1) step_ = 1;
    return;
  }
  if (!has_seed() || n_ < 3) {
    first_ = drawn(n_);
    return;
  }
  first_ = drawn(n_);
  do step_ = 1 + drawn(n_ - 1);
  while (std::gcd(step_, n_) != 1);
}

}  // namespace tessera::cuda::emulation
