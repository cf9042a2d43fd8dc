// Running sums, products, extrema and logsumexp along a dimension.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "tensor/core/error.h"
#include "tensor/cpu/reduce/lines.h"
#include "tensor/cpu/reduce/accumulate.h"
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/cpu/reduce/scan_columns.h"
#include "tensor/cpu/support/simd_move.h"
#include "tensor/cpu/support/strided_nest.h"

namespace tessera::cpu {
namespace {

// Operators of the scans: A is the type of the running value.
struct Add {
  template <class A>
  static A identity() {
    return A(0);
  }
  template <class A>
  static A apply(A a, A x) {
    return a + x;
  }
};
struct Multiply {
  template <class A>
  static A identity() {
    return A(1);
  }
  template <class A>
  static A apply(A a, A x) {
    return a * x;
  }
};
struct LogAddExp {
  template <class A>
  static A identity() {
    if constexpr (std::is_same_v<A, double>) {
      return -std::numeric_limits<double>::infinity();
    } else {
      return A(-std::numeric_limits<double>::infinity(), 0);
    }
  }
  static double apply(double a, double x) {
    if (std::isnan(a) || std::isnan(x)) return a + x;
    const double lo = std::min(a, x), hi = std::max(a, x);
    return lo == hi && std::isinf(lo) ? hi : hi + std::log1p(std::exp(lo - hi));
  }
  static std::complex<double> apply(std::complex<double> a, std::complex<double> x) {
    if (a.real() < x.real()) std::swap(a, x);
    if (std::isinf(a.real()) && a.real() < 0) return a;  // log(0 + 0)
    if (std::isinf(x.real()) && x.real() < 0) return a;
    return a + std::log(1.0 + std::exp(x - a));
  }
};

// T: element, A: running value. Four lines at a time, because each is a chain of dependent operations.
template <class Op, class T, class A>
void scan_lines(const Lines& lines, int64_t n) {
  int64_t r = 0;
  for (; r + 4 <= lines.rows; r += 4) {
    const T *x0 = lines.row<T>(2, r), *x1 = lines.row<T>(2, r + 1), *x2 = lines.row<T>(2, r + 2),
            *x3 = lines.row<T>(2, r + 3);
    T *y0 = lines.row<T>(0, r), *y1 = lines.row<T>(0, r + 1), *y2 = lines.row<T>(0, r + 2),
      *y3 = lines.row<T>(0, r + 3);
    A a0 = Op::template identity<A>(), a1 = a0, a2 = a0, a3 = a0;
    for (int64_t i = 0; i < n; ++i) {
      a0 = Op::apply(a0, static_cast<A>(x0[i]));
      a1 = Op::apply(a1, static_cast<A>(x1[i]));
      a2 = Op::apply(a2, static_cast<A>(x2[i]));
      a3 = Op::apply(a3, static_cast<A>(x3[i]));
      y0[i] = static_cast<T>(a0);
      y1[i] = static_cast<T>(a1);
      y2[i] = static_cast<T>(a2);
      y3[i] = static_cast<T>(a3);
    }
  }
  for (; r < lines.rows; ++r) {
    T* y = lines.row<T>(0, r);
    const T* x = lines.row<T>(2, r);
    A a = Op::template identity<A>();
    for (int64_t i = 0; i < n; ++i) {
      a = Op::apply(a, static_cast<A>(x[i]));
      y[i] = static_cast<T>(a);
    }
  }
}

// The index is that of the last equal element; a NaN wins over all that follows but NaN. The first test is the one that
// is mostly true.
template <bool kLargest, class T>
void scan_extreme(const Lines& lines, int64_t n) {
  if (n == 0) return;
  for (int64_t r = 0; r < lines.rows; ++r) {
    T* y = lines.row<T>(0, r);
    int64_t* index = lines.data[1] ? lines.row<int64_t>(1, r) : nullptr;
    const T* x = lines.row<T>(2, r);
    T best = x[0];
    int64_t at = 0;
    for (int64_t i = 0; i < n;) {
      // A stretch without a new extreme.
      while (i < n && (kLargest ? x[i] < best : x[i] > best)) {
        y[i] = best;
        if (index) index[i] = at;
        ++i;
      }
      if (i == n) break;
      const T v = x[i];
      if ((kLargest ? v >= best : v <= best) || v != v) {
        best = v;
        at = i;
      }
      y[i] = best;
      if (index) index[i] = at;
      ++i;
    }
  }
}

using ScanFn = void (*)(const Lines&, int64_t n);

template <class Op>
ScanFn choose_sum(DType load) {
  switch (load) {
    case DType::kFloat32:
      return scan_lines<Op, float, double>;
    case DType::kFloat64:
      return scan_lines<Op, double, double>;
    case DType::kInt64:
      return scan_lines<Op, uint64_t, uint64_t>;
    case DType::kComplex64:
      return scan_lines<Op, std::complex<float>, std::complex<double>>;
    case DType::kComplex128:
      return scan_lines<Op, std::complex<double>, std::complex<double>>;
    default:
      return nullptr;
  }
}
ScanFn choose_log(DType load) {
  switch (load) {
    case DType::kFloat32:
      return scan_lines<LogAddExp, float, double>;
    case DType::kFloat64:
      return scan_lines<LogAddExp, double, double>;
    case DType::kComplex64:
      return scan_lines<LogAddExp, std::complex<float>, std::complex<double>>;
    case DType::kComplex128:
      return scan_lines<LogAddExp, std::complex<double>, std::complex<double>>;
    default:
      return nullptr;
  }
}
template <bool kLargest>
ScanFn choose_extreme(DType load) {
  switch (load) {
    case DType::kFloat32:
      return scan_extreme<kLargest, float>;
    case DType::kFloat64:
      return scan_extreme<kLargest, double>;
    case DType::kInt64:
      return scan_extreme<kLargest, int64_t>;
    case DType::kUInt64:
      return scan_extreme<kLargest, uint64_t>;
    default:
      return nullptr;
  }
}

ScanFn choose(ScanKind kind, DType load) {
  switch (kind) {
    case ScanKind::kCumSum:
      return choose_sum<Add>(load);
    case ScanKind::kCumProd:
      return choose_sum<Multiply>(load);
    case ScanKind::kCumMax:
      return choose_extreme<true>(load);
    case ScanKind::kCumMin:
      return choose_extreme<false>(load);
    case ScanKind::kLogCumSumExp:
      return choose_log(load);
  }
  return nullptr;
}

DType load_dtype(ScanKind kind, DType compute) {
  return accumulation_dtype(compute, kind == ScanKind::kCumMax || kind == ScanKind::kCumMin);
}

}  // namespace

void run_scan(ScanKind kind, DType compute, std::span<const int64_t> shape, int dim, const Operand& out,
              const Operand& indices, const Operand& in) {
  const DType load = load_dtype(kind, compute);
  const ScanFn fn = choose(kind, load);
  static constexpr const char* kNames[] = {"cumsum_out_cpu", "cumprod_out_cpu", "cummax_cpu", "cummin_cpu",
                                           "logcumsumexp_out_cpu"};
  TESSERA_CHECK_NOT_IMPLEMENTED(fn != nullptr, '"', kNames[static_cast<int>(kind)], "\" not implemented for '",
                                type_name_of(compute), "'");
  const int64_t n = shape.empty() ? 1 : shape[dim];
  if (n == 0) return;
  const bool product = kind == ScanKind::kCumProd;
  if ((product || kind == ScanKind::kCumSum) && !is_complex(load)) {
    int64_t bytes = 2 * item_size(load);
    for (int64_t s : shape) bytes *= s;
    const bool large = bytes >= kStreamBytes;
    if (run_columns(shape, dim, load, out, in, 65536, [&](const Columns& c) { scan_columns(product, load, large, c); }))
      return;
  }
  const bool indexed = kind == ScanKind::kCumMax || kind == ScanKind::kCumMin;
  const Operand absent{nullptr, DType::kInt64, nullptr};
  const LineOperand operands[3] = {
      {out, load, n, true}, {indexed ? indices : absent, DType::kInt64, n, true}, {in, load, n, false}};
  if (kind == ScanKind::kCumSum && (load == DType::kFloat32 || load == DType::kInt64)) {
    run_lines(shape, dim, operands, [&](const Lines& lines) { scan_sum_lines(load, lines, n); });
    return;
  }
  run_lines(shape, dim, operands, [&](const Lines& lines) { fn(lines, n); });
}

}  // namespace tessera::cpu
