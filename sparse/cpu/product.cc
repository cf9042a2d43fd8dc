#include "sparse/cpu/product.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstring>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/support/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sparse/cpu/product.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "tensor/cpu/support/lanes-inl.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Columns are asked for this many elements ahead, over the ends of lines, and values, too: rows of b come in between,
// and the processor does not see that these go on.
constexpr int64_t kAhead = 1024;

// What lines of a product share. Columns are checked where they are used: a branch that is never taken costs next to
// nothing, a pass over all of them before a fifth where rows of b are short.
template <class T>
struct Factors {
  const int64_t *pointers, *columns;
  const T *values, *b;
  int64_t stride;
  uint64_t width;
};

// kVectors vectors of a row of the result at a time, in registers: kSums sums for each, which do not wait for each
// other and take terms in turn. False if a column is outside.
template <int kVectors, int kSums, class D, class T>
HWY_INLINE bool AddColumns(D d, const Factors<T>& f, int64_t line, int64_t j, T* out) {
  const size_t lanes = hn::Lanes(d);
  const int64_t* columns = f.columns;
  const T *values = f.values, *b = f.b + j;
  const int64_t stride = f.stride, end = f.pointers[line + 1];
  const uint64_t width = f.width;
  hn::Vec<D> sums[kSums][kVectors];  // registers, once loops over them are unrolled
#pragma GCC unroll 16
  for (int v = 0; v < kSums * kVectors; ++v) sums[v / kVectors][v % kVectors] = hn::Zero(d);
  const auto add = [&](uint64_t column, T value, int s) HWY_ATTR {
    const auto x = hn::Set(d, value);
    const T* row = b + static_cast<int64_t>(column) * stride;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v)
      sums[s][v] = hn::MulAdd(x, hn::LoadU(d, row + static_cast<size_t>(v) * lanes), sums[s][v]);
  };
  int64_t k = f.pointers[line];
  for (; k + kSums <= end; k += kSums) {
    hwy::Prefetch(columns + k + kAhead);
    hwy::Prefetch(values + k + kAhead);
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s) {
      const uint64_t column = static_cast<uint64_t>(columns[k + s]);
      if (column >= width) [[unlikely]]
        return false;
      add(column, values[k + s], s);
    }
  }
  if constexpr (kSums > 1)
    for (; k < end; ++k) {
      const uint64_t column = static_cast<uint64_t>(columns[k]);
      if (column >= width) [[unlikely]]
        return false;
      add(column, values[k], 0);
    }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    auto r = sums[0][v];
    if constexpr (kSums == 2) r = hn::Add(r, sums[1][v]);
    if constexpr (kSums == 4) r = hn::Add(hn::Add(r, sums[1][v]), hn::Add(sums[2][v], sums[3][v]));
    hn::StoreU(r, d, out + j + static_cast<int64_t>(static_cast<size_t>(v) * lanes));
  }
  return true;
}

// The same for one vector of two neighbouring rows: neither waits for the end of the other.
template <class D, class T>
HWY_INLINE bool AddPair(D d, const Factors<T>& f, int64_t line, int64_t j, T* out, int64_t out_stride) {
  const int64_t* columns = f.columns;
  const T *values = f.values, *b = f.b + j;
  const int64_t stride = f.stride;
  const uint64_t width = f.width;
  auto a0 = hn::Zero(d), a1 = a0, b0 = a0, b1 = a0;
  int64_t i = f.pointers[line], k = f.pointers[line + 1];
  const int64_t i_end = k, k_end = f.pointers[line + 2];
#define TESSERA_TERM(sum, at)                                                                               \
  {                                                                                                         \
    const uint64_t column = static_cast<uint64_t>(columns[at]);                                             \
    if (column >= width) [[unlikely]]                                                                       \
      return false;                                                                                         \
    sum = hn::MulAdd(hn::Set(d, values[at]), hn::LoadU(d, b + static_cast<int64_t>(column) * stride), sum); \
  }
  for (int64_t n = std::min(i_end - i, k_end - k) / 2; n > 0; --n, i += 2, k += 2) {
    hwy::Prefetch(columns + k + kAhead);
    hwy::Prefetch(values + k + kAhead);
    TESSERA_TERM(a0, i)
    TESSERA_TERM(b0, k)
    TESSERA_TERM(a1, i + 1)
    TESSERA_TERM(b1, k + 1)
  }
  for (; i < i_end; ++i) TESSERA_TERM(a0, i)
  for (; k < k_end; ++k) TESSERA_TERM(b0, k)
#undef TESSERA_TERM
  hn::StoreU(hn::Add(a0, a1), d, out + j);
  hn::StoreU(hn::Add(b0, b1), d, out + j + out_stride);
  return true;
}

