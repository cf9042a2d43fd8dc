// Packing into the panels of gemm_amx.h, with AVX-512.
#include <immintrin.h>

#include <array>
#include <cstring>

#include "tensor/cpu/gemm/gemm_amx.h"
#include "tensor/cpu/gemm/gemm_amx_beside.h"
#include "tensor/cpu/support/integer.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")

namespace tessera::cpu::internal {
namespace {

constexpr int64_t kTile = 1024;  // bytes

// The lowest n bits, n in [0, 64].
inline __mmask64 low_bits(int64_t n) { return n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1; }

// The transpose of 16 x 16 numbers of 4 bytes.
inline __attribute__((always_inline)) void transpose16(__m512i* v) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
  }
  // Now v[4 i + j] holds, in its 16-byte parts c, the elements 4 c + j of rows 4 i .. 4 i + 3.
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    v[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    v[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    v[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  // A transpose of 4 x 4 parts for each j.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i a = _mm512_shuffle_i32x4(v[j], v[4 + j], 0x88), b = _mm512_shuffle_i32x4(v[j], v[4 + j], 0xdd);
    const __m512i c = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0x88),
                  d = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0xdd);
    t[j] = _mm512_shuffle_i32x4(a, c, 0x88);
    t[4 + j] = _mm512_shuffle_i32x4(b, d, 0x88);
    t[8 + j] = _mm512_shuffle_i32x4(a, c, 0xdd);
    t[12 + j] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) v[i] = t[i];
}

// ---- Lines that are contiguous along k ----

struct Lines {
  const char* data;
  int64_t stride;  // bytes from line to line
  int64_t count;
  int64_t bytes;  // of a line
};

// As they are: A. Some steps of a line at a time, so that its cache lines are read in order.
void copy_lines(const Lines& x, __m512i flip, char* panel) {
  constexpr int64_t kSteps = 4;
  const int64_t steps = (x.bytes + kStepBytes - 1) / kStepBytes;
  if (steps * kStepBytes == x.bytes && x.count == kPanelLines && steps <= kSteps) {
    for (int64_t s = 0; s < steps; ++s) {
      const char* from = x.data + s * kStepBytes;
      for (int64_t r = 0; r < kPanelLines; ++r, from += x.stride, panel += kStepBytes)
        _mm512_store_si512(panel, _mm512_xor_si512(_mm512_loadu_si512(from), flip));
    }
    return;
  }
  for (int64_t s0 = 0; s0 < steps; s0 += kSteps) {
    const int64_t s1 = min64(steps, s0 + kSteps);
    for (int64_t r = 0; r < kPanelLines; ++r) {
      const char* const from = x.data + r * x.stride;
      char* const to = panel + r / 16 * kTile + r % 16 * kStepBytes;
      for (int64_t s = s0; s < s1; ++s) {
        __m512i v = _mm512_setzero_si512();
        if (r < x.count) v = _mm512_maskz_loadu_epi8(low_bits(x.bytes - s * kStepBytes), from + s * kStepBytes);
        _mm512_store_si512(to + s * kPanelStepBytes, _mm512_xor_si512(v, flip));
      }
    }
  }
}

// Transposed in groups of 4 bytes: B.
void transpose_lines(const Lines& x, char* panel) {
  __m512i v[16];
  for (int64_t at = 0; at < x.bytes; at += kStepBytes, panel += kPanelStepBytes) {
    const __mmask64 mask = low_bits(x.bytes - at);
    for (int tile = 0; tile < 2; ++tile) {
      const char* from = x.data + 16 * tile * x.stride + at;
      const int64_t count = x.count - 16 * tile;
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i, from += x.stride)
        v[i] = i < count ? _mm512_maskz_loadu_epi8(mask, from) : _mm512_setzero_si512();
      transpose16(v);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) _mm512_store_si512(panel + tile * kTile + i * kStepBytes, v[i]);
    }
  }
}

// ---- Lines beside each other ----

