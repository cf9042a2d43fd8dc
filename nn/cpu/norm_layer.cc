// Layer and group normalisation.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/norm_layer.cc"
#include <cmath>
#include <type_traits>

#include "hwy/foreach_target.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/norm.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"
#include "tensor/cpu/support/simd_move.h"
#include "nn/cpu/norm_simd-inl.h"  // last: it uses the headers above

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

// mean and rstd are kept in float for the 16-bit types.
template <class T>
using Stat = Acc<T>;

inline int64_t row_grain(int64_t n) { return n >= 16384 ? 1 : 16384 / (n + 1) + 1; }

// Mean and 1 / sqrt(biased variance + eps) of a run.
struct RunStats {
  double mean, rstd;
};
template <class T>
RunStats run_stats(const T* x, int64_t n, double eps) {
  const Spread s = run_spread(x, n);
  return {s.mean, 1 / std::sqrt(s.squares / static_cast<double>(n) + eps)};
}

template <class T>
HWY_INLINE V load_or(const T* p, int64_t i, double value) {
  return p ? LoadD(p + i) : hn::Set(d, value);
}
template <class T>
HWY_INLINE double element_or(const T* p, int64_t i, double value) {
  return p ? to_double(p[i]) : value;
}

template <class T>
void layer_norm_row(int64_t n, RunStats s, const T* x, const T* weight, const T* bias, T* y, bool stream) {
  using A = Arithmetic<T>;
  const DW<T> dw;
  const auto mean = hn::Set(dw, static_cast<A>(s.mean)), rstd = hn::Set(dw, static_cast<A>(s.rstd)),
             one = hn::Set(dw, A{1}), zero = hn::Zero(dw);
  fill_run(y, n, stream, [&](auto load) HWY_ATTR {
    if (stream) __builtin_prefetch(x + n + load.at);  // the next row
    return hn::MulAdd(hn::Mul(hn::Sub(load(x), mean), rstd), weight ? load(weight) : one, bias ? load(bias) : zero);
  });
}

template <class T>
void Forward(int64_t rows, int64_t n, double eps, const T* x, const T* weight, const T* bias, T* y, Stat<T>* mean,
             Stat<T>* rstd) {
  const bool stream = run_streams<T>(rows * n);
  parallel_for(rows, row_grain(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      const RunStats s = run_stats(x + r * n, n, eps);
      layer_norm_row(n, s, x + r * n, weight, bias, y + r * n, stream);
      mean[r] = static_cast<Stat<T>>(s.mean);
      rstd[r] = static_cast<Stat<T>>(s.rstd);
    }
    if (stream) hwy::FlushStream();
  });
}

// Sums of a row: g = dy weight, and g (x - mean). With dweight: dweight += dy (x - mean) rstd, dbias += dy.
template <bool kParams, class T>
Moments layer_norm_row_sums(int64_t n, const T* dy, const T* x, RunStats s, const T* weight, double* dweight,
                            double* dbias) {
  const V mean = hn::Set(d, s.mean), rstd = hn::Set(d, s.rstd);
  V sum = hn::Zero(d), product = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V grad = LoadD(dy + i), h = hn::Sub(LoadD(x + i), mean), g = hn::Mul(grad, load_or(weight, i, 1));
    sum = hn::Add(sum, g);
    product = hn::MulAdd(g, h, product);
    if constexpr (kParams) {
      hn::StoreU(hn::MulAdd(grad, hn::Mul(h, rstd), hn::LoadU(d, dweight + i)), d, dweight + i);
      hn::StoreU(hn::Add(grad, hn::LoadU(d, dbias + i)), d, dbias + i);
    }
  }
  Moments all{total(sum), total(product)};
  for (; i < n; ++i) {
    const double grad = to_double(dy[i]), h = to_double(x[i]) - s.mean, g = grad * element_or(weight, i, 1);
    all.grad += g;
    all.product += g * h;
    if constexpr (kParams) {
      dweight[i] += grad * (h * s.rstd);
      dbias[i] += grad;
    }
  }
  return all;
}

// With h = (x - mean) rstd: dx = rstd (g - mean(g) - h mean(g h)).
template <class T>
void layer_norm_row_dx(int64_t n, const T* dy, const T* x, RunStats s, const Moments& sums, const T* weight, T* dx,
                       bool stream) {
  using A = Arithmetic<T>;
  const DW<T> dw;
  const double b = -s.rstd * s.rstd * s.rstd * sums.product / static_cast<double>(n),
               c = -s.rstd * sums.grad / static_cast<double>(n);
  const auto mean = hn::Set(dw, static_cast<A>(s.mean)), va = hn::Set(dw, static_cast<A>(s.rstd)),
             vb = hn::Set(dw, static_cast<A>(b)), vc = hn::Set(dw, static_cast<A>(c)), one = hn::Set(dw, A{1});
  fill_run(dx, n, stream, [&](auto load) HWY_ATTR {
    if (stream) {  // the next rows
      __builtin_prefetch(x + n + load.at);
      __builtin_prefetch(dy + n + load.at);
    }
    return hn::MulAdd(hn::Mul(load(dy), weight ? load(weight) : one), va, hn::MulAdd(hn::Sub(load(x), mean), vb, vc));
  });
}

