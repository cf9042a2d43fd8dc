// Random generators: the shared state behind torch.Generator, and the CPU one, a Mersenne twister whose stream and
// state bytes are PyTorch's.
//
// The twister is MT19937 of M. Matsumoto and T. Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed
// uniform pseudo-random number generator", ACM TOMACS 8 (1998), seeded with the initialisation of 2002 by the low 32
// bits of the seed.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "tensor/core/device.h"
#include "tensor/core/intrusive.h"

namespace tessera {

// The seed of a generator that nobody has seeded.
inline constexpr uint64_t kDefaultSeed = 67280421310721ull;

// What a sampler of any device needs from its generator. The public functions lock the mutex themselves; a sampler
// locks it once for its whole call and then only uses the unlocked functions of its device's class.
class GeneratorImpl : public RefCounted {
 public:
  explicit GeneratorImpl(Device device) : device_(device) {}

  Device device() const { return device_; }
  std::mutex& mutex() const { return mutex_; }

  // Restarts the stream. Negative seeds of Python arrive here modulo 2^64.
  virtual void manual_seed(uint64_t seed) = 0;
  virtual uint64_t initial_seed() const = 0;
  // Seeds from the operating system's source of randomness and returns that seed.
  uint64_t seed();
  // The whole state as the bytes that get_rng_state returns.
  virtual std::vector<uint8_t> get_state() const = 0;
  // Throws Error, and changes nothing, if the bytes are not a state.
  virtual void set_state(std::span<const uint8_t> bytes) = 0;
  // An independent generator in the same state.
  virtual IntrusivePtr<GeneratorImpl> clone() const = 0;
  // Position in a counter-based stream: Error on the devices whose generator has none.
  virtual void set_offset(uint64_t offset) = 0;
  virtual uint64_t get_offset() const = 0;

 private:
  const Device device_;
  mutable std::mutex mutex_;
};

// A nullable, cheap to copy handle: the type of every `generator` argument.
class Generator {
 public:
  Generator() = default;
  Generator(std::nullptr_t) {}
  explicit Generator(IntrusivePtr<GeneratorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return static_cast<bool>(impl_); }
  explicit operator bool() const { return defined(); }
  GeneratorImpl* get() const { return impl_.get(); }
  GeneratorImpl* operator->() const { return impl_.get(); }
  const IntrusivePtr<GeneratorImpl>& impl() const { return impl_; }
  friend bool operator==(const Generator& a, const Generator& b) { return a.impl_ == b.impl_; }

 private:
  IntrusivePtr<GeneratorImpl> impl_;
};

// The bare engine.
class Mt19937 {
 public:
  static constexpr int kWords = 624;

  explicit Mt19937(uint32_t seed) { reseed(seed); }
  void reseed(uint32_t seed);
  uint32_t next() {
    if (position_ >= kWords) refill();
    return temper(state_[position_++]);
  }
  // The next n numbers of the stream; the same as n calls of next().
  void fill(uint32_t* out, int64_t n);

 private:
  friend class CpuGeneratorImpl;
  static uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
  }
  void refill();

  uint32_t state_[kWords];
  int32_t position_ = kWords;  // the word that the next number is made of
  bool fresh_ = true;          // seeded and not refilled yet: only the state bytes show it
};

class CpuGeneratorImpl final : public GeneratorImpl {
 public:
  // sizeof of the documented state: a uint64 seed, int32 left, int32 seeded, uint64 next, 624 uint64 words, three
  // doubles and an int32 for the waiting double normal, 4 bytes of padding, a float and a bool for the waiting float
  // normal, 3 bytes of padding.
  static constexpr size_t kStateBytes = 5056;

  explicit CpuGeneratorImpl(uint64_t seed = kDefaultSeed);

  void manual_seed(uint64_t seed) override;
  uint64_t initial_seed() const override;
  std::vector<uint8_t> get_state() const override;
  void set_state(std::span<const uint8_t> bytes) override;
  IntrusivePtr<GeneratorImpl> clone() const override;
  [[noreturn]] void set_offset(uint64_t offset) override;
  [[noreturn]] uint64_t get_offset() const override;

  // For samplers, which hold the mutex.
  uint32_t random() { return engine_.next(); }
  uint64_t random64() {
    const uint64_t high = engine_.next();
    return (high << 32) | engine_.next();
  }
  void fill(uint32_t* out, int64_t n) { engine_.fill(out, n); }
  // The second number of a Box-Muller pair waits here for the next scalar draw.
  std::optional<float> next_float_normal;
  std::optional<double> next_double_normal;

 private:
  uint64_t seed_;
  Mt19937 engine_;
};

// A new CPU generator with the default seed.
Generator make_cpu_generator(uint64_t seed = kDefaultSeed);
// The generator that samplers use when none is given: one for the process, made on first use.
const Generator& default_cpu_generator();
// The CPU generator to draw from: the given one, or the default. Throws Error if it belongs to another device.
CpuGeneratorImpl& cpu_generator_or_default(const Generator& generator);

}  // namespace tessera
