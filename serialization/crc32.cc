// Long data are folded: 64 bytes at a time by carry-less products, which leave 16 bytes with the same remainder (V. Gopal and others, "Fast CRC computation for generic
// polynomials using PCLMULQDQ instruction", Intel, 2009). The rest goes by tables.
#include "serialization/crc32.h"

#include <array>
#include <cstring>

#if defined(__PCLMUL__)
#include <immintrin.h>
#endif

namespace tessera::serialization {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// Eight tables let eight bytes go at once.
const Tables& tables() {
  static const Tables* const made = [] {
    auto* t = new Tables;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
      (*t)[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; ++i)
      for (int k = 1; k < 8; ++k) (*t)[k][i] = ((*t)[k - 1][i] >> 8) ^ (*t)[0][(*t)[k - 1][i] & 255];
    return t;
  }();
  return *made;
}

// The register after n bytes, without the inversions before and after.
uint32_t by_tables(const uint8_t* p, size_t n, uint32_t c) {
  const Tables& t = tables();
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t v;
    std::memcpy(&v, p, 8);
    v ^= c;
    c = t[7][v & 255] ^ t[6][(v >> 8) & 255] ^ t[5][(v >> 16) & 255] ^ t[4][(v >> 24) & 255] ^ t[3][(v >> 32) & 255] ^ t[2][(v >> 40) & 255] ^ t[1][(v >> 48) & 255] ^ t[0][v >> 56];
  }
  for (; n; --n) c = t[0][(c ^ *p++) & 255] ^ (c >> 8);
  return c;
}

#if defined(__PCLMUL__)
// x^n modulo the polynomial, bits reversed, one place up: a factor for carry-less products of reversed numbers.
constexpr int64_t power(int n) {
  uint32_t r = 1;
  for (int i = 0; i < n; ++i) r = (r << 1) ^ (r >> 31 ? 0x04c11db7u : 0);
  uint64_t reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= static_cast<uint64_t>(r >> i & 1) << (31 - i);
  return static_cast<int64_t>(reversed << 1);
}
// What moves 16 bytes kBits behind, onto `next`.
template <int kBits>
inline __m128i fold(__m128i x, __m128i next) {
  constexpr int64_t kHigh = power(kBits - 32), kLow = power(kBits + 32);
  const __m128i factors = _mm_set_epi64x(kHigh, kLow);
  return _mm_xor_si128(next, _mm_xor_si128(_mm_clmulepi64_si128(x, factors, 0x00), _mm_clmulepi64_si128(x, factors, 0x11)));
}

uint32_t by_products(const uint8_t* p, size_t n, uint32_t c) {
  const auto at = [&](size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i)); };
  __m128i x0 = _mm_xor_si128(at(0), _mm_cvtsi32_si128(static_cast<int>(c))), x1 = at(16), x2 = at(32), x3 = at(48);
  size_t i = 64;
  for (; i + 64 <= n; i += 64) {
    x0 = fold<512>(x0, at(i));
    x1 = fold<512>(x1, at(i + 16));
    x2 = fold<512>(x2, at(i + 32));
    x3 = fold<512>(x3, at(i + 48));
  }
  x3 = fold<128>(fold<128>(fold<128>(x0, x1), x2), x3);
  uint8_t rest[16];
  std::memcpy(rest, &x3, 16);
  return by_tables(p + i, n - i, by_tables(rest, 16, 0));
}
#endif

}  // namespace

uint32_t crc32(std::span<const uint8_t> data, uint32_t start) {
#if defined(__PCLMUL__)
  if (data.size() >= 64) return ~by_products(data.data(), data.size(), ~start);
#endif
  return ~by_tables(data.data(), data.size(), ~start);
}

}  // namespace tessera::serialization
