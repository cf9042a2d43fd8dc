#include "tensor/cpu/gemm/gemm.h"

#include <complex>
#include <type_traits>
#include <utility>

#include "tensor/core/error.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm_bf16.h"
#include "tensor/cpu/gemm/gemm_int8.h"
#include "tensor/cpu/gemm/gemm_internal.h"
#include "tensor/cpu/gemm/gemm_reduced.h"
#include "tensor/cpu/pointwise/convert.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu {

void internal::store_reduced(SourceKind kind, int64_t n, float alpha, float beta, const float* sum, uint16_t* to) {
  const bool half = kind == SourceKind::kHalf;
  const auto narrow = half ? float_to_half : float_to_bfloat16;
  if (alpha == 1 && beta == 0) return narrow(to, sum, n, Store::kCached);
  constexpr int64_t kAtOnce = 256;
  float scaled[kAtOnce], before[kAtOnce];
  for (int64_t i = 0; i < n; i += kAtOnce) {
    const int64_t count = n - i < kAtOnce ? n - i : kAtOnce;
    for (int64_t j = 0; j < count; ++j) scaled[j] = alpha * sum[i + j];
    if (beta != 0) {
      (half ? half_to_float : bfloat16_to_float)(before, to + i, count);
      for (int64_t j = 0; j < count; ++j) scaled[j] = beta * before[j] + scaled[j];
    }
    narrow(to + i, scaled, count, Store::kCached);
  }
}

namespace {

using internal::GemmProblem;
using internal::GemmSource;
using internal::IntGemmProblem;
using internal::ScratchArray;
using internal::SourceKind;

constexpr int64_t kElementGrain = 32768;

// One product, all types erased.
struct Product {
  int64_t m, n, k;
  KernelParam alpha, beta;
  MatrixRef a, b, c;
  bool conj_a, conj_b;
  GemmPart part = GemmPart::kAll;
};

// C^T = B^T A^T.
void transpose(Product& p) {
  const auto flip = [](MatrixRef x) { return MatrixRef{x.data, x.col_stride, x.row_stride}; };
  std::swap(p.m, p.n);
  std::swap(p.conj_a, p.conj_b);
  if (p.part != GemmPart::kAll) p.part = p.part == GemmPart::kLower ? GemmPart::kUpper : GemmPart::kLower;
  const MatrixRef a = p.a;
  p.a = flip(p.b);
  p.b = flip(a);
  p.c = flip(p.c);
}

// Calls fn(row, begin, end) for the elements of an m x n matrix, in pieces.
template <class F>
void for_rows(int64_t m, int64_t n, F&& fn) {
  const int64_t rows = n >= kElementGrain ? 1 : kElementGrain / (n > 0 ? n : 1);
  parallel_for(m, rows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i);
  });
}

// c = beta c, without reading c when beta is zero.
template <class T, class S>
void scale(const Product& p, S beta) {
  for_rows(p.m, p.n, [&](int64_t i) {
    T* c = static_cast<T*>(p.c.data) + i * p.c.row_stride;
    for (int64_t j = 0; j < p.n; ++j, c += p.c.col_stride)
      *c = beta == S{} ? static_cast<T>(S{}) : static_cast<T>(beta * static_cast<S>(*c));
  });
}

// c = beta c + alpha sum, rounded once; sum is row-major m x n.
template <class T, class S>
void finish(const Product& p, S alpha, S beta, const S* sum) {
  for_rows(p.m, p.n, [&](int64_t i) {
    T* c = static_cast<T*>(p.c.data) + i * p.c.row_stride;
    const S* const row = sum + i * p.n;
    for (int64_t j = 0; j < p.n; ++j, c += p.c.col_stride) {
      const S v = alpha * row[j];
      *c = static_cast<T>(beta == S{} ? v : beta * static_cast<S>(*c) + v);
    }
  });
}

GemmSource source(MatrixRef x, SourceKind kind = SourceKind::kPlain) {
  return {x.data, x.row_stride, x.col_stride, kind};
}

// Rows of C are written together: a C that lies in columns is computed as its transpose, and so is one of a single
// column.
bool better_transposed(const Product& p) {
  return p.n == 1 || (p.m != 1 && p.c.col_stride != 1 && p.c.row_stride == 1);
}