// A group of k of 32 lines: rows of 32 elements, `stride` bytes apart, of which `rows` exist; one vector for each 16
// lines.
struct Pair {
  __m512i first, second;
};
inline __attribute__((always_inline)) Pair interleave2(const char* p, int64_t stride, int64_t rows, __mmask32 mask) {
  const __m512i zero = _mm512_setzero_si512();
  const __m512i x = _mm512_maskz_loadu_epi16(mask, p), y = rows > 1 ? _mm512_maskz_loadu_epi16(mask, p + stride) : zero;
  const __m512i lo = _mm512_unpacklo_epi16(x, y), hi = _mm512_unpackhi_epi16(x, y);
  const __m512i low_half = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                high_half = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  return {_mm512_permutex2var_epi64(lo, low_half, hi), _mm512_permutex2var_epi64(lo, high_half, hi)};
}
inline __attribute__((always_inline)) Pair interleave4(const char* p, int64_t stride, int64_t rows, __mmask32 mask) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i x0 = _mm256_maskz_loadu_epi8(mask, p);
  const __m256i x1 = rows > 1 ? _mm256_maskz_loadu_epi8(mask, p + stride) : zero;
  const __m256i x2 = rows > 2 ? _mm256_maskz_loadu_epi8(mask, p + 2 * stride) : zero;
  const __m256i x3 = rows > 3 ? _mm256_maskz_loadu_epi8(mask, p + 3 * stride) : zero;
  const __m256i lo01 = _mm256_unpacklo_epi8(x0, x1), hi01 = _mm256_unpackhi_epi8(x0, x1);
  const __m256i lo23 = _mm256_unpacklo_epi8(x2, x3), hi23 = _mm256_unpackhi_epi8(x2, x3);
  // Lines 0..3 and 16..19, 4..7 and 20..23, and so on.
  const __m256i q0 = _mm256_unpacklo_epi16(lo01, lo23), q1 = _mm256_unpackhi_epi16(lo01, lo23);
  const __m256i q2 = _mm256_unpacklo_epi16(hi01, hi23), q3 = _mm256_unpackhi_epi16(hi01, hi23);
  const __m512i q01 = _mm512_inserti64x4(_mm512_castsi256_si512(q0), q1, 1),
                q23 = _mm512_inserti64x4(_mm512_castsi256_si512(q2), q3, 1);
  return {_mm512_shuffle_i64x2(q01, q23, 0x88), _mm512_shuffle_i64x2(q01, q23, 0xdd)};
}

template <int kItem>
inline __attribute__((always_inline)) Pair interleave(const char* p, int64_t stride, int64_t rows, __mmask32 mask) {
  if constexpr (kItem == 2)
    return interleave2(p, stride, rows, mask);
  else
    return interleave4(p, stride, rows, mask);
}

// Elements beside each other are lines, k is `stride` bytes apart. kForA: each line's step contiguous.
template <int kItem, bool kForA>
__attribute__((noinline)) void pack_across(const char* from, int64_t stride, int64_t lines, int64_t k, __m512i flip,
                                           char* panel) {
  constexpr int64_t kGroup = 4 / kItem;
  const __mmask32 mask = static_cast<__mmask32>(low_bits(lines));
  __m512i first[16], second[16];
  for (int64_t p = 0; p < k; p += 16 * kGroup, panel += kPanelStepBytes) {
    for (int i = 0; i < 16; ++i) {
      const int64_t at = p + i * kGroup;
      const Pair v = at < k ? interleave<kItem>(from + at * stride, stride, k - at, mask)
                            : Pair{_mm512_setzero_si512(), _mm512_setzero_si512()};
      if constexpr (kForA) {
        first[i] = v.first;
        second[i] = v.second;
      } else {
        _mm512_store_si512(panel + i * kStepBytes, v.first);
        _mm512_store_si512(panel + kTile + i * kStepBytes, v.second);
      }
    }
    if constexpr (kForA) {
      transpose16(first);
      transpose16(second);
      for (int i = 0; i < 16; ++i) {
        _mm512_store_si512(panel + i * kStepBytes, _mm512_xor_si512(first[i], flip));
        _mm512_store_si512(panel + kTile + i * kStepBytes, _mm512_xor_si512(second[i], flip));
      }
    }
  }
}

// ---- Any strides: a step of all lines is gathered at a time ----

template <class T, class F>
void gather(const T* from, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t k, F&& pack) {
  constexpr int64_t kStep = kStepBytes / static_cast<int64_t>(sizeof(T));
  alignas(64) T block[kPanelLines * kStep];
  for (int64_t p = 0; p < k; p += kStep) {
    const int64_t depth = min64(kStep, k - p);
    for (int64_t r = 0; r < lines; ++r)
      for (int64_t q = 0; q < depth; ++q) block[r * kStep + q] = from[r * line_stride + (p + q) * k_stride];
    pack(Lines{reinterpret_cast<const char*>(block), kStepBytes, lines, depth * static_cast<int64_t>(sizeof(T))},
         p / kStep * kPanelStepBytes);
  }
}
template <class F>
void gather_items(int64_t item, const void* data, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t k,
                  F&& pack) {
  if (item == 2)
    gather(static_cast<const uint16_t*>(data), line_stride, k_stride, lines, k, pack);
  else
    gather(static_cast<const uint8_t*>(data), line_stride, k_stride, lines, k, pack);
}

void copy_gathered(const Lines& x, uint8_t flip, char* panel) {
  copy_lines(x, _mm512_set1_epi8(static_cast<char>(flip)), panel);
}

}  // namespace

void pack_panel_a(int64_t item, const void* data, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t k,
                  uint8_t flip, void* panel) {
  const char* const from = static_cast<const char*>(data);
  char* const to = static_cast<char*>(panel);
  const __m512i flips = _mm512_set1_epi8(static_cast<char>(flip));
  if (k_stride == 1) return copy_lines({from, line_stride * item, lines, k * item}, flips, to);
  if (line_stride == 1)
    return item == 2 ? pack_across<2, true>(from, k_stride * item, lines, k, flips, to)
                     : pack_across<1, true>(from, k_stride * item, lines, k, flips, to);
  gather_items(item, data, line_stride, k_stride, lines, k,
               [=](const Lines& x, int64_t at) { copy_gathered(x, flip, to + at); });
}