// The last n elements of a row of the result, fewer than a vector has.
template <class D, class T>
HWY_INLINE bool AddRest(D d, const Factors<T>& f, int64_t line, int64_t j, int64_t n, T* out) {
  const int64_t* columns = f.columns;
  const T *values = f.values, *b = f.b + j;
  const int64_t stride = f.stride, end = f.pointers[line + 1];
  const uint64_t width = f.width;
  int64_t k = f.pointers[line];
  T sums[2] = {};  // of a matrix times a vector
  auto even = hn::Zero(d), odd = hn::Zero(d);
  if (n == 1) {
    for (; k < end; ++k) {
      const uint64_t column = static_cast<uint64_t>(columns[k]);
      if (column >= width) [[unlikely]]
        return false;
      const T sum = sums[0] + values[k] * b[static_cast<int64_t>(column) * stride];
      sums[0] = sums[1];
      sums[1] = sum;
    }
    out[j] = sums[0] + sums[1];
    return true;
  }
  for (; k < end; ++k) {
    const uint64_t column = static_cast<uint64_t>(columns[k]);
    if (column >= width) [[unlikely]]
      return false;
    const T* row = b + static_cast<int64_t>(column) * stride;
    const auto sum = hn::MulAdd(hn::Set(d, values[k]), internal::HWY_NAMESPACE::LoadSome(d, row, n), even);
    even = odd;
    odd = sum;
  }
  HWY_ALIGN T all[hn::MaxLanes(d)];
  hn::Store(hn::Add(even, odd), d, all);
  std::copy_n(all, n, out + j);
  return true;
}

// Rows of n elements; false if a column is outside.
template <class T>
HWY_INLINE bool MultiplyLines(const RowsView& a, const T* b, int64_t n, T* out, int64_t out_stride, int64_t first,
                              int64_t last) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kSumsOf8 = HWY_LANES(float) < 16 ? 1 : 2;  // as many as there are registers for
  const Factors<T> f{a.pointers, a.columns, static_cast<const T*>(a.values), b, n, static_cast<uint64_t>(a.width)};
  int64_t i = first;
  if (n == lanes)
    for (; i + 2 <= last; i += 2)
      if (!AddPair(d, f, i, 0, out + i * out_stride, out_stride)) return false;
  for (; i < last; ++i) {
    T* line = out + i * out_stride;
    bool good = true;
    int64_t j = 0;
    for (; j + 8 * lanes <= n; j += 8 * lanes) good = good && AddColumns<8, kSumsOf8>(d, f, i, j, line);
    for (; j + 4 * lanes <= n; j += 4 * lanes) good = good && AddColumns<4, 1>(d, f, i, j, line);
    for (; j + 2 * lanes <= n; j += 2 * lanes) good = good && AddColumns<2, 2>(d, f, i, j, line);
    for (; j + lanes <= n; j += lanes) good = good && AddColumns<1, 2>(d, f, i, j, line);
    if (j < n) good = good && AddRest(d, f, i, j, n - j, line);
    if (!good) return false;
  }
  return true;
}
bool MultiplyF32(const RowsView& a, const float* b, int64_t n, float* out, int64_t out_stride, int64_t first,
                 int64_t last) {
  return MultiplyLines(a, b, n, out, out_stride, first, last);
}
bool MultiplyF64(const RowsView& a, const double* b, int64_t n, double* out, int64_t out_stride, int64_t first,
                 int64_t last) {
  return MultiplyLines(a, b, n, out, out_stride, first, last);
}

