// Copies, casts and fills over strides.
#include <algorithm>
#include <cstring>

#include "tensor/core/parallel.h"
#include "tensor/cpu/pointwise_plan.h"
#include "tensor/cpu/scratch.h"
#include "tensor/cpu/simd_move.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kBlockBytes = 8192;

// Loops for the compiler to vectorise, which -O2 of GCC 12 leaves scalar.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3")
#endif
// A 16-byte element that moves as one.
struct Pair { uint64_t a, b; };

// dst row j, element i = src row i, element j, for i < n0 <= kEdge and j < nj <= kEdge. Whole lines go through a small buffer: with strides that are
// powers of two the lines of a tile fall into one set of the cache, so that no line may be needed twice.
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

template <class T>
void fill_row_sized(char* d, int64_t stride, const void* value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(d + i * stride, value, sizeof(T));
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

using TileFn = void (*)(char*, int64_t, const char*, int64_t, int64_t, int64_t);
TileFn tile_function(int64_t size) {
  switch (size) {
    case 1: return transpose_tile<uint8_t>;
    case 2: return transpose_tile<uint16_t>;
    case 4: return transpose_tile<uint32_t>;
    case 8: return transpose_tile<uint64_t>;
    default: return transpose_tile<Pair>;
  }
}

// A block of tiles: its pages on both sides stay in the TLB.
void transpose_block(TileFn tile, int64_t size, char* dst, int64_t dst_stride_j, const char* src, int64_t src_stride_0, int64_t n0, int64_t nj) {
  const int64_t edge = 64 / size;
  for (int64_t j = 0; j < nj; j += edge) {
    int64_t i = 0;
    if ((size == 4 || size == 8) && nj - j >= edge) {
      (size == 4 ? transpose_tiles4 : transpose_tiles8)(dst + j * dst_stride_j, dst_stride_j, src + j * size, src_stride_0, n0 / edge);
      i = n0 / edge * edge;
    }
    for (; i < n0; i += edge) {
      tile(dst + i * size + j * dst_stride_j, dst_stride_j, src + i * src_stride_0 + j * size, src_stride_0, std::min(edge, n0 - i), std::min(edge, nj - j));
    }
  }
}

void copy_transposed(const Plan& p, int j, char* dst, const char* src, int64_t size) {
  const TileFn tile = tile_function(size);
  const int64_t edge = size >= 8 ? 64 : 128;
  const int64_t blocks0 = (p.shape[0] + edge - 1) / edge, blocksj = (p.shape[j] + edge - 1) / edge;
  const int64_t outer = p.numel / (p.shape[0] * p.shape[j]);
  const int64_t grain = std::max<int64_t>(1, kGrain / (std::min(p.shape[0], edge) * std::min(p.shape[j], edge)));
  parallel_for(outer * blocks0 * blocksj, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t at0 = t % blocks0 * edge, atj = t / blocks0 % blocksj * edge;
      int64_t rest = t / blocks0 / blocksj;
      int64_t d_off = at0 * size + atj * p.strides[0][j], s_off = at0 * p.strides[1][0] + atj * size;
      for (int d = 1; d < p.ndim; ++d) {
        if (d == j) continue;
        d_off += rest % p.shape[d] * p.strides[0][d];
        s_off += rest % p.shape[d] * p.strides[1][d];
        rest /= p.shape[d];
      }
      transpose_block(tile, size, dst + d_off, p.strides[0][j], src + s_off, p.strides[1][0], std::min(edge, p.shape[0] - at0), std::min(edge, p.shape[j] - atj));
    }
  });
}

// One row of `n` elements, any strides on both sides.
template <class T>
void copy_row_sized(char* d, int64_t ds, const char* s, int64_t ss, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(d + i * ds, s + i * ss, sizeof(T));
}
void copy_row(char* d, int64_t ds, const char* s, int64_t ss, int64_t n, int64_t size) {
  if (ds == size) return gather_row(d, s, ss, n, size);
  if (ss == size) return scatter_row(d, ds, s, n, size);
  switch (size) {
    case 1: return copy_row_sized<uint8_t>(d, ds, s, ss, n);
    case 2: return copy_row_sized<uint16_t>(d, ds, s, ss, n);
    case 4: return copy_row_sized<uint32_t>(d, ds, s, ss, n);
    case 8: return copy_row_sized<uint64_t>(d, ds, s, ss, n);
    default: return copy_row_sized<Pair>(d, ds, s, ss, n);
  }
}

}  // namespace

void copy_plan(const Plan& p, char* dst, const char* src, int64_t size) {
  if (p.is_flat(0, size) && p.is_flat(1, size)) {
    const bool stream = 2 * p.numel * size >= kStreamBytes;
    return parallel_for(p.numel, kGrain * 8, [&](int64_t b, int64_t e) {
      if (!stream) {
        std::memcpy(dst + b * size, src + b * size, (e - b) * size);
        return;
      }
      stream_copy(dst + b * size, src + b * size, (e - b) * size);
      stream_fence();
    });
  }
  if (const int j = transposed_dim(p, size); j > 0) return copy_transposed(p, j, dst, src, size);
  parallel_for(p.numel, kGrain, [&](int64_t b, int64_t e) {
    Cursor c;
    c.seek(p, b);
    while (b < e) {
      const int64_t n = std::min(p.shape[0] - c.inner, e - b);
      copy_row(dst + c.row_offset[0] + c.inner * p.strides[0][0], p.strides[0][0], src + c.row_offset[1] + c.inner * p.strides[1][0], p.strides[1][0], n, size);
      b += n;
      c.advance(p, n);
    }
  });
}

