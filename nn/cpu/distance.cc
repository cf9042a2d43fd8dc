// Distances between rows. The second matrix is transposed, so that a vector holds one feature of neighbouring rows;
// features are added up in their order.
#include "nn/cpu/distance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/distance.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// |difference| adds to the running value; at the end the distance.
struct Ones {
  template <class D, class V>
  HWY_INLINE static V Add(D d, V sum, V a) {
    return hn::Add(sum, hn::IfThenZeroElse(hn::Eq(a, hn::Zero(d)), hn::Set(d, 1)));
  }
  template <class V>
  HWY_INLINE static V End(V sum) {
    return sum;
  }
};
struct Sum {
  template <class D, class V>
  HWY_INLINE static V Add(D, V sum, V a) {
    return hn::Add(sum, a);
  }
  template <class V>
  HWY_INLINE static V End(V sum) {
    return sum;
  }
};
struct Squares {
  template <class D, class V>
  HWY_INLINE static V Add(D, V sum, V a) {
    return hn::MulAdd(a, a, sum);
  }
  template <class V>
  HWY_INLINE static V End(V sum) {
    return hn::Sqrt(sum);
  }
};
struct Greatest {
  // A NaN stays.
  template <class D, class V>
  HWY_INLINE static V Add(D, V sum, V a) {
    return hn::IfThenElse(hn::Or(hn::Gt(a, sum), hn::IsNaN(a)), a, sum);
  }
  template <class V>
  HWY_INLINE static V End(V sum) {
    return sum;
  }
};

// Distances of x (m features) to the r columns of t (m x width, width a multiple of the lanes); out has room for width
// numbers.
template <class Op, class T>
void Distances(const T* x, const T* t, int64_t m, int64_t width, T* out) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  int64_t j = 0;
  for (; j + 4 * kLanes <= width; j += 4 * kLanes) {
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    const T* column = t + j;
    for (int64_t k = 0; k < m; ++k, column += width) {
      const auto v = hn::Set(d, x[k]);
      s0 = Op::Add(d, s0, hn::Abs(hn::Sub(v, hn::Load(d, column))));
      s1 = Op::Add(d, s1, hn::Abs(hn::Sub(v, hn::Load(d, column + kLanes))));
      s2 = Op::Add(d, s2, hn::Abs(hn::Sub(v, hn::Load(d, column + 2 * kLanes))));
      s3 = Op::Add(d, s3, hn::Abs(hn::Sub(v, hn::Load(d, column + 3 * kLanes))));
    }
    hn::StoreU(Op::End(s0), d, out + j);
    hn::StoreU(Op::End(s1), d, out + j + kLanes);
    hn::StoreU(Op::End(s2), d, out + j + 2 * kLanes);
    hn::StoreU(Op::End(s3), d, out + j + 3 * kLanes);
  }
  for (; j < width; j += kLanes) {
    auto s = hn::Zero(d);
    for (int64_t k = 0; k < m; ++k)
      s = Op::Add(d, s, hn::Abs(hn::Sub(hn::Set(d, x[k]), hn::Load(d, t + k * width + j))));
    hn::StoreU(Op::End(s), d, out + j);
  }
}
template <class T>
void PowerDistances(double norm, const T* x, const T* t, int64_t m, int64_t width, T* out) {
  for (int64_t j = 0; j < width; ++j) {
    T s = 0;
    for (int64_t k = 0; k < m; ++k) s += std::pow(std::abs(x[k] - t[k * width + j]), static_cast<T>(norm));
    out[j] = std::pow(s, static_cast<T>(1 / norm));
  }
}
template <class T>
void DistancesOf(double norm, const T* x, const T* t, int64_t m, int64_t width, T* out) {
  if (norm == 0) return Distances<Ones>(x, t, m, width, out);
  if (norm == 1) return Distances<Sum>(x, t, m, width, out);
  if (norm == 2) return Distances<Squares>(x, t, m, width, out);
  if (std::isinf(norm)) return Distances<Greatest>(x, t, m, width, out);
  PowerDistances(norm, x, t, m, width, out);
}

#if HWY_TARGET <= HWY_AVX3
// The same bits as hn::Sqrt by multiplications alone, for numbers whose squares, roots and residues are far from the
// limits of the range.
template <class D, class V>
HWY_INLINE V RootByProducts(D d, V x) {
  const V half = hn::Set(d, 0.5f), y = hn::ApproximateReciprocalSqrt(x);
  V root = hn::Mul(x, y), slope = hn::Mul(half, y);
  const V error = hn::NegMulAdd(root, slope, half);
  root = hn::MulAdd(root, error, root);
  slope = hn::MulAdd(slope, error, slope);
  return hn::MulAdd(hn::NegMulAdd(root, root, x), slope, root);
}
#endif