// The signs of numbers that are negative unless 0 <= p[i] < size.
bool AllInside(const int64_t* p, int64_t n, int64_t size) {
  const hn::ScalableTag<int64_t> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto last = hn::Set(d, size - 1);
  auto signs = hn::Zero(d), more = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = hn::LoadU(d, p + i), b = hn::LoadU(d, p + i + lanes);
    signs = hn::Or(signs, hn::Or(a, hn::Sub(last, a)));
    more = hn::Or(more, hn::Or(b, hn::Sub(last, b)));
  }
  bool good = hn::AllFalse(d, hn::Lt(hn::Or(signs, more), hn::Zero(d)));
  for (; i < n; ++i) good &= p[i] >= 0 && p[i] < size;
  return good;
}

template <class T>
HWY_INLINE T Dot(const T* x, const T* y, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s = hn::Zero(d), s1 = hn::Zero(d);
  int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    s = hn::MulAdd(hn::LoadU(d, x + j), hn::LoadU(d, y + j), s);
    s1 = hn::MulAdd(hn::LoadU(d, x + j + lanes), hn::LoadU(d, y + j + lanes), s1);
  }
  for (; j + lanes <= n; j += lanes) s = hn::MulAdd(hn::LoadU(d, x + j), hn::LoadU(d, y + j), s);
  T r = hn::GetLane(hn::SumOfLanes(d, hn::Add(s, s1)));
  for (; j < n; ++j) r += x[j] * y[j];
  return r;
}
template <class T>
HWY_INLINE void Sample(const RowsView& p, const T* a, const T* b, int64_t depth, T* out, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i)
    for (int64_t k = p.pointers[i]; k < p.pointers[i + 1]; ++k)
      out[k] = Dot(a + i * depth, b + p.columns[k] * depth, depth);
}
void SampleF32(const RowsView& p, const float* a, const float* b, int64_t depth, float* out, int64_t first,
               int64_t last) {
  Sample(p, a, b, depth, out, first, last);
}
void SampleF64(const RowsView& p, const double* a, const double* b, int64_t depth, double* out, int64_t first,
               int64_t last) {
  Sample(p, a, b, depth, out, first, last);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

TESSERA_SIMD_TABLE(MultiplyF32);
TESSERA_SIMD_TABLE(MultiplyF64);
TESSERA_SIMD_TABLE(SampleF32);
TESSERA_SIMD_TABLE(SampleF64);
TESSERA_SIMD_TABLE(AllInside);

// Rows of a piece of work: some ten thousand products.
int64_t rows_in_a_piece(const RowsView& a, int64_t n) {
  const int64_t terms = a.pointers[a.height] - a.pointers[0];
  const int64_t for_each = std::max<int64_t>(1, (terms / std::max<int64_t>(1, a.height) + 1) * std::max<int64_t>(1, n));
  return std::max<int64_t>(1, 32768 / for_each);
}

// How many columns of b are multiplied at a time: n, or as many as stay in a core's cache once they are copied behind
// each other, where rows of b are far apart and push each other out. That pays if rows are asked for often enough.
int64_t panel_width(const RowsView& a, int64_t n, int64_t item) {
  constexpr int64_t kCache = 1 << 20, kWidest = 512, kOften = 8;  // bytes, bytes, uses of a row
  const int64_t fits = std::min(kWidest, kCache / std::max<int64_t>(1, a.width)) / 64 * 64;
  if (fits == 0 || a.width * n * item <= kCache || n * item <= fits) return n;
  return a.pointers[a.height] >= kOften * a.width ? fits / item : n;
}

// multiply(rows, n, out, first, last) for pieces of lines; false if it says so of one: columns are outside.
template <class T, class F>
bool multiply_panels(const RowsView& a, const T* b, int64_t n, T* out, F multiply) {
  constexpr int64_t kPiece = 2048;  // elements of a
  const int64_t width = panel_width(a, n, sizeof(T));
  const bool packs = width < n;
  const internal::ScratchArray<T> scratch(packs ? a.width * n : 0);
  T* const packed = scratch.get();
  if (packs)
    parallel_for(a.width, std::max<int64_t>(1, 65536 / n), [&](int64_t first, int64_t last) {
      for (int64_t j = 0; j < n; j += width)
        for (int64_t i = first, w = std::min(width, n - j); i < last; ++i)
          std::copy_n(b + i * n + j, w, packed + a.width * j + i * w);
    });
  const int64_t in_a_row = a.pointers[a.height] / std::max<int64_t>(1, a.height) + 1;
  const int64_t step = std::max<int64_t>(1, kPiece / in_a_row), pieces = (a.height + step - 1) / step;
  std::atomic<bool> good{true};
  parallel_for((packs ? (n + width - 1) / width : 1) * pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t j = i / pieces * width, line = i % pieces * step, end = std::min(a.height, line + step);
      if (!multiply((packs ? packed : b) + a.width * j, std::min(width, n - j), out + j, line, end)) good = false;
    }
  });
  return good;
}