template <class T>
GemmProblem<T> real_problem(const Product& p) {
  return {p.m,
          p.n,
          p.k,
          static_cast<T>(p.alpha.f),
          static_cast<T>(p.beta.f),
          source(p.a),
          source(p.b),
          static_cast<T*>(p.c.data),
          p.c.row_stride,
          p.c.col_stride,
          0,
          0,
          p.part};
}

template <class T>
void gemm_float(Product p) {
  if (p.k == 0 || static_cast<T>(p.alpha.f) == T{0}) return scale<T, T>(p, static_cast<T>(p.beta.f));
  if (better_transposed(p)) transpose(p);
  internal::gemm_real(real_problem<T>(p));
}

// `count` products like p, on this thread.
template <class T>
void batch_float(Product p, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step) {
  if (better_transposed(p)) {
    transpose(p);
    std::swap(a_step, b_step);
  }
  internal::gemm_real_batch(real_problem<T>(p), count, a_step, b_step, c_step);
}

template <class T>
constexpr SourceKind kHalfKind = std::is_same_v<T, Half> ? SourceKind::kHalf : SourceKind::kBFloat16;

// The sums of a product whose C is reduced floats, row-major m x n, to their places.
template <class T>
void finish_half(const Product& p, const float* sum) {
  const float alpha = static_cast<float>(p.alpha.f), beta = static_cast<float>(p.beta.f);
  if (p.c.col_stride != 1) return finish<T, float>(p, alpha, beta, sum);
  for_rows(p.m, p.n, [&](int64_t i) {
    internal::store_reduced(kHalfKind<T>, p.n, alpha, beta, sum + i * p.n,
                            static_cast<uint16_t*>(p.c.data) + i * p.c.row_stride);
  });
}

template <class T>
void gemm_half(Product p) {
  const float alpha = static_cast<float>(p.alpha.f), beta = static_cast<float>(p.beta.f);
  if (p.k == 0 || alpha == 0) return scale<T, float>(p, beta);
  constexpr SourceKind kKind = kHalfKind<T>;
  constexpr bool kIsHalf = kKind == SourceKind::kHalf;
  if (kIsHalf && beta == 0 && internal::gemm_f16({p.m, p.n, p.k, alpha, 0, p.a, p.b, p.c})) return;
  if (kIsHalf && beta != 0) {
    ScratchArray<float> sum(p.m * p.n);
    if (internal::gemm_f16({p.m, p.n, p.k, 1, 0, p.a, p.b, {sum.get(), p.n, 1}, true}))
      return finish_half<T>(p, sum.get());
  }
  if (better_transposed(p)) transpose(p);
  GemmProblem<float> g{p.m, p.n, p.k, 1, 0, source(p.a, kKind), source(p.b, kKind), nullptr, p.n, 1};
  if (p.c.col_stride == 1) {
    g.alpha = alpha;
    g.beta = beta;
    g.c_row = p.c.row_stride;
    return internal::gemm_rounded(g, kKind, static_cast<uint16_t*>(p.c.data));
  }
  ScratchArray<float> sum(p.m * p.n);
  g.c = sum.get();
  internal::gemm_real(g);
  finish_half<T>(p, sum.get());
}

// A complex product is a real one of twice the width, see SourceKind.
template <class R>
void gemm_complex(Product p) {
  using T = std::complex<R>;
  const T alpha(static_cast<R>(p.alpha.c[0]), static_cast<R>(p.alpha.c[1])),
      beta(static_cast<R>(p.beta.c[0]), static_cast<R>(p.beta.c[1]));
  if (p.k == 0 || alpha == T{}) return scale<T, T>(p, beta);
  if (better_transposed(p)) transpose(p);
  // A's rows of pairs are real rows, where they are dense.
  const GemmSource a =
      p.a.col_stride == 1 ? source({p.a.data, 2 * p.a.row_stride, 1}) : source(p.a, SourceKind::kComplexPairs);
  GemmSource b = source(p.b, SourceKind::kComplexExpand);
  b.odd_sign = p.conj_a ? -1 : 1;
  b.imag_sign = p.conj_b ? -1 : 1;
  GemmProblem<R> g{
      p.m, 2 * p.n, 2 * p.k, alpha.real(), beta.real(), a, b, static_cast<R*>(p.c.data), 2 * p.c.row_stride,
      1,   0,       0,       p.part};
  if (p.c.col_stride == 1 && alpha.imag() == 0 && beta.imag() == 0) return internal::gemm_real(g);
  ScratchArray<T> sum(p.m * p.n);
  g.alpha = 1;
  g.beta = 0;
  g.c = reinterpret_cast<R*>(sum.get());
  g.c_row = 2 * p.n;
  g.part = GemmPart::kAll;
  internal::gemm_real(g);
  finish<T, T>(p, alpha, beta, sum.get());
}

