#include "tensor/cpu/pointwise/pointwise_plan.h"

#include <algorithm>

#include "tensor/core/error.h"
#include "tensor/core/visit.h"
#include "tensor/cpu/support/simd_move.h"

namespace tessera::cpu {
namespace {

// Whether dimension a should lie inside dimension b: by the first operand that tells them apart.
bool is_inner(const Plan& p, int a, int b) {
  for (int k = 0; k < p.num_operands; ++k) {
    const int64_t sa = p.strides[k][a], sb = p.strides[k][b];
    if (sa == 0 || sb == 0 || sa == sb) continue;
    return std::abs(sa) < std::abs(sb);
  }
  return false;
}

void swap_dims(Plan& p, int a, int b) {
  std::swap(p.shape[a], p.shape[b]);
  for (int k = 0; k < p.num_operands; ++k) std::swap(p.strides[k][a], p.strides[k][b]);
}

bool can_merge(const Plan& p, int inner, int outer) {
  for (int k = 0; k < p.num_operands; ++k) {
    if (p.strides[k][outer] != p.strides[k][inner] * p.shape[inner]) return false;
  }
  return true;
}

void merge_dims(Plan& p) {
  int last = 0;
  for (int d = 1; d < p.ndim; ++d) {
    if (can_merge(p, last, d)) {
      p.shape[last] *= p.shape[d];
      continue;
    }
    ++last;
    p.shape[last] = p.shape[d];
    for (int k = 0; k < p.num_operands; ++k) p.strides[k][last] = p.strides[k][d];
  }
  p.ndim = last + 1;
}

template <int kSize>
void gather_sized(char* dst, const char* src, int64_t stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * kSize, src + i * stride, kSize);
}

// Every other element, which -O2 of GCC 12 would move one by one.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O3")
#endif
template <class T>
void gather_alternate(char* d, const char* s, int64_t n) {
  using Word [[gnu::may_alias]] = T;
  Word* __restrict dst = reinterpret_cast<Word*>(d);
  const Word* __restrict src = reinterpret_cast<const Word*>(s);
  for (int64_t i = 0; i < n; ++i) dst[i] = src[2 * i];
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

template <int kSize>
void scatter_sized(char* dst, int64_t stride, const char* src, int64_t n) {
  for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * stride, src + i * kSize, kSize);
}

template <class T>
void negate_integers(void* data, int64_t n) {  // T unsigned: wraps
  T* p = static_cast<T*>(data);
  for (int64_t i = 0; i < n; ++i) p[i] = static_cast<T>(T{0} - p[i]);
}
// Flips sign bits of every `step`-th number: exact for nans and zeros, and the same for half and bfloat16.
template <class U>
void flip_signs(void* data, int64_t n, int first, int step) {
  U* p = static_cast<U*>(data);
  constexpr U kSign = static_cast<U>(U{1} << (sizeof(U) * 8 - 1));
  for (int64_t i = first; i < n; i += step) p[i] ^= kSign;
}

}  // namespace

bool Plan::is_flat(int operand, int64_t size) const {
  const int64_t* s = strides[operand];
  for (int d = 0; d < ndim; ++d) {
    if (shape[d] != 1 && s[d] != size) return false;
    size *= shape[d];
  }
  return true;
}

bool Plan::is_scalar(int operand) const {
  for (int d = 0; d < ndim; ++d) {
    if (strides[operand][d] != 0) return false;
  }
  return true;
}

int64_t Plan::offset_of(int operand, const int64_t* index) const {
  int64_t offset = 0;
  for (int d = 1; d < ndim; ++d) offset += index[d] * strides[operand][d];
  return offset;
}

void make_plan(Plan& plan, std::span<const int64_t> shape, const int64_t* const* strides, int num_operands) {
  plan.num_operands = num_operands;
  plan.numel = 1;
  int n = 0;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) {
    plan.numel *= shape[i];
    if (shape[i] == 1) continue;
    TESSERA_CHECK(n < kMaxPlanDims, "tensors of more than ", kMaxPlanDims, " dimensions are not supported");
    plan.shape[n] = shape[i];
    for (int k = 0; k < num_operands; ++k) plan.strides[k][n] = strides[k][i];
    ++n;
  }
  plan.ndim = n;
  if (plan.numel == 0) return;
  if (n == 0) {  // one element: any stride will do, and 0 is the least surprising
    plan.ndim = 1;
    plan.shape[0] = 1;
    for (int k = 0; k < num_operands; ++k) plan.strides[k][0] = 0;
    return;
  }
  for (int i = 1; i < n; ++i) {
    for (int j = i; j > 0 && is_inner(plan, j, j - 1); --j) swap_dims(plan, j, j - 1);
  }
  merge_dims(plan);
}

void Cursor::seek(const Plan& plan, int64_t linear) {
  inner = linear % plan.shape[0];
  linear /= plan.shape[0];
  for (int d = 1; d < plan.ndim; ++d) {
    index[d] = linear % plan.shape[d];
    linear /= plan.shape[d];
  }
  for (int k = 0; k < plan.num_operands; ++k) row_offset[k] = plan.offset_of(k, index);
}

void Cursor::next_row(const Plan& plan) {
  inner = 0;
  for (int d = 1; d < plan.ndim; ++d) {
    for (int k = 0; k < plan.num_operands; ++k) row_offset[k] += plan.strides[k][d];
    if (++index[d] < plan.shape[d]) return;
    for (int k = 0; k < plan.num_operands; ++k) row_offset[k] -= plan.strides[k][d] * plan.shape[d];
    index[d] = 0;
  }
}