template <class T>
bool multiply_typed(const RowsView& a, const T* b, int64_t n, T* out) {
  const T* v = static_cast<const T*>(a.values);
  return multiply_panels(a, b, n, out, [&](const T* panel, int64_t w, T* to, int64_t first, int64_t last) {
    const int64_t from = a.pointers[first];
    if (!TESSERA_SIMD(AllInside)(a.columns + from, a.pointers[last] - from, a.width)) return false;
    for (int64_t i = first; i < last; ++i) {
      std::fill_n(to + i * n, w, T());
      for (int64_t k = a.pointers[i]; k < a.pointers[i + 1]; ++k)
        for (int64_t j = 0; j < w; ++j) to[i * n + j] += v[k] * panel[a.columns[k] * w + j];
    }
    return true;
  });
}

template <class T>
RowsResult multiply_sparse_typed(const RowsView& a, const RowsView& b, int64_t width) {
  const T *x = static_cast<const T*>(a.values), *y = static_cast<const T*>(b.values);
  RowsResult r;
  r.pointers.push_back(0);
  std::vector<T> sums(static_cast<size_t>(width)), values;
  std::vector<int64_t> seen(static_cast<size_t>(width), -1), line;
  for (int64_t i = 0; i < a.height; ++i) {
    line.clear();
    for (int64_t k = a.pointers[i]; k < a.pointers[i + 1]; ++k) {
      const int64_t row = a.columns[k];
      for (int64_t m = b.pointers[row]; m < b.pointers[row + 1]; ++m) {
        const size_t c = static_cast<size_t>(b.columns[m]);
        if (seen[c] != i) {
          seen[c] = i;
          sums[c] = T();
          line.push_back(b.columns[m]);
        }
        sums[c] += x[k] * y[m];
      }
    }
    std::sort(line.begin(), line.end());
    for (int64_t c : line) {
      r.columns.push_back(c);
      values.push_back(sums[static_cast<size_t>(c)]);
    }
    r.pointers.push_back(static_cast<int64_t>(r.columns.size()));
  }
  r.values.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(r.values.data(), values.data(), r.values.size());
  return r;
}

template <class T>
void reduce_typed(Reduce how, const RowsView& a, const T* b, int64_t n, T* out, int64_t* chosen) {
  const T* v = static_cast<const T*>(a.values);
  const bool greatest = how == Reduce::kMax, least = how == Reduce::kMin;
  const int64_t none = a.pointers[a.height];
  parallel_for(a.height, rows_in_a_piece(a, n), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      T* o = out + i * n;
      std::fill(o, o + n, T());
      const int64_t begin = a.pointers[i], end = a.pointers[i + 1];
      for (int64_t k = begin; k < end; ++k) {
        const T* row = b + a.columns[k] * n;
        for (int64_t j = 0; j < n; ++j) {
          const T x = v[k] * row[j];
          if (!greatest && !least) {
            o[j] += x;
          } else if (k == begin || std::isnan(x) || (greatest ? x > o[j] : x < o[j])) {
            o[j] = x;
            if (chosen) chosen[i * n + j] = k;
          }
        }
      }
      if (how == Reduce::kMean && end > begin)
        for (int64_t j = 0; j < n; ++j) o[j] /= static_cast<T>(end - begin);
      if (chosen && begin == end) std::fill(chosen + i * n, chosen + (i + 1) * n, none);
    }
  });
}

