// Copies, casts and fills over strides.
#include <algorithm>
#include <cstring>

#include "tensor/core/parallel.h"
#include "tensor/core/visit.h"
#include "tensor/cpu/pointwise/convert.h"
#include "tensor/cpu/pointwise/copy_transposed.h"
#include "tensor/cpu/support/pieces.h"
#include "tensor/cpu/pointwise/pointwise_plan.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd_move.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kBlockBytes = 8192;
// Copies go past the caches from here on, earlier than work that computes: often they are parts of something larger, as
// in cat. Rows have to be long enough for it.
constexpr int64_t kStreamedCopy = kStreamBytes / 2, kStreamedRow = 1024;

// Loops for the compiler to vectorise, which -O2 of GCC 12 leaves scalar.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3")
#endif
template <class T>
void fill_row_sized(char* d, int64_t stride, const void* value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(d + i * stride, value, sizeof(T));
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

// One row of `n` elements, any strides on both sides.
template <class T>
void copy_row_sized(char* d, int64_t ds, const char* s, int64_t ss, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(d + i * ds, s + i * ss, sizeof(T));
}
void copy_row(char* d, int64_t ds, const char* s, int64_t ss, int64_t n, int64_t size) {
  if (ds == size) return gather_row(d, s, ss, n, size);
  if (ss == size) return scatter_row(d, ds, s, n, size);
  visit_size(size, [&](auto tag) { copy_row_sized<typename decltype(tag)::type>(d, ds, s, ss, n); });
}

}  // namespace

void copy_plan(const Plan& p, char* dst, const char* src, int64_t size) {
  if (p.is_flat(0, size) && p.is_flat(1, size)) {
    const bool stream = 2 * p.numel * size >= kStreamedCopy;
    return parallel_ranges(p.numel, piece_elements(p.numel, stream), [&](int64_t b, int64_t e) {
      if (!stream) {
        std::memcpy(dst + b * size, src + b * size, (e - b) * size);
        return;
      }
      stream_copy(dst + b * size, src + b * size, (e - b) * size);
      stream_fence();
    });
  }
  if (const int j = transposed_dim(p, size); j > 0) return copy_transposed(p, j, dst, src, size);
  const bool stream = 2 * p.numel * size >= kStreamedCopy && p.strides[0][0] == size && p.strides[1][0] == size &&
                      p.shape[0] * size >= kStreamedRow;
  parallel_ranges(p.numel, piece_elements(p.numel, stream), [&](int64_t b, int64_t e) {
    Cursor c;
    c.seek(p, b);
    while (b < e) {
      const int64_t n = std::min(p.shape[0] - c.inner, e - b);
      char* const to = dst + c.row_offset[0] + c.inner * p.strides[0][0];
      const char* const from = src + c.row_offset[1] + c.inner * p.strides[1][0];
      if (stream)
        stream_copy(to, from, n * size);
      else
        copy_row(to, p.strides[0][0], from, p.strides[1][0], n, size);
      b += n;
      c.advance(p, n);
    }
    if (stream) stream_fence();
  });
}

namespace {

void copy_cast(const Plan& p, const Operand& dst, const Operand& src, bool conj, bool neg, bool stream) {
  const int64_t dsize = item_size(dst.dtype), ssize = item_size(src.dtype);
  const bool dflat = p.is_flat(0, dsize), sflat = p.is_flat(1, ssize), change = conj || neg;
  const int64_t block = kBlockBytes / std::max(dsize, ssize);
  char* d = static_cast<char*>(dst.data);
  const char* s = static_cast<const char*>(src.data);
  parallel_ranges(p.numel, piece_elements(p.numel, stream), [&](int64_t b, int64_t e) {
    alignas(64) char in[kBlockBytes], out[kBlockBytes];
    Cursor c;
    c.seek(p, b);
    for (; b < e; b += block) {
      const int64_t n = std::min(block, e - b);
      const char* from = s + b * ssize;
      if (!sflat || change) {
        if (sflat)
          std::memcpy(in, from, n * ssize);
        else
          gather_block(p, c, 1, s, n, ssize, in);
        from = in;
        if (change) conj_neg_in_place(src.dtype, in, n, conj, neg);
      }
      if (stream) {
        convert_stream(dst.dtype, d + b * dsize, src.dtype, from, n);
      } else if (dflat) {
        convert(dst.dtype, d + b * dsize, src.dtype, from, n);
      } else {
        convert(dst.dtype, out, src.dtype, from, n);
        scatter_block(p, c, 0, d, n, dsize, out);
      }
      c.advance(p, n);
    }
    if (stream) stream_fence();
  });
}

void fill_row(char* d, int64_t stride, const void* value, int64_t n, int64_t size) {
  if (stride == size) return fill_elements(d, value, n, size);
  visit_size(size, [&](auto tag) { fill_row_sized<typename decltype(tag)::type>(d, stride, value, n); });
}

// A cast from transposed memory: by slabs of the outermost dimension, each transposed into scratch by tiles and cast
// from there.
void cast_transposed(const Plan& p, const Operand& dst, const Operand& src, bool conj, bool neg, bool stream) {
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
      copy_cast(part, to, {buffer.data(), src.dtype, nullptr}, conj, neg, stream);
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
  const bool stream = plan.numel * (item_size(src.dtype) + item_size(dst.dtype)) >= kStreamBytes &&
                      plan.is_flat(0, item_size(dst.dtype));
  if (plan.numel >= 4096) {
    Plan turned = plan;
    int64_t size = item_size(src.dtype);
    for (int d = 0; d < plan.ndim; ++d) {
      turned.strides[0][d] = size;
      size *= plan.shape[d];
    }
    if (transposed_dim(turned, item_size(src.dtype)) > 0) return cast_transposed(plan, dst, src, conj, neg, stream);
  }
  copy_cast(plan, dst, src, conj, neg, stream);
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
  parallel_ranges(plan.numel, piece_elements(plan.numel, stream), [&](int64_t b, int64_t e) {
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
