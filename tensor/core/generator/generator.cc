#include "tensor/core/generator/generator.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

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

constexpr int kShift = 397;

// A vector of words, from and to anywhere in memory.
template <int kBytes>
struct Words {
  typedef uint32_t Vector __attribute__((vector_size(kBytes)));
  static constexpr int kLanes = kBytes / 4;
  [[gnu::always_inline]] static void load(Vector& v, const uint32_t* from) { std::memcpy(&v, from, sizeof v); }
  [[gnu::always_inline]] static void store(const Vector& v, uint32_t* to) { std::memcpy(to, &v, sizeof v); }
};

template <int kBytes>
[[gnu::always_inline]] inline void put_tempered(typename Words<kBytes>::Vector& y, uint32_t* out) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  Words<kBytes>::store(y ^ (y >> 18), out);
}

// The lanes of a and b from number kFirst on.
template <int kFirst, class Vector, int... kLane>
[[gnu::always_inline]] inline void across(Vector& r, const Vector& a, const Vector& b,
                                          std::integer_sequence<int, kLane...>) {
  r = __builtin_shuffle(a, b, Vector{(kFirst + kLane)...});
}

// The stream is x[k + 624] = x[k + 397] ^ twist(x[k], x[k + 1]): the next 624 words take the place of 624, in vectors
// of kBytes. Their numbers go to `out` if kNumbers.
template <int kBytes, bool kNumbers>
[[gnu::always_inline]] inline void next_words(uint32_t* x, uint32_t* out) {
  using W = Words<kBytes>;
  using Vector = typename W::Vector;
  constexpr int kLanes = W::kLanes, kWords = Mt19937::kWords, kOld = (kWords - kShift) / kLanes * kLanes;
  static_assert(kWords % kLanes == 0);
  constexpr auto lanes = std::make_integer_sequence<int, kLanes>();
  Vector here, next, far, first, last;
  const auto put = [&](int k) __attribute__((always_inline)) {
    const Vector both = next ^ ((here ^ next) & 0x80000000u);
    Vector y = far ^ (both >> 1) ^ (-(next & 1u) & 0x9908b0dfu);
    W::store(y, x + k);
    if constexpr (kNumbers) put_tempered<kBytes>(y, out + k);
  };
  const auto twist = [&](int k, int from) __attribute__((always_inline)) {
    W::load(here, x + k);
    W::load(next, x + k + 1);
    W::load(far, x + from);
    put(k);
  };
  int k = 0;
  for (; k < kOld; k += kLanes) twist(k, k + kShift);
  // Two vectors reach over the end: one takes its far words from the last old and the first new ones, the last vector
  // its next words.
  W::load(last, x + kWords - kLanes);
  W::load(first, x);
  W::load(here, x + k);
  W::load(next, x + k + 1);
  across<kOld + kShift - (kWords - kLanes)>(far, last, first, lanes);
  put(k);
  for (k += kLanes; k < kWords - kLanes; k += kLanes) twist(k, k + kShift - kWords);
  W::load(far, x + k + kShift - kWords);
  here = last;
  across<1>(next, last, first, lanes);
  put(k);
}

template <int kBytes>
[[gnu::always_inline]] inline void next_block(uint32_t* x, uint32_t* out) {
  if (out) {
    next_words<kBytes, true>(x, out);
  } else {
    next_words<kBytes, false>(x, nullptr);
  }
}

// The numbers of n words.
template <int kBytes>
[[gnu::always_inline]] inline void temper_words(const uint32_t* words, int64_t n, uint32_t* out) {
  constexpr int kLanes = Words<kBytes>::kLanes;
  typename Words<kBytes>::Vector v;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Words<kBytes>::load(v, words + i);
    put_tempered<kBytes>(v, out + i);
  }
  if (i == n) return;
  uint32_t rest[kLanes] = {};
  std::memcpy(rest, words + i, static_cast<size_t>(n - i) * sizeof(uint32_t));
  Words<kBytes>::load(v, rest);
  put_tempered<kBytes>(v, rest);
  std::memcpy(out + i, rest, static_cast<size_t>(n - i) * sizeof(uint32_t));
}

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512vl")]] void temper_words_512(const uint32_t* words, int64_t n, uint32_t* out) {
  temper_words<64>(words, n, out);
}
[[gnu::target("avx2")]] void temper_words_256(const uint32_t* words, int64_t n, uint32_t* out) {
  temper_words<32>(words, n, out);
}
[[gnu::target("avx512f,avx512vl")]] void next_block_512(uint32_t* x, uint32_t* out) { next_block<64>(x, out); }
[[gnu::target("avx2")]] void next_block_256(uint32_t* x, uint32_t* out) { next_block<32>(x, out); }
#endif

// The widest vectors of this machine: the numbers are the same at any width.
int vector_bytes() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) return 64;
  if (__builtin_cpu_supports("avx2")) return 32;
#endif
  return 16;
}
void next_block_here(uint32_t* x, uint32_t* out) {
#if defined(__x86_64__)
  if (const int bytes = vector_bytes(); bytes > 16)
    return bytes == 64 ? next_block_512(x, out) : next_block_256(x, out);
#endif
  next_block<16>(x, out);
}
void temper_words_here(const uint32_t* words, int64_t n, uint32_t* out) {
#if defined(__x86_64__)
  if (const int bytes = vector_bytes(); bytes > 16)
    return bytes == 64 ? temper_words_512(words, n, out) : temper_words_256(words, n, out);
#endif
  temper_words<16>(words, n, out);
}

}  // namespace

void Mt19937::refill() {
  next_block_here(state_, nullptr);
  position_ = 0;
  fresh_ = false;
}

void Mt19937::fill(uint32_t* out, int64_t n) {
  while (n > 0) {
    if (position_ >= kWords && n >= kWords) {  // a whole block: its words need not be looked at twice
      next_block_here(state_, out);
      fresh_ = false;
      out += kWords;
      n -= kWords;
      continue;
    }
    if (position_ >= kWords) refill();
    const int64_t m = std::min<int64_t>(n, kWords - position_);
    temper_words_here(state_ + position_, m, out);
    position_ += static_cast<int32_t>(m);
    out += m;
    n -= m;
  }
}

namespace {

// The documented state, byte for byte (64-bit little endian).
struct StateBytes {
  uint64_t seed;
  int32_t left;  // numbers until the next refill, plus one
  int32_t seeded;
  uint64_t next;  // index of the next word
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

CpuGeneratorImpl::CpuGeneratorImpl(uint64_t seed)
    : GeneratorImpl(DeviceType::kCPU), seed_(seed), engine_(static_cast<uint32_t>(seed)) {}

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
  TESSERA_CHECK(s.seeded != 0 && s.left > 0 && s.left <= Mt19937::kWords && next <= Mt19937::kWords,
                "Invalid mt19937 state");
  std::lock_guard lock(mutex());
  seed_ = s.seed;
  for (int i = 0; i < Mt19937::kWords; ++i) engine_.state_[i] = static_cast<uint32_t>(s.words[i]);
  // left == 1: the words are used up. States made by hand, where left and next disagree, go on at next and stay inside
  // the words.
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
  TESSERA_CHECK(g->device().is_cpu(), "Expected a 'cpu' device type for generator but found '",
                device_type_name(g->device().type), "'");
  return *static_cast<CpuGeneratorImpl*>(g);
}

}  // namespace tessera