// The contiguous complex64 copy of a complex32 matrix.
void widen(MatrixRef& x, int64_t rows, int64_t cols, std::complex<float>* to) {
  for_rows(rows, cols, [&](int64_t i) {
    const ComplexHalf* from = static_cast<const ComplexHalf*>(x.data) + i * x.row_stride;
    for (int64_t j = 0; j < cols; ++j) to[i * cols + j] = from[j * x.col_stride];
  });
  x = {to, cols, 1};
}
void gemm_complex_half(Product p) {
  using T = std::complex<float>;
  const T alpha(static_cast<float>(p.alpha.c[0]), static_cast<float>(p.alpha.c[1])),
      beta(static_cast<float>(p.beta.c[0]), static_cast<float>(p.beta.c[1]));
  if (p.k == 0 || alpha == T{}) return scale<ComplexHalf, T>(p, beta);
  ScratchArray<T> a(p.m * p.k), b(p.k * p.n), sum(p.m * p.n);
  Product wide = p;
  widen(wide.a, p.m, p.k, a.get());
  widen(wide.b, p.k, p.n, b.get());
  wide.c = {sum.get(), p.n, 1};
  wide.alpha.c[0] = 1;
  wide.alpha.c[1] = wide.beta.c[0] = wide.beta.c[1] = 0;
  gemm_complex<float>(wide);
  finish<ComplexHalf, T>(p, alpha, beta, sum.get());
}

template <class T>
void gemm_integer(Product p, bool logical = false) {
  if (p.n == 1 || (p.m != 1 && p.b.col_stride != 1 && p.a.row_stride == 1)) transpose(p);
  IntGemmProblem<T> g{p.m,
                      p.n,
                      p.k,
                      static_cast<T>(p.alpha.i),
                      static_cast<T>(p.beta.i),
                      static_cast<const T*>(p.a.data),
                      p.a.row_stride,
                      p.a.col_stride,
                      static_cast<const T*>(p.b.data),
                      p.b.row_stride,
                      p.b.col_stride,
                      static_cast<T*>(p.c.data),
                      p.c.row_stride,
                      p.c.col_stride,
                      logical};
  if (logical) {
    g.alpha = p.alpha.i != 0;
    g.beta = p.beta.i != 0;
  }
  internal::gemm_int(g);
}

// The dot-product instructions of this machine, where they serve; else false.
bool gemm_brain(const Product& p) {
  const float alpha = static_cast<float>(p.alpha.f), beta = static_cast<float>(p.beta.f);
  return p.k != 0 && alpha != 0 && internal::gemm_bf16({p.m, p.n, p.k, alpha, beta, p.a, p.b, p.c});
}
bool batch_brain(const Product& p, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step) {
  const internal::Bf16Problem g{p.m, p.n, p.k, static_cast<float>(p.alpha.f), static_cast<float>(p.beta.f),
                                p.a, p.b, p.c};
  return internal::gemm_bf16_batch(g, count, a_step, b_step, c_step, internal::bf16_panel_level());
}
bool gemm_bytes(const Product& p) {
  return p.k != 0 && internal::gemm_int8({p.m, p.n, p.k, p.alpha.i, p.beta.i, p.a, p.b, p.c});
}

void check_sizes(int64_t batch, int64_t m, int64_t n, int64_t k) {
  TESSERA_CHECK(batch >= 0 && m >= 0 && n >= 0 && k >= 0, "gemm: sizes must not be negative, got ", m, " x ", k,
                " times ", k, " x ", n, " (batch ", batch, ")");
}

[[noreturn, gnu::cold]] void not_implemented(DType dtype) {
  ::tessera::internal::raise<NotImplementedError>("gemm is not implemented for dtype ", name_of(dtype));
}

void run_wide(DType dtype, const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  switch (dtype) {
    case DType::kFloat32:
      return gemm_float<float>(p);
    case DType::kFloat64:
      return gemm_float<double>(p);
    case DType::kComplex64:
      return gemm_complex<float>(p);
    case DType::kComplex128:
      return gemm_complex<double>(p);
    default:
      not_implemented(dtype);
  }
}

