#include "tensor/core/generator.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "tensor/core/error.h"

namespace tessera {

uint64_t GeneratorImpl::seed() {
  std::random_device source;
  const uint64_t high = source();
  const uint64_t value = (high << 32) | source();
  manual_seed(value);
  return value;
}

void Mt19937::reseed(uint32_t seed) {
  state_[0] = seed;
  for (uint32_t i = 1; i < kWords; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  position_ = kWords;
  fresh_ = true;
}

namespace {
inline uint32_t twist(uint32_t a, uint32_t b) {
  const uint32_t y = (a & 0x80000000u) | (b & 0x7fffffffu);
  return (y >> 1) ^ (-(b & 1u) & 0x9908b0dfu);
}
}  // namespace

// Three loops instead of one modulo 624, so that each is free of short dependences and becomes SIMD code.
void Mt19937::refill() {
  constexpr int kShift = 397;
  uint32_t* s = state_;
  for (int i = 0; i < kWords - kShift; ++i) s[i] = s[i + kShift] ^ twist(s[i], s[i + 1]);
  for (int i = kWords - kShift; i < kWords - 1; ++i) s[i] = s[i + kShift - kWords] ^ twist(s[i], s[i + 1]);
  s[kWords - 1] = s[kShift - 1] ^ twist(s[kWords - 1], s[0]);
  position_ = 0;
  fresh_ = false;
}

void Mt19937::fill(uint32_t* out, int64_t n) {
  while (n > 0) {
    if (position_ >= kWords) refill();
    const int64_t m = std::min<int64_t>(n, kWords - position_);
    const uint32_t* s = state_ + position_;
    for (int64_t i = 0; i < m; ++i) out[i] = temper(s[i]);
    position_ += static_cast<int32_t>(m);
    out += m;
    n -= m;
  }
}

namespace {

// The documented state, byte for byte (64-bit little endian).
struct StateBytes {
  uint64_t seed;
  int32_t left;        // numbers until the next refill, plus one
  int32_t seeded;
  uint64_t next;       // index of the next word
  uint64_t words[Mt19937::kWords];
  double normal_x, normal_y, normal_rho;  // only y is in use: the waiting double normal
  int32_t normal_is_valid;
  int32_t padding0;
  float next_float;
  uint8_t next_float_is_valid;
  uint8_t padding1[3];
};
static_assert(sizeof(StateBytes) == CpuGeneratorImpl::kStateBytes);

}  // namespace

CpuGeneratorImpl::CpuGeneratorImpl(uint64_t seed) : GeneratorImpl(DeviceType::kCPU), seed_(seed), engine_(static_cast<uint32_t>(seed)) {}

void CpuGeneratorImpl::manual_seed(uint64_t seed) {
  std::lock_guard lock(mutex());
  seed_ = seed;
  engine_.reseed(static_cast<uint32_t>(seed));
  next_float_normal.reset();
  next_double_normal.reset();
}

uint64_t CpuGeneratorImpl::initial_seed() const {
  std::lock_guard lock(mutex());
  return seed_;
}

std::vector<uint8_t> CpuGeneratorImpl::get_state() const {
  StateBytes s;
  std::memset(&s, 0, sizeof(s));
  {
    std::lock_guard lock(mutex());
    s.seed = seed_;
    s.seeded = 1;
    // A just seeded engine counts its words as one past their end.
    s.left = engine_.fresh_ ? 1 : Mt19937::kWords + 1 - engine_.position_;
    s.next = engine_.fresh_ ? 0 : static_cast<uint64_t>(engine_.position_);
    std::copy(engine_.state_, engine_.state_ + Mt19937::kWords, s.words);
    s.normal_y = next_double_normal.value_or(0);
    s.normal_is_valid = next_double_normal.has_value();
    s.next_float = next_float_normal.value_or(0);
    s.next_float_is_valid = next_float_normal.has_value();
  }
  std::vector<uint8_t> bytes(sizeof(s));
  std::memcpy(bytes.data(), &s, sizeof(s));
  return bytes;
}

void CpuGeneratorImpl::set_state(std::span<const uint8_t> bytes) {
  TESSERA_CHECK(bytes.size() == kStateBytes, "Expected a CPUGeneratorImplState of size ", kStateBytes,
                " but found the input RNG state size to be ", bytes.size());
  StateBytes s;
  std::memcpy(&s, bytes.data(), sizeof(s));
  const uint32_t next = static_cast<uint32_t>(s.next);
  TESSERA_CHECK(s.seeded != 0 && s.left > 0 && s.left <= Mt19937::kWords && next <= Mt19937::kWords, "Invalid mt19937 state");
  std::lock_guard lock(mutex());
  seed_ = s.seed;
  for (int i = 0; i < Mt19937::kWords; ++i) engine_.state_[i] = static_cast<uint32_t>(s.words[i]);
  // left == 1: the words are used up. States made by hand, where left and next disagree, go on at next and stay inside the words.
  engine_.fresh_ = s.left == 1 && next == 0;
  engine_.position_ = s.left == 1 ? Mt19937::kWords : static_cast<int32_t>(next);
  next_double_normal.reset();
  if (s.normal_is_valid) next_double_normal = s.normal_y;
  next_float_normal.reset();
  if (s.next_float_is_valid) next_float_normal = s.next_float;
}

IntrusivePtr<GeneratorImpl> CpuGeneratorImpl::clone() const {
  auto copy = make_intrusive<CpuGeneratorImpl>();
  std::lock_guard lock(mutex());
  copy->seed_ = seed_;
  copy->engine_ = engine_;
  copy->next_float_normal = next_float_normal;
  copy->next_double_normal = next_double_normal;
  return copy;
}

void CpuGeneratorImpl::set_offset(uint64_t) { internal::raise<Error>("CPU Generator does not use offset"); }
uint64_t CpuGeneratorImpl::get_offset() const { internal::raise<Error>("CPU Generator does not use offset"); }

Generator make_cpu_generator(uint64_t seed) { return Generator(make_intrusive<CpuGeneratorImpl>(seed)); }

const Generator& default_cpu_generator() {
  // Never destroyed: threads may still draw while the process ends.
  static const Generator& generator = *new Generator(make_cpu_generator());
  return generator;
}

CpuGeneratorImpl& cpu_generator_or_default(const Generator& generator) {
  GeneratorImpl* g = generator ? generator.get() : default_cpu_generator().get();
  TESSERA_CHECK(g->device().is_cpu(), "Expected a 'cpu' device type for generator but found '", device_type_name(g->device().type), "'");
  return *static_cast<CpuGeneratorImpl*>(g);
}

}  // namespace tessera