// c holds products: c = sqrt(max(0, a + b[j] - 2 c)); NaN stays.
template <class T>
void FinishProducts(T a, const T* b, int64_t n, T* c) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  const auto va = hn::Set(d, a), two = hn::Set(d, 2);
  const auto square = [&](int64_t j) HWY_ATTR {
    const auto v = hn::NegMulAdd(two, hn::LoadU(d, c + j), hn::Add(va, hn::LoadU(d, b + j)));
    return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v);
  };
  int64_t j = 0;
#if HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(T) == 4) {
    // The divider takes the roots of one vector while multiplications find those of another.
    const auto least = hn::Set(d, 1e-20f), most = hn::Set(d, 1e20f);
    for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
      const auto v0 = square(j), v1 = square(j + kLanes);
      const bool usual = hn::AllTrue(d, hn::And(hn::Ge(v1, least), hn::Le(v1, most)));
      hn::StoreU(hn::Sqrt(v0), d, c + j);
      hn::StoreU(HWY_LIKELY(usual) ? RootByProducts(d, v1) : hn::Sqrt(v1), d, c + j + kLanes);
    }
  }
#endif
  for (; j + kLanes <= n; j += kLanes) hn::StoreU(hn::Sqrt(square(j)), d, c + j);
  for (; j < n; ++j) {
    const T v = a + b[j] - 2 * c[j];
    c[j] = std::sqrt(v < 0 ? T{0} : v);
  }
}

// out[k] += the slope along feature k of one pair's distance, times grad.
template <class T>
void AddSlope(double norm, T grad, T distance, const T* x, const T* y, int64_t m, T* out) {
  if (distance == 0 || norm == 0) return;
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  const auto sign = [](T v) { return static_cast<T>((v > 0) - (v < 0)); };
  int64_t k = 0;
  if (norm == 2) {
    const T scale = grad / distance;
    const auto s = hn::Set(d, scale);
    for (; k + kLanes <= m; k += kLanes)
      hn::StoreU(hn::MulAdd(s, hn::Sub(hn::LoadU(d, x + k), hn::LoadU(d, y + k)), hn::LoadU(d, out + k)), d, out + k);
    for (; k < m; ++k) out[k] += scale * (x[k] - y[k]);
  } else if (norm == 1) {
    const auto g = hn::Set(d, grad);
    for (; k + kLanes <= m; k += kLanes) {
      const auto a = hn::LoadU(d, x + k), b = hn::LoadU(d, y + k);
      hn::StoreU(
          hn::Add(hn::LoadU(d, out + k), hn::IfThenZeroElse(hn::Eq(a, b), hn::CopySign(g, hn::Xor(g, hn::Sub(a, b))))),
          d, out + k);
    }
    for (; k < m; ++k) out[k] += grad * sign(x[k] - y[k]);
  } else if (std::isinf(norm)) {
    for (; k < m; ++k) out[k] += std::abs(x[k] - y[k]) == distance ? grad * sign(x[k] - y[k]) : T{0};
  } else {
    const T below = std::pow(distance, static_cast<T>(norm - 1));
    for (; k < m; ++k) {
      const T v = x[k] - y[k];
      if (v != 0) out[k] += sign(v) * std::pow(std::abs(v), static_cast<T>(norm - 1)) * grad / below;
    }
  }
}

template <class T>
void BackwardRowOf(double norm, const T* grad, const T* x, const T* y, const T* distances, int64_t r, int64_t m,
                   T* out) {
  std::fill(out, out + m, T{0});
  for (int64_t j = 0; j < r; ++j) AddSlope(norm, grad[j], distances[j], x, y + j * m, m, out);
}

}  // namespace