namespace {

void copy_cast(const Plan& p, const Operand& dst, const Operand& src, bool conj, bool neg) {
  const int64_t dsize = item_size(dst.dtype), ssize = item_size(src.dtype);
  const bool dflat = p.is_flat(0, dsize), sflat = p.is_flat(1, ssize), change = conj || neg;
  const int64_t block = kBlockBytes / std::max(dsize, ssize);
  char* d = static_cast<char*>(dst.data);
  const char* s = static_cast<const char*>(src.data);
  parallel_for(p.numel, kGrain, [&](int64_t b, int64_t e) {
    alignas(64) char in[kBlockBytes], out[kBlockBytes];
    Cursor c;
    c.seek(p, b);
    for (; b < e; b += block) {
      const int64_t n = std::min(block, e - b);
      const char* from = s + b * ssize;
      if (!sflat || change) {
        if (sflat) std::memcpy(in, from, n * ssize);
        else gather_block(p, c, 1, s, n, ssize, in);
        from = in;
        if (change) conj_neg_in_place(src.dtype, in, n, conj, neg);
      }
      if (dflat) {
        convert(dst.dtype, d + b * dsize, src.dtype, from, n);
      } else {
        convert(dst.dtype, out, src.dtype, from, n);
        scatter_block(p, c, 0, d, n, dsize, out);
      }
      c.advance(p, n);
    }
  });
}

void fill_row(char* d, int64_t stride, const void* value, int64_t n, int64_t size) {
  if (stride == size) return fill_elements(d, value, n, size);
  switch (size) {
    case 1: return fill_row_sized<uint8_t>(d, stride, value, n);
    case 2: return fill_row_sized<uint16_t>(d, stride, value, n);
    case 4: return fill_row_sized<uint32_t>(d, stride, value, n);
    case 8: return fill_row_sized<uint64_t>(d, stride, value, n);
    default: return fill_row_sized<Pair>(d, stride, value, n);
  }
}

// A cast from transposed memory: by slabs of the outermost dimension, each transposed into scratch by tiles and cast from there.
void cast_transposed(const Plan& p, const Operand& dst, const Operand& src, bool conj, bool neg) {
  const int64_t ssize = item_size(src.dtype);
  const int last = p.ndim - 1;
  const int64_t rows = p.shape[last], row = p.numel / rows;
  const int64_t slab = std::min(rows, std::max<int64_t>(row > (1 << 20) ? 1 : 64, kGrain / row));
  parallel_for((rows + slab - 1) / slab, 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      const int64_t start = i * slab, count = std::min(slab, rows - start);
      Plan turned = p, part = p;
      turned.shape[last] = part.shape[last] = count;
      turned.numel = part.numel = row * count;
      int64_t size = ssize;
      for (int d = 0; d < p.ndim; ++d) {
        turned.strides[0][d] = part.strides[1][d] = size;
        size *= part.shape[d];
      }
      const internal::Scratch buffer(static_cast<size_t>(part.numel * ssize));
      copy_plan(turned, buffer.as<char>(), static_cast<const char*>(src.data) + start * p.strides[1][last], ssize);
      const Operand to{static_cast<char*>(dst.data) + start * p.strides[0][last], dst.dtype, nullptr};
      copy_cast(part, to, {buffer.data(), src.dtype, nullptr}, conj, neg);
    }
  });
}

}  // namespace

void copy_strided(std::span<const int64_t> shape, const Operand& dst, const Operand& src, bool conj, bool neg) {
  Plan plan;
  const int64_t* strides[2] = {dst.strides, src.strides};
  make_plan(plan, shape, strides, 2);
  if (plan.numel == 0) return;
  conj = conj && is_complex(src.dtype);
  if (dst.dtype == src.dtype && !conj && !neg) {
    return copy_plan(plan, static_cast<char*>(dst.data), static_cast<const char*>(src.data), item_size(dst.dtype));
  }
  if (plan.numel >= 4096) {
    Plan turned = plan;
    int64_t size = item_size(src.dtype);
    for (int d = 0; d < plan.ndim; ++d) {
      turned.strides[0][d] = size;
      size *= plan.shape[d];
    }
    if (transposed_dim(turned, item_size(src.dtype)) > 0) return cast_transposed(plan, dst, src, conj, neg);
  }
  copy_cast(plan, dst, src, conj, neg);
}

void fill_strided(std::span<const int64_t> shape, const Operand& dst, const void* value) {
  Plan plan;
  make_plan(plan, shape, &dst.strides, 1);
  if (plan.numel == 0) return;
  const int64_t size = item_size(dst.dtype);
  char* d = static_cast<char*>(dst.data);
  if (plan.numel == 1) {
    std::memcpy(d, value, size);
    return;
  }
  const bool stream = plan.numel * size >= kStreamBytes && plan.is_flat(0, size);
  parallel_for(plan.numel, kGrain * 4, [&](int64_t b, int64_t e) {
    if (stream) {
      stream_fill(d + b * size, value, e - b, size);
      return stream_fence();
    }
    Cursor c;
    c.seek(plan, b);
    while (b < e) {
      const int64_t n = std::min(plan.shape[0] - c.inner, e - b);
      fill_row(d + c.row_offset[0] + c.inner * plan.strides[0][0], plan.strides[0][0], value, n, size);
      b += n;
      c.advance(plan, n);
    }
  });
}

}  // namespace tessera::cpu