template <class T>
void softmax_typed(bool log, const int64_t* begins, int64_t groups, const uint32_t* order, int64_t width, const T* in,
                   const T* y, T* out) {
  parallel_for(groups, 256, [&](int64_t first, int64_t last) {
    for (int64_t g = first; g < last; ++g)
      for (int64_t j = 0; j < width; ++j) {
        const auto at = [&](int64_t i) { return (order ? static_cast<int64_t>(order[i]) : i) * width + j; };
        const int64_t begin = begins[g], end = begins[g + 1];
        T sum = 0;
        if (y) {
          for (int64_t i = begin; i < end; ++i) sum += log ? in[at(i)] : in[at(i)] * y[at(i)];
          for (int64_t i = begin; i < end; ++i)
            out[at(i)] = log ? in[at(i)] - std::exp(y[at(i)]) * sum : (in[at(i)] - sum) * y[at(i)];
          continue;
        }
        T most = in[at(begin)];
        for (int64_t i = begin; i < end; ++i) most = std::max(most, in[at(i)]);
        for (int64_t i = begin; i < end; ++i) sum += out[at(i)] = std::exp(in[at(i)] - most);
        const T scale = log ? most + std::log(sum) : T(1) / sum;
        for (int64_t i = begin; i < end; ++i) out[at(i)] = log ? in[at(i)] - scale : out[at(i)] * scale;
      }
  });
}

}  // namespace

bool all_inside(const int64_t* p, int64_t n, int64_t size) {
  std::atomic<bool> good{true};
  parallel_ranges(n, 1 << 16, [&](int64_t begin, int64_t end) {
    if (!TESSERA_SIMD(AllInside)(p + begin, end - begin, size)) good = false;
  });
  return good;
}

bool multiply_rows(DType t, const RowsView& a, const void* b, int64_t n, void* out) {
  using C64 = std::complex<float>;
  using C128 = std::complex<double>;
  if (t == DType::kFloat32)
    return multiply_panels(a, static_cast<const float*>(b), n, static_cast<float*>(out),
                           [&](const float* panel, int64_t w, float* to, int64_t first, int64_t last) {
                             return TESSERA_SIMD(MultiplyF32)(a, panel, w, to, n, first, last);
                           });
  if (t == DType::kFloat64)
    return multiply_panels(a, static_cast<const double*>(b), n, static_cast<double*>(out),
                           [&](const double* panel, int64_t w, double* to, int64_t first, int64_t last) {
                             return TESSERA_SIMD(MultiplyF64)(a, panel, w, to, n, first, last);
                           });
  if (t == DType::kComplex64) return multiply_typed(a, static_cast<const C64*>(b), n, static_cast<C64*>(out));
  if (t == DType::kComplex128) return multiply_typed(a, static_cast<const C128*>(b), n, static_cast<C128*>(out));
  return multiply_typed(a, static_cast<const int64_t*>(b), n, static_cast<int64_t*>(out));
}

void sample_products(DType t, const RowsView& p, const void* a, const void* b, int64_t depth, void* values) {
  parallel_for(p.height, rows_in_a_piece(p, depth), [&](int64_t first, int64_t last) {
    if (t == DType::kFloat32) TESSERA_SIMD(SampleF32)
    (p, static_cast<const float*>(a), static_cast<const float*>(b), depth, static_cast<float*>(values), first, last);
    else TESSERA_SIMD(SampleF64)(p, static_cast<const double*>(a), static_cast<const double*>(b), depth,
                                 static_cast<double*>(values), first, last);
  });
}

RowsResult multiply_sparse(DType t, const RowsView& a, const RowsView& b, int64_t width) {
  if (t == DType::kFloat64) return multiply_sparse_typed<double>(a, b, width);
  if (t == DType::kComplex128) return multiply_sparse_typed<std::complex<double>>(a, b, width);
  return multiply_sparse_typed<int64_t>(a, b, width);
}

void reduce_rows(DType t, Reduce how, const RowsView& a, const void* b, int64_t n, void* out, int64_t* chosen) {
  if (t == DType::kFloat32)
    reduce_typed(how, a, static_cast<const float*>(b), n, static_cast<float*>(out), chosen);
  else
    reduce_typed(how, a, static_cast<const double*>(b), n, static_cast<double*>(out), chosen);
}

void group_softmax(DType t, bool log, const int64_t* begins, int64_t groups, const uint32_t* order, int64_t width,
                   const void* in, const void* y, void* out) {
  if (t == DType::kFloat32)
    softmax_typed(log, begins, groups, order, width, static_cast<const float*>(in), static_cast<const float*>(y),
                  static_cast<float*>(out));
  else
    softmax_typed(log, begins, groups, order, width, static_cast<const double*>(in), static_cast<const double*>(y),
                  static_cast<double*>(out));
}

}  // namespace tessera::cpu
#endif
