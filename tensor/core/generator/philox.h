// A counter-based generator: word number n of a stream is a function of the seed and n, so that every thread of a
// device makes its own numbers.
//
// Philox4x32-10 of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/core/generator/generator.h"

namespace tessera {

struct PhiloxWords {
  uint32_t x, y, z, w;
  friend constexpr bool operator==(const PhiloxWords&, const PhiloxWords&) = default;
};

// Four random words: a bijection of the 128-bit counter, chosen by the key.
constexpr PhiloxWords philox(PhiloxWords counter, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  PhiloxWords c = counter;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53u} * c.x, b = uint64_t{0xcd9e8d57u} * c.z;
    c = {static_cast<uint32_t>(b >> 32) ^ c.y ^ k0, static_cast<uint32_t>(b), static_cast<uint32_t>(a >> 32) ^ c.w ^ k1,
         static_cast<uint32_t>(a)};
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c;
}
// The words at `position` (in steps of four words) of one of 2^64 streams.
constexpr PhiloxWords philox_at(uint64_t seed, uint64_t stream, uint64_t position) {
  return philox({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), static_cast<uint32_t>(stream),
                 static_cast<uint32_t>(stream >> 32)},
                seed);
}

// The generator of a CUDA device: a seed, and how many words every stream has given so far.
class PhiloxGeneratorImpl final : public GeneratorImpl {
 public:
  // The documented state: a uint64 seed, then the int64 offset.
  static constexpr size_t kStateBytes = 16;

  explicit PhiloxGeneratorImpl(Device device, uint64_t seed = kDefaultSeed) : GeneratorImpl(device), seed_(seed) {}

  void manual_seed(uint64_t seed) override;  // the offset is 0 again
  uint64_t initial_seed() const override;
  std::vector<uint8_t> get_state() const override;
  // Takes a seed alone too: 8 bytes, the offset is 0 then.
  void set_state(std::span<const uint8_t> bytes) override;
  IntrusivePtr<GeneratorImpl> clone() const override;
  // A multiple of 4: numbers are made four at a time.
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  // Takes n words (rounded up to a multiple of 4) from each stream: where they begin.
  uint64_t reserve(uint64_t n);

 private:
  uint64_t seed_, offset_ = 0;
};

}  // namespace tessera