// Rows are cut into fixed blocks with sums of their own, which are added in order.
template <class T>
void Backward(int64_t rows, int64_t n, const T* dy, const T* x, const Stat<T>* mean, const Stat<T>* rstd,
              const T* weight, T* dx, T* dweight, T* dbias) {
  const bool params = dweight || dbias;
  int64_t blocks = params ? (int64_t{1} << 20) / (2 * n + 1) : 64;
  blocks = blocks < 1 ? 1 : blocks > 64 ? 64 : blocks;
  const int64_t least = row_grain(n), block = ceil_div(rows, blocks) < least ? least : ceil_div(rows, blocks);
  blocks = ceil_div(rows, block);
  const bool stream = run_streams<T>(rows * n);
  ScratchArray<double> sums(params ? blocks * 2 * n : 0);
  parallel_for(rows, block, [&](int64_t begin, int64_t end) HWY_ATTR {
    double* const sum = params ? sums.get() + begin / block * 2 * n : nullptr;
    if (params)
      for (int64_t i = 0; i < 2 * n; ++i) sum[i] = 0;
    for (int64_t r = begin; r < end; ++r) {
      const RunStats s{static_cast<double>(mean[r]), static_cast<double>(rstd[r])};
      const Moments m = params ? layer_norm_row_sums<true>(n, dy + r * n, x + r * n, s, weight, sum, sum + n)
                               : layer_norm_row_sums<false>(n, dy + r * n, x + r * n, s, weight, nullptr, nullptr);
      if (dx) layer_norm_row_dx(n, dy + r * n, x + r * n, s, m, weight, dx + r * n, stream);
    }
    if (stream) hwy::FlushStream();
  });
  if (!params) return;
  parallel_for(n, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double w = 0, b = 0;
      for (int64_t k = 0; k < blocks; ++k) {
        w += sums[k * 2 * n + i];
        b += sums[k * 2 * n + n + i];
      }
      if (dweight) dweight[i] = from_double<T>(w);
      if (dbias) dbias[i] = from_double<T>(b);
    }
  });
}

template <class T>
void GroupForward(int64_t batch, int64_t channels, int64_t inner, int64_t groups, double eps, const T* x,
                  const T* weight, const T* bias, T* y, Stat<T>* mean, Stat<T>* rstd) {
  const int64_t per_group = channels / groups, n = per_group * inner;
  const bool stream = run_streams<T>(batch * channels * inner);
  parallel_for(batch * groups, row_grain(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      const RunStats s = run_stats(x + r * n, n, eps);
      mean[r] = static_cast<Stat<T>>(s.mean);
      rstd[r] = static_cast<Stat<T>>(s.rstd);
      for (int64_t k = 0; k < per_group; ++k) {
        const int64_t c = r % groups * per_group + k, at = r * n + k * inner;
        run_affine(x + at, inner, s.mean, s.rstd * element_or(weight, c, 1), element_or(bias, c, 0), y + at, stream);
      }
    }
    if (stream) hwy::FlushStream();
  });
}

template <class T>
void GroupBackward(int64_t batch, int64_t channels, int64_t inner, int64_t groups, const T* dy, const T* x,
                   const Stat<T>* mean, const Stat<T>* rstd, const T* weight, T* dx, T* dweight, T* dbias) {
  const int64_t per_group = channels / groups, n = per_group * inner;
  ScratchArray<Moments> moments(batch * channels);  // of each run: sum dy, sum dy (x - mean)
  parallel_for(batch * groups, row_grain(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      const RunStats s{static_cast<double>(mean[r]), static_cast<double>(rstd[r])};
      double g_sum = 0, g_product = 0;
      for (int64_t k = 0; k < per_group; ++k) {
        const int64_t c = r % groups * per_group + k, at = r * n + k * inner;
        const Moments m = moments[r * per_group + k] = run_moments(dy + at, x + at, inner, s.mean);
        g_sum += element_or(weight, c, 1) * m.grad;
        g_product += element_or(weight, c, 1) * m.product;
      }
      if (!dx) continue;
      const double b = -s.rstd * s.rstd * s.rstd * g_product / static_cast<double>(n),
                   shift = -s.rstd * g_sum / static_cast<double>(n);
      for (int64_t k = 0; k < per_group; ++k) {
        const int64_t c = r % groups * per_group + k, at = r * n + k * inner;
        run_gradient(dy + at, x + at, inner, s.mean, s.rstd * element_or(weight, c, 1), b, shift, dx + at);
      }
    }
  });
  if (!dweight && !dbias) return;
  for (int64_t c = 0; c < channels; ++c) {
    double w = 0, b = 0;
    for (int64_t i = 0; i < batch && inner > 0; ++i) {  // groups of nothing have no rstd
      w += moments[i * channels + c].product * static_cast<double>(rstd[i * groups + c / per_group]);
      b += moments[i * channels + c].grad;
    }
    if (dweight) dweight[c] = from_double<T>(w);
    if (dbias) dbias[c] = from_double<T>(b);
  }
}

}  // namespace