// A line is read before anything of the panel from there on is written.
void split_panel(int64_t steps, void* panel) {
  char* to = static_cast<char*>(panel);
  const char* from = to + steps * kPanelStepBytes;
  alignas(64) static constexpr auto kOdd = [] {
    std::array<uint16_t, 32> places{};
    for (uint16_t i = 0; i < 32; ++i) places[i] = static_cast<uint16_t>(2 * i + 1);
    return places;
  }();
  const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000)), odd = _mm512_load_si512(kOdd.data());
  for (int64_t s = 0; s < steps; ++s, to += kPanelStepBytes)
    for (int64_t line = 0; line < kPanelStepBytes / 64; ++line, from += 64, to += 64) {
      const __m512 x = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
      const __m512 y = _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(from + 32)));
      const __m512i hx = _mm512_and_si512(_mm512_castps_si512(x), upper),
                    hy = _mm512_and_si512(_mm512_castps_si512(y), upper);
      const __m512 rx = _mm512_sub_ps(x, _mm512_castsi512_ps(hx)), ry = _mm512_sub_ps(y, _mm512_castsi512_ps(hy));
      _mm512_store_si512(to, _mm512_permutex2var_epi16(hx, odd, hy));
      _mm512_store_si512(to + kPanelStepBytes,
                         _mm512_permutex2var_epi16(_mm512_castps_si512(rx), odd, _mm512_castps_si512(ry)));
    }
}

void begin_lines(PanelLines& x) { x.left = (x.bytes + kStepBytes - 1) / kStepBytes * kPanelLines; }
void pack_lines(PanelLines& x, int64_t pieces) {
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(x.flip));
  const int64_t whole = x.bytes / kStepBytes, steps = (x.bytes + kStepBytes - 1) / kStepBytes;
  pieces = min64(pieces, x.left);
  x.left -= pieces;
  int64_t s = x.step, line = x.line;
  while (pieces > 0) {
    const char* from = x.from + line * x.stride + s * kStepBytes;
    char* to = x.panel + line / 16 * kTile + line % 16 * kStepBytes + s * kPanelStepBytes;
    const int64_t n = min64(pieces, steps - s), plain = line < x.lines ? min64(n, whole - s) : 0;
    int64_t i = 0;
    for (; i < plain; ++i, from += kStepBytes, to += kPanelStepBytes)
      _mm512_store_si512(to, _mm512_xor_si512(_mm512_loadu_si512(from), flip));
    if (i < n) {  // the rest of a line, or lines that do not exist
      const __mmask64 mask = line < x.lines ? low_bits(x.bytes % kStepBytes) : 0;
      for (; i < n; ++i, to += kPanelStepBytes)
        _mm512_store_si512(to, _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, from), flip));
    }
    pieces -= n;
    s += n;
    if (s == steps) {
      s = 0;
      ++line;
    }
  }
  x.step = s;
  x.line = line;
}

namespace {
void pack_b(int64_t item, const char* from, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t k, char* to) {
  if (k_stride == 1) return transpose_lines({from, line_stride * item, lines, k * item}, to);
  gather_items(item, from, line_stride, k_stride, lines, k,
               [=](const Lines& x, int64_t at) { transpose_lines(x, to + at); });
}
}  // namespace

void pack_panel_b(int64_t item, const void* data, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t k,
                  void* panel) {
  pack_panels_b(item, data, line_stride, k_stride, lines, k, panel, 0);
}

void pack_panels_b(int64_t item, const void* data, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t k,
                   void* panels, int64_t panel_stride) {
  const char* const from = static_cast<const char*>(data);
  char* const to = static_cast<char*>(panels);
  if (line_stride != 1 || k_stride == 1) {
    for (int64_t j = 0; j < lines; j += kPanelLines)
      pack_b(item, from + j * line_stride * item, line_stride, k_stride, min64(kPanelLines, lines - j), k,
             to + j / kPanelLines * panel_stride);
    return;
  }
  // A step of all panels at a time: memory is read in long runs.
  const __m512i none = _mm512_setzero_si512();
  const int64_t step = kStepBytes / item;
  for (int64_t p = 0; p < k; p += step)
    for (int64_t j = 0; j < lines; j += kPanelLines) {
      const char* const x = from + (p * k_stride + j) * item;
      char* const y = to + j / kPanelLines * panel_stride + p / step * kPanelStepBytes;
      const int64_t count = min64(kPanelLines, lines - j), depth = min64(step, k - p);
      if (item == 2)
        pack_across<2, false>(x, k_stride * item, count, depth, none, y);
      else
        pack_across<1, false>(x, k_stride * item, count, depth, none, y);
    }
}

}  // namespace tessera::cpu::internal
#pragma GCC pop_options
