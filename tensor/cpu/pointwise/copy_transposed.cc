#include "tensor/cpu/pointwise/copy_transposed.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "tensor/core/parallel.h"
#include "tensor/core/visit.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd_move.h"

namespace tessera::cpu {
namespace {

// Loops for the compiler to vectorise, which -O2 of GCC 12 leaves scalar.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3")
#endif
// dst row j, element i = src row i, element j, for i < n0 <= kEdge and j < nj <= kEdge. Whole lines go through a small
// buffer: with strides that are powers of two the lines of a tile fall into one set of the cache, so that no line may
// be needed twice.
template <class T>
void transpose_tile(char* dst, int64_t dst_stride_j, const char* src, int64_t src_stride_0, int64_t n0, int64_t nj) {
  constexpr int kEdge = 64 / sizeof(T);
  alignas(64) T in[kEdge][kEdge];
  alignas(64) T out[kEdge][kEdge];
  if (n0 == kEdge && nj == kEdge) {
    for (int i = 0; i < kEdge; ++i) std::memcpy(in[i], src + i * src_stride_0, 64);
    for (int j = 0; j < kEdge; ++j) {
      for (int i = 0; i < kEdge; ++i) out[j][i] = in[i][j];
    }
    for (int j = 0; j < kEdge; ++j) std::memcpy(dst + j * dst_stride_j, out[j], 64);
    return;
  }
  for (int64_t i = 0; i < n0; ++i) std::memcpy(in[i], src + i * src_stride_0, nj * sizeof(T));
  for (int64_t j = 0; j < nj; ++j) {
    for (int64_t i = 0; i < n0; ++i) out[j][i] = in[i][j];
    std::memcpy(dst + j * dst_stride_j, out[j], n0 * sizeof(T));
  }
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

using TileFn = void (*)(char*, int64_t, const char*, int64_t, int64_t, int64_t);
TileFn tile_function(int64_t size) {
  return visit_size(size, [](auto tag) -> TileFn { return transpose_tile<typename decltype(tag)::type>; });
}

// A part of a transposition: n0 elements along the destination's rows, nj along the source's.
struct Block {
  char* dst;
  const char* src;
  int64_t dst_stride, src_stride;  // of rows
  int64_t n0, nj;
  int64_t rest;  // source rows from here on, those of the next blocks too
};

// Tile by tile, down the source's rows: their lines lie apart where the processor does not foresee them, so they are
// requested two tiles ahead.
void transpose_block(TileFn tile, int64_t size, const Block& b) {
  const int64_t edge = 64 / size;
  const auto whole_tile = size == 4 ? transpose_tiles4 : size == 8 ? transpose_tiles8 : nullptr;
  const bool ahead = b.nj <= 8 * edge;
  for (int64_t i = 0; i < b.n0; i += edge) {
    for (int64_t r = i + 2 * edge; ahead && r < std::min(b.rest, i + 3 * edge); ++r) {
      for (int64_t j = 0; j < b.nj; j += edge) __builtin_prefetch(b.src + r * b.src_stride + j * size, 0, 2);
    }
    for (int64_t j = 0; j < b.nj; j += edge) {
      char* const dst = b.dst + i * size + j * b.dst_stride;
      const char* const src = b.src + i * b.src_stride + j * size;
      const int64_t n0 = std::min(edge, b.n0 - i), nj = std::min(edge, b.nj - j);
      if (whole_tile && n0 == edge && nj == edge)
        whole_tile(dst, b.dst_stride, src, b.src_stride, 1);
      else
        tile(dst, b.dst_stride, src, b.src_stride, n0, nj);
    }
  }
}

// Large results go past the caches, which wants long runs of whole lines: a block is transposed into a buffer that
// stays in L2 and leaves it row by row, or at once where its rows are short and follow each other in memory.
constexpr int64_t kLongRow = 1024;
int64_t buffer_stride(int64_t row) {
  if (row < kLongRow) return row;
  const int64_t lines = (row + 63) / 64 * 64;
  return lines % 1024 == 0 ? lines + 64 : lines;  // rows a power of two apart would push each other out of L1
}
void stream_block(TileFn tile, int64_t size, const Block& b, char* buffer, int64_t stride) {
  transpose_block(tile, size, {buffer, b.src, stride, b.src_stride, b.n0, b.nj, b.rest});
  if (stride < kLongRow) return stream_copy(b.dst, buffer, b.nj * stride);
  for (int64_t j = 0; j < b.nj; ++j) stream_copy(b.dst + j * b.dst_stride, buffer + j * stride, b.n0 * size);
}

}  // namespace

void copy_transposed(const Plan& p, int j, char* dst, const char* src, int64_t size) {
  const TileFn tile = tile_function(size);
  const int64_t n0 = p.shape[0], nj = p.shape[j], row = n0 * size;
  const bool stream = 2 * p.numel * size >= kStreamBytes && (row >= kLongRow || p.strides[0][j] == row);
  int64_t edge0 = size >= 8 ? 64 : 128, edgej = edge0;
  if (stream) {
    constexpr int64_t kMostOfRow = 16384, kBlockBytes = 65536;
    edge0 = std::min(n0, kMostOfRow / size);
    const int64_t line = 64 / size, lines = std::max<int64_t>(2, kBlockBytes / (edge0 * size) / line);
    edgej = lines * line;
  }
  const int64_t stride = buffer_stride(edge0 * size);
  const int64_t blocks0 = (n0 + edge0 - 1) / edge0, blocksj = (nj + edgej - 1) / edgej;
  const int64_t outer = p.numel / (n0 * nj);
  const int64_t grain = std::max<int64_t>(1, kGrain / (std::min(n0, edge0) * std::min(nj, edgej)));
  parallel_for(outer * blocks0 * blocksj, grain, [&](int64_t begin, int64_t end) {
    std::optional<internal::Scratch> buffer;
    if (stream) buffer.emplace(static_cast<size_t>(edgej * stride));
    for (int64_t t = begin; t < end; ++t) {
      const int64_t at0 = t % blocks0 * edge0, atj = t / blocks0 % blocksj * edgej;
      int64_t rest = t / blocks0 / blocksj;
      int64_t d_off = at0 * size + atj * p.strides[0][j], s_off = at0 * p.strides[1][0] + atj * size;
      for (int d = 1; d < p.ndim; ++d) {
        if (d == j) continue;
        d_off += rest % p.shape[d] * p.strides[0][d];
        s_off += rest % p.shape[d] * p.strides[1][d];
        rest /= p.shape[d];
      }
      const Block b{dst + d_off,
                    src + s_off,
                    p.strides[0][j],
                    p.strides[1][0],
                    std::min(edge0, n0 - at0),
                    std::min(edgej, nj - atj),
                    n0 - at0};
      if (stream)
        stream_block(tile, size, b, buffer->as<char>(), stride);
      else
        transpose_block(tile, size, b);
    }
    if (stream) stream_fence();
  });
}

}  // namespace tessera::cpu