#define TESSERA_IN(p) static_cast<const T*>(p)
#define TESSERA_OUT(p) static_cast<T*>(p)
#define TESSERA_STAT(p) static_cast<Acc<T>*>(p)
#define TESSERA_CSTAT(p) static_cast<const Acc<T>*>(p)

void LayerNormForward(DType dtype, int64_t rows, int64_t n, double eps, const void* x, const void* weight,
                      const void* bias, void* y, void* mean, void* rstd) {
  visit_floats("LayerNormKernelImpl", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    Forward<T>(rows, n, eps, TESSERA_IN(x), TESSERA_IN(weight), TESSERA_IN(bias), TESSERA_OUT(y), TESSERA_STAT(mean),
               TESSERA_STAT(rstd));
  });
}
void LayerNormBackward(DType dtype, int64_t rows, int64_t n, const void* dy, const void* x, const void* mean,
                       const void* rstd, const void* weight, void* dx, void* dweight, void* dbias) {
  visit_floats("LayerNormBackwardKernelImpl", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    Backward<T>(rows, n, TESSERA_IN(dy), TESSERA_IN(x), TESSERA_CSTAT(mean), TESSERA_CSTAT(rstd), TESSERA_IN(weight),
                TESSERA_OUT(dx), TESSERA_OUT(dweight), TESSERA_OUT(dbias));
  });
}
void GroupNormForward(DType dtype, int64_t batch, int64_t channels, int64_t inner, int64_t groups, double eps,
                      const void* x, const void* weight, const void* bias, void* y, void* mean, void* rstd) {
  visit_floats("GroupNormKernelImpl", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    GroupForward<T>(batch, channels, inner, groups, eps, TESSERA_IN(x), TESSERA_IN(weight), TESSERA_IN(bias),
                    TESSERA_OUT(y), TESSERA_STAT(mean), TESSERA_STAT(rstd));
  });
}
void GroupNormBackward(DType dtype, int64_t batch, int64_t channels, int64_t inner, int64_t groups, const void* dy,
                       const void* x, const void* mean, const void* rstd, const void* weight, void* dx, void* dweight,
                       void* dbias) {
  visit_floats("GroupNormBackwardKernelImpl", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    GroupBackward<T>(batch, channels, inner, groups, TESSERA_IN(dy), TESSERA_IN(x), TESSERA_CSTAT(mean),
                     TESSERA_CSTAT(rstd), TESSERA_IN(weight), TESSERA_OUT(dx), TESSERA_OUT(dweight),
                     TESSERA_OUT(dbias));
  });
}
#undef TESSERA_IN
#undef TESSERA_OUT
#undef TESSERA_STAT
#undef TESSERA_CSTAT

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace internal {
namespace {
TESSERA_SIMD_TABLE(LayerNormForward);
TESSERA_SIMD_TABLE(LayerNormBackward);
TESSERA_SIMD_TABLE(GroupNormForward);
TESSERA_SIMD_TABLE(GroupNormBackward);
}  // namespace
}  // namespace internal

using namespace internal;  // NOLINT: the tables above

void layer_norm_forward(DType dtype, int64_t rows, int64_t n, double eps, const void* x, const void* weight,
                        const void* bias, void* y, void* mean, void* rstd) {
  TESSERA_SIMD(LayerNormForward)(dtype, rows, n, eps, x, weight, bias, y, mean, rstd);
}
void layer_norm_backward(DType dtype, int64_t rows, int64_t n, const void* dy, const void* x, const void* mean,
                         const void* rstd, const void* weight, void* dx, void* dweight, void* dbias) {
  TESSERA_SIMD(LayerNormBackward)(dtype, rows, n, dy, x, mean, rstd, weight, dx, dweight, dbias);
}
void group_norm_forward(DType dtype, int64_t batch, int64_t channels, int64_t inner, int64_t groups, double eps,
                        const void* x, const void* weight, const void* bias, void* y, void* mean, void* rstd) {
  TESSERA_SIMD(GroupNormForward)(dtype, batch, channels, inner, groups, eps, x, weight, bias, y, mean, rstd);
}
void group_norm_backward(DType dtype, int64_t batch, int64_t channels, int64_t inner, int64_t groups, const void* dy,
                         const void* x, const void* mean, const void* rstd, const void* weight, void* dx, void* dweight,
                         void* dbias) {
  TESSERA_SIMD(GroupNormBackward)(dtype, batch, channels, inner, groups, dy, x, mean, rstd, weight, dx, dweight, dbias);
}

}  // namespace tessera::cpu
#endif