void Cursor::advance(const Plan& plan, int64_t n) {
  inner += n;
  if (inner < plan.shape[0]) return;
  int64_t rows = inner / plan.shape[0];
  inner %= plan.shape[0];
  if (plan.ndim > 1 && index[1] + rows < plan.shape[1]) {
    index[1] += rows;
    for (int k = 0; k < plan.num_operands; ++k) row_offset[k] += rows * plan.strides[k][1];
    return;
  }
  const int64_t rest = inner;
  for (; rows > 0; --rows) next_row(plan);
  inner = rest;
}

void gather_row(void* dst, const void* src, int64_t stride, int64_t n, int64_t size) {
  if (stride == size) {
    std::memcpy(dst, src, n * size);
    return;
  }
  char* d = static_cast<char*>(dst);
  if (stride == 0) return fill_elements(dst, src, n, size);
  const char* s = static_cast<const char*>(src);
  if (stride == 2 * size && (size == 2 || size == 4) &&
      (reinterpret_cast<uintptr_t>(src) | reinterpret_cast<uintptr_t>(dst)) % size == 0) {
    return (size == 4 ? gather_alternate<uint32_t> : gather_alternate<uint16_t>)(d, s, n);
  }
  visit_size(size, [&](auto tag) { gather_sized<sizeof(typename decltype(tag)::type)>(d, s, stride, n); });
}

void scatter_row(void* dst, int64_t stride, const void* src, int64_t n, int64_t size) {
  if (stride == size) {
    std::memcpy(dst, src, n * size);
    return;
  }
  char* d = static_cast<char*>(dst);
  const char* s = static_cast<const char*>(src);
  visit_size(size, [&](auto tag) { scatter_sized<sizeof(typename decltype(tag)::type)>(d, stride, s, n); });
}

void gather_block(const Plan& plan, const Cursor& at, int operand, const void* base, int64_t n, int64_t size,
                  void* dst) {
  const int64_t inner_stride = plan.strides[operand][0], inner_size = plan.shape[0];
  const char* p = static_cast<const char*>(base) + at.row_offset[operand];
  char* d = static_cast<char*>(dst);
  if (at.inner + n <= inner_size) return gather_row(d, p + at.inner * inner_stride, inner_stride, n, size);
  Cursor c = at;
  for (int64_t done = 0; done < n;) {
    const int64_t rows =
        inner_stride == 0 && c.inner == 0 ? std::min((n - done) / inner_size, plan.shape[1] - c.index[1]) : 0;
    if (rows > 0) {  // of a column
      fill_rows(d + done * size, static_cast<const char*>(base) + c.row_offset[operand], plan.strides[operand][1], rows,
                inner_size, size);
      done += rows * inner_size;
      c.advance(plan, rows * inner_size);
      continue;
    }
    const int64_t m = std::min(inner_size - c.inner, n - done);
    gather_row(d + done * size, static_cast<const char*>(base) + c.row_offset[operand] + c.inner * inner_stride,
               inner_stride, m, size);
    done += m;
    c.next_row(plan);
  }
}

void scatter_block(const Plan& plan, const Cursor& at, int operand, void* base, int64_t n, int64_t size,
                   const void* src) {
  const int64_t inner_stride = plan.strides[operand][0], inner_size = plan.shape[0];
  char* p = static_cast<char*>(base);
  const char* s = static_cast<const char*>(src);
  if (at.inner + n <= inner_size)
    return scatter_row(p + at.row_offset[operand] + at.inner * inner_stride, inner_stride, s, n, size);
  Cursor c = at;
  for (int64_t done = 0; done < n;) {
    const int64_t m = std::min(inner_size - c.inner, n - done);
    scatter_row(p + c.row_offset[operand] + c.inner * inner_stride, inner_stride, s + done * size, m, size);
    done += m;
    c.next_row(plan);
  }
}

int transposed_dim(const Plan& p, int64_t size) {
  if (p.ndim < 2 || p.strides[0][0] != size || std::abs(p.strides[1][0]) <= size || p.shape[0] < 4) return -1;
  for (int d = 1; d < p.ndim; ++d) {
    if (p.strides[1][d] == size && p.shape[d] >= 4) return d;
  }
  return -1;
}

void conj_neg_in_place(DType t, void* data, int64_t n, bool conj, bool neg) {
  conj = conj && is_complex(t);
  if (!conj && !neg) return;
  if (is_complex(t)) {
    // neg alone flips both parts, conj alone the imaginary one, both together the real one.
    const int first = conj && !neg ? 1 : 0, step = conj != neg && neg ? 1 : 2;
    if (t == DType::kComplex32) return flip_signs<uint16_t>(data, 2 * n, first, step);
    if (t == DType::kComplex64) return flip_signs<uint32_t>(data, 2 * n, first, step);
    return flip_signs<uint64_t>(data, 2 * n, first, step);
  }
  switch (t) {
    case DType::kBool:
      return;
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kQInt8:
    case DType::kQUInt8:
      return negate_integers<uint8_t>(data, n);
    case DType::kInt16:
    case DType::kUInt16:
      return negate_integers<uint16_t>(data, n);
    case DType::kInt32:
    case DType::kUInt32:
    case DType::kQInt32:
      return negate_integers<uint32_t>(data, n);
    case DType::kInt64:
    case DType::kUInt64:
      return negate_integers<uint64_t>(data, n);
    case DType::kFloat16:
    case DType::kBFloat16:
      return flip_signs<uint16_t>(data, n, 0, 1);
    case DType::kFloat32:
      return flip_signs<uint32_t>(data, n, 0, 1);
    case DType::kFloat64:
      return flip_signs<uint64_t>(data, n, 0, 1);
    default:
      return flip_signs<uint8_t>(data, n, 0, 1);
  }
}

}  // namespace tessera::cpu