void DistanceRow(DType t, double norm, const void* x, const void* columns, int64_t m, int64_t width, void* out) {
  if (t == DType::kFloat32)
    return DistancesOf(norm, static_cast<const float*>(x), static_cast<const float*>(columns), m, width,
                       static_cast<float*>(out));
  DistancesOf(norm, static_cast<const double*>(x), static_cast<const double*>(columns), m, width,
              static_cast<double*>(out));
}
void FinishRow(DType t, double a, const void* b, int64_t n, void* c) {
  if (t == DType::kFloat32)
    return FinishProducts(static_cast<float>(a), static_cast<const float*>(b), n, static_cast<float*>(c));
  FinishProducts(a, static_cast<const double*>(b), n, static_cast<double*>(c));
}
void BackwardRow(DType t, double norm, const void* grad, const void* x, const void* y, const void* distances, int64_t r,
                 int64_t m, void* out) {
  if (t == DType::kFloat32) {
    return BackwardRowOf(norm, static_cast<const float*>(grad), static_cast<const float*>(x),
                         static_cast<const float*>(y), static_cast<const float*>(distances), r, m,
                         static_cast<float*>(out));
  }
  BackwardRowOf(norm, static_cast<const double*>(grad), static_cast<const double*>(x), static_cast<const double*>(y),
                static_cast<const double*>(distances), r, m, static_cast<double*>(out));
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

TESSERA_SIMD_TABLE(DistanceRow);
TESSERA_SIMD_TABLE(FinishRow);
TESSERA_SIMD_TABLE(BackwardRow);

constexpr int64_t kGrain = 32768;
constexpr int64_t kRowBlock = 128;  // rows of a product that are finished while they are in cache

template <class T>
void square_norms(const T* x, int64_t rows, int64_t m, T* norms) {
  for (int64_t i = 0; i < rows; ++i) {
    double s[4] = {};
    const T* p = x + i * m;
    int64_t k = 0;
    for (; k + 4 <= m; k += 4) {
      for (int64_t l = 0; l < 4; ++l) s[l] += static_cast<double>(p[k + l]) * p[k + l];
    }
    for (; k < m; ++k) s[0] += static_cast<double>(p[k]) * p[k];
    norms[i] = static_cast<T>((s[0] + s[1]) + (s[2] + s[3]));
  }
}

template <class T>
void distances_by_product(DType dtype, int64_t batch, int64_t p, int64_t r, int64_t m, const T* x1, const T* x2,
                          T* out) {
  const internal::ScratchArray<T> norms1(batch * p), norms2(batch * r);
  square_norms(x1, batch * p, m, norms1.get());
  square_norms(x2, batch * r, m, norms2.get());
  KernelParam one{}, zero{};
  one.f = 1;
  zero.f = 0;
  const int64_t blocks = (p + kRowBlock - 1) / kRowBlock;
  parallel_for(batch * blocks, std::max<int64_t>(1, kGrain / (kRowBlock * r)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / blocks, first = i % blocks * kRowBlock, rows = std::min(kRowBlock, p - first);
      T* c = out + (b * p + first) * r;
      gemm(dtype, rows, r, m, one, {const_cast<T*>(x1 + (b * p + first) * m), m, 1},
           {const_cast<T*>(x2 + b * r * m), 1, m}, zero, {c, r, 1});
      for (int64_t k = 0; k < rows; ++k)
        TESSERA_SIMD(FinishRow)(dtype, norms1[b * p + first + k], norms2.get() + b * r, r, c + k * r);
    }
  });
}

template <class T>
void distances_by_feature(DType dtype, int64_t batch, int64_t p, int64_t r, int64_t m, double norm, const T* x1,
                          const T* x2, T* out) {
  constexpr int64_t kMultiple = 64 / sizeof(T);
  const int64_t width = (r + kMultiple - 1) / kMultiple * kMultiple;
  const internal::ScratchArray<T> columns(m * width);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t j = 0; j < width; ++j) columns[k * width + j] = j < r ? x2[(b * r + j) * m + k] : T{0};
    }
    parallel_for(p, std::max<int64_t>(1, kGrain / (m * width)), [&](int64_t begin, int64_t end) {
      const internal::ScratchArray<T> line(width);
      for (int64_t i = begin; i < end; ++i) {
        TESSERA_SIMD(DistanceRow)(dtype, norm, x1 + (b * p + i) * m, columns.get(), m, width, line.get());
        std::copy(line.get(), line.get() + r, out + (b * p + i) * r);
      }
    });
  }
}

}  // namespace

void pair_distances(DType dtype, int64_t batch, int64_t p, int64_t r, int64_t m, double norm, bool by_product,
                    const void* x1, const void* x2, void* out) {
  TESSERA_CHECK_NOT_IMPLEMENTED(dtype == DType::kFloat32 || dtype == DType::kFloat64, "\"cdist\" not implemented for '",
                                type_name_of(dtype), "'");
  const auto work = [&](auto t) {
    using T = decltype(t);
    const T *a = static_cast<const T*>(x1), *b = static_cast<const T*>(x2);
    if (m == 0) {
      std::fill(static_cast<T*>(out), static_cast<T*>(out) + batch * p * r, T{0});
    } else if (by_product) {
      distances_by_product(dtype, batch, p, r, m, a, b, static_cast<T*>(out));
    } else {
      distances_by_feature(dtype, batch, p, r, m, norm, a, b, static_cast<T*>(out));
    }
  };
  dtype == DType::kFloat32 ? work(float{}) : work(double{});
}

void pair_distances_backward(DType dtype, int64_t batch, int64_t p, int64_t r, int64_t m, double norm, const void* grad,
                             const void* x1, const void* x2, const void* distances, void* dx1) {
  TESSERA_CHECK_NOT_IMPLEMENTED(dtype == DType::kFloat32 || dtype == DType::kFloat64,
                                "\"cdist_backward\" not implemented for '", type_name_of(dtype), "'");
  const int64_t size = item_size(dtype);
  const auto at = [size](const void* base, int64_t element) { return static_cast<const char*>(base) + element * size; };
  parallel_for(batch * p, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, r * m)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      TESSERA_SIMD(BackwardRow)
      (dtype, norm, at(grad, i * r), at(x1, i * m), at(x2, i / p * r * m), at(distances, i * r), r, m,
       static_cast<char*>(dx1) + i * m * size);
    }
  });
}

}  // namespace tessera::cpu
#endif