void run(DType dtype, const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  switch (dtype) {
    case DType::kBool:
      return gemm_integer<uint8_t>(p, true);
    case DType::kUInt8:
    case DType::kInt8:
      if (gemm_bytes(p)) return;
      return gemm_integer<uint8_t>(p);
    case DType::kInt16:
    case DType::kUInt16:
      return gemm_integer<uint16_t>(p);
    case DType::kInt32:
    case DType::kUInt32:
      return gemm_integer<uint32_t>(p);
    case DType::kInt64:
    case DType::kUInt64:
      return gemm_integer<uint64_t>(p);
    case DType::kFloat16:
      return gemm_half<Half>(p);
    case DType::kBFloat16:
      if (gemm_brain(p)) return;
      return gemm_half<BFloat16>(p);
    case DType::kComplex32:
      return gemm_complex_half(p);
    default:
      return run_wide(dtype, p);
  }
}

MatrixRef moved(MatrixRef x, int64_t elements, int64_t item) {
  x.data = static_cast<char*>(x.data) + elements * item;
  return x;
}

// ---- dot ----

// Partial sums over fixed blocks, added in order. fn(begin, end) -> S.
template <class S, class F>
S blocked_sum(int64_t n, F&& fn) {
  constexpr int64_t kBlock = 16384;
  if (n <= kBlock) return fn(int64_t{0}, n);
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  ScratchArray<S> parts(blocks);
  parallel_for(blocks, 4, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) parts[b] = fn(b * kBlock, b * kBlock + kBlock < n ? b * kBlock + kBlock : n);
  });
  S sum = parts[0];
  for (int64_t b = 1; b < blocks; ++b) sum = sum + parts[b];
  return sum;
}

// T: elements, S: the type of the sum.
template <class T, class S>
T dot_general(int64_t n, const void* x, int64_t xs, const void* y, int64_t ys, bool conj_x) {
  const T *a = static_cast<const T*>(x), *b = static_cast<const T*>(y);
  const S sum = blocked_sum<S>(n, [&](int64_t begin, int64_t end) {
    S s{};
    for (int64_t i = begin; i < end; ++i) {
      if constexpr (std::is_same_v<S, std::complex<float>> || std::is_same_v<S, std::complex<double>>) {
        const S u = conj_x ? std::conj(static_cast<S>(a[i * xs])) : static_cast<S>(a[i * xs]),
                v = static_cast<S>(b[i * ys]);
        s += S(u.real() * v.real() - u.imag() * v.imag(), u.real() * v.imag() + u.imag() * v.real());
      } else {
        s = static_cast<S>(s + static_cast<S>(a[i * xs]) * static_cast<S>(b[i * ys]));
      }
    }
    return s;
  });
  return static_cast<T>(sum);
}

template <class T>
T dot_float(int64_t n, const void* x, int64_t xs, const void* y, int64_t ys) {
  if (xs != 1 || ys != 1) return dot_general<T, double>(n, x, xs, y, ys, false);
  const T *a = static_cast<const T*>(x), *b = static_cast<const T*>(y);
  return static_cast<T>(blocked_sum<double>(
      n, [&](int64_t begin, int64_t end) -> double { return internal::dot_real(end - begin, a + begin, b + begin); }));
}

}  // namespace

void gemm(DType dtype, int64_t m, int64_t n, int64_t k, KernelParam alpha, MatrixRef a, MatrixRef b, KernelParam beta,
          MatrixRef c, bool conj_a, bool conj_b) {
  check_sizes(1, m, n, k);
  run(dtype, Product{m, n, k, alpha, beta, a, b, c, conj_a, conj_b});
}

void gemm_wide(DType dtype, int64_t m, int64_t n, int64_t k, KernelParam alpha, MatrixRef a, MatrixRef b,
               KernelParam beta, MatrixRef c, bool conj_a, bool conj_b, GemmPart part) {
  check_sizes(1, m, n, k);
  run_wide(dtype, Product{m, n, k, alpha, beta, a, b, c, conj_a, conj_b, part});
}

