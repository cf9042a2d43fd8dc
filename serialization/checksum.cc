#include "serialization/checksum.h"

#include <immintrin.h>
#include <zlib.h>

#include <cstring>
#include <vector>

#include "tensor/core/parallel.h"

namespace tessera::serialization {

// zlib's crc32 takes as long for a byte as reading it from a file that is in memory does; on one thread a large
// checkpoint would load in twice the time. So long data are folded here, 64 bytes at a time by carry-less products,
// which leave 16 bytes with the same remainder (V. Gopal and others, "Fast CRC computation for generic polynomials
// using PCLMULQDQ instruction", Intel, 2009), and zlib does the rest.
namespace {

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
  return _mm_xor_si128(next,
                       _mm_xor_si128(_mm_clmulepi64_si128(x, factors, 0x00), _mm_clmulepi64_si128(x, factors, 0x11)));
}

// CRC-32 of at least 64 bytes.
uint32_t by_products(std::span<const uint8_t> data, uint32_t start) {
  const auto at = [&](size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data.data() + i)); };
  __m128i x0 = _mm_xor_si128(at(0), _mm_cvtsi32_si128(static_cast<int>(~start))), x1 = at(16), x2 = at(32), x3 = at(48);
  size_t i = 64;
  for (; i + 64 <= data.size(); i += 64) {
    x0 = fold<512>(x0, at(i));
    x1 = fold<512>(x1, at(i + 16));
    x2 = fold<512>(x2, at(i + 32));
    x3 = fold<512>(x3, at(i + 48));
  }
  x3 = fold<128>(fold<128>(fold<128>(x0, x1), x2), x3);
  uint8_t rest[16];
  std::memcpy(rest, &x3, sizeof rest);
  const uLong folded = ::crc32_z(0xffffffff, rest, sizeof rest);  // from an empty register
  return static_cast<uint32_t>(::crc32_z(folded, data.data() + i, data.size() - i));
}

}  // namespace

uint32_t crc32(std::span<const uint8_t> data, uint32_t start) {
  if (data.size() >= 64) return by_products(data, start);
  return data.empty() ? start : static_cast<uint32_t>(::crc32_z(start, data.data(), data.size()));
}

uint32_t join_checksums(std::span<const uint32_t> pieces, uint64_t size) {
  if (pieces.empty()) return 0;
  const z_off64_t last = static_cast<z_off64_t>(size - (pieces.size() - 1) * kPiece);
  uLong crc = pieces[0];
  if (pieces.size() > 1) {
    const uLong whole = ::crc32_combine_gen(kPiece);
    for (size_t i = 1; i + 1 < pieces.size(); ++i) crc = ::crc32_combine_op(crc, pieces[i], whole);
    crc = ::crc32_combine_op(crc, pieces.back(), ::crc32_combine_gen(last));
  }
  return static_cast<uint32_t>(crc);
}

uint32_t parallel_crc32(std::span<const uint8_t> data) {
  std::vector<uint32_t> pieces(count_pieces(data.size()));
  parallel_for(static_cast<int64_t>(data.size()), kPiece,
               [&](int64_t begin, int64_t end) { pieces[begin / kPiece] = crc32(data.subspan(begin, end - begin)); });
  return join_checksums(pieces, data.size());
}

}  // namespace tessera::serialization