void gemm_batched(DType dtype, int64_t batch, int64_t m, int64_t n, int64_t k, KernelParam alpha, MatrixRef a,
                  int64_t a_batch_stride, MatrixRef b, int64_t b_batch_stride, KernelParam beta, MatrixRef c,
                  int64_t c_batch_stride, bool conj_a, bool conj_b) {
  check_sizes(batch, m, n, k);
  if (batch == 0 || m == 0 || n == 0) return;
  const Product one{m, n, k, alpha, beta, a, b, c, conj_a, conj_b};
  // One matrix B for all: the rows of A and C follow each other.
  if (b_batch_stride == 0 && a_batch_stride == m * a.row_stride && c_batch_stride == m * c.row_stride) {
    Product all = one;
    all.m = m * batch;
    return run(dtype, all);
  }
  const int64_t item = item_size(dtype);
  const auto product_at = [&](int64_t i) {
    Product p = one;
    p.a = moved(a, i * a_batch_stride, item);
    p.b = moved(b, i * b_batch_stride, item);
    p.c = moved(c, i * c_batch_stride, item);
    return p;
  };
  // Few large products share their own work among the threads, others, and many brief ones of bfloat16, are shared out
  // whole.
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k + 1);
  const bool reduced = dtype == DType::kBFloat16 || item == 1,
             brief = dtype == DType::kBFloat16 && batch >= 2 * num_threads();
  if (work > (reduced ? 1 << 24 : batch < 8 ? 1 << 20 : 1 << 26) && !brief) {
    for (int64_t i = 0; i < batch; ++i) run(dtype, product_at(i));
    return;
  }
  const int64_t grain = work >= (1 << 17) ? 1 : static_cast<int64_t>((1 << 17) / work);
  const bool plain = k > 0 && static_cast<float>(alpha.f) != 0;
  parallel_ranges(batch, grain, [&](int64_t begin, int64_t end) {
    if (plain && dtype == DType::kBFloat16 &&
        batch_brain(product_at(begin), end - begin, a_batch_stride, b_batch_stride, c_batch_stride))
      return;
    if (plain && dtype == DType::kFloat32)
      return batch_float<float>(product_at(begin), end - begin, a_batch_stride, b_batch_stride, c_batch_stride);
    if (plain && dtype == DType::kFloat64)
      return batch_float<double>(product_at(begin), end - begin, a_batch_stride, b_batch_stride, c_batch_stride);
    for (int64_t i = begin; i < end; ++i) run(dtype, product_at(i));
  });
}

void dot(DType dtype, int64_t n, const void* x, int64_t xs, const void* y, int64_t ys, bool conj_x, void* out) {
  TESSERA_CHECK(n >= 0, "dot: the number of elements must not be negative, got ", n);
  const auto put = [out](auto value) { *static_cast<decltype(value)*>(out) = value; };
  switch (dtype) {
    case DType::kBool: {
      const auto *a = static_cast<const uint8_t*>(x), *b = static_cast<const uint8_t*>(y);
      bool any = false;
      for (int64_t i = 0; i < n && !any; ++i) any = a[i * xs] && b[i * ys];
      return put(any);
    }
    case DType::kUInt8:
    case DType::kInt8:
      return put(dot_general<uint8_t, uint64_t>(n, x, xs, y, ys, false));
    case DType::kInt16:
    case DType::kUInt16:
      return put(dot_general<uint16_t, uint64_t>(n, x, xs, y, ys, false));
    case DType::kInt32:
    case DType::kUInt32:
      return put(dot_general<uint32_t, uint64_t>(n, x, xs, y, ys, false));
    case DType::kInt64:
    case DType::kUInt64:
      return put(dot_general<uint64_t, uint64_t>(n, x, xs, y, ys, false));
    case DType::kFloat16:
      return put(dot_general<Half, float>(n, x, xs, y, ys, false));
    case DType::kBFloat16:
      return put(dot_general<BFloat16, float>(n, x, xs, y, ys, false));
    case DType::kFloat32:
      return put(dot_float<float>(n, x, xs, y, ys));
    case DType::kFloat64:
      return put(dot_float<double>(n, x, xs, y, ys));
    case DType::kComplex32:
      return put(dot_general<ComplexHalf, std::complex<float>>(n, x, xs, y, ys, conj_x));
    case DType::kComplex64:
      return put(dot_general<std::complex<float>, std::complex<float>>(n, x, xs, y, ys, conj_x));
    case DType::kComplex128:
      return put(dot_general<std::complex<double>, std::complex<double>>(n, x, xs, y, ys, conj_x));
    default:
      TESSERA_CHECK_NOT_IMPLEMENTED(false, "dot is not implemented for dtype ", name_of(dtype));
  }
}

}  // namespace tessera::cpu
