// Batch normalisation: x is (batch, channels, inner). Where inner is long, each (image, channel) run is worked on by
// itself; where it is short, whole rows of channels are.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/norm_batch.cc"
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
#include "nn/cpu/norm_simd-inl.h"  // last: it uses the headers above

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kShort = 16;  // inner sizes below work by rows
constexpr int64_t kBlockElements = 16384;

struct Shape {
  int64_t batch, channels, inner;
  int64_t row() const { return channels * inner; }
  int64_t run_grain() const { return kBlockElements / (inner + 1) + 1; }
  // Images of a block of rows: at most 64 blocks, each with enough to do.
  int64_t block() const {
    const int64_t least = kBlockElements / (row() + 1) + 1, most = ceil_div(batch, 64);
    return least > most ? least : most;
  }
};

// ---- Statistics ----

// The spreads of two sets combine by Chan, Golub and LeVeque (1979).
template <class T>
void long_stats(const Shape& s, const T* x, double* mean, double* var) {
  ScratchArray<Spread> runs(s.batch * s.channels);
  parallel_for(s.batch * s.channels, s.run_grain(), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) runs[r] = run_spread(x + r * s.inner, s.inner);
  });
  const double n = static_cast<double>(s.inner);
  for (int64_t c = 0; c < s.channels; ++c) {
    Spread all = runs[c];
    for (int64_t i = 1; i < s.batch; ++i) {
      const Spread one = runs[i * s.channels + c];
      const double before = n * static_cast<double>(i), delta = one.mean - all.mean, count = before + n;
      all.mean += delta * (n / count);
      all.squares += one.squares + delta * delta * (before * n / count);
    }
    mean[c] = all.mean;
    var[c] = all.squares / (n * static_cast<double>(s.batch));
  }
}

// Rows of channels (inner = 1): step(row, c, two sums) for vectors of channels, some rows of images [n0, n1) at a time;
// what it gives is added to sum[c] and sum[channels + c]. Returns the number of channels that were done.
template <class F>
HWY_INLINE int64_t add_columns(const Shape& s, int64_t n0, int64_t n1, double* sum, F&& step) {
  constexpr int64_t kRows = 8;  // whose lines stay in the first cache even if all fall on the same place
  const int64_t whole = s.inner == 1 ? s.channels / kLanes * kLanes : 0;
  for (int64_t n = n0; n < n1; n += kRows) {
    const int64_t end = HWY_MIN(n + kRows, n1);
    for (int64_t c = 0; c < whole; c += kLanes) {
      V a = hn::LoadU(d, sum + c), b = hn::LoadU(d, sum + s.channels + c);
      for (int64_t i = n; i < end; ++i) step(i, c, a, b);
      hn::StoreU(a, d, sum + c);
      hn::StoreU(b, d, sum + s.channels + c);
    }
  }
  return whole;
}

// sum[c] += x - shift[c], sum[channels + c] += its square, over images [n0, n1).
template <class T>
void add_rows(const Shape& s, const T* x, int64_t n0, int64_t n1, const double* shift, double* sum) {
  const int64_t done = add_columns(s, n0, n1, sum, [&](int64_t n, int64_t c, V& a, V& b) HWY_ATTR {
    const V v = hn::Sub(LoadD(x + n * s.channels + c), hn::LoadU(d, shift + c));
    a = hn::Add(a, v);
    b = hn::MulAdd(v, v, b);
  });
  for (int64_t n = n0; n < n1; ++n)
    for (int64_t c = done, i = n * s.row() + done * s.inner; c < s.channels; ++c)
      for (int64_t k = 0; k < s.inner; ++k, ++i) {
        const double v = to_double(x[i]) - shift[c];
        sum[c] += v;
        sum[s.channels + c] += v * v;
      }
}

// out[c] = the sum over fixed blocks of images of what fn(n0, n1, sums) adds to zeroed sums; `width` sums.
template <class F>
void sum_over_blocks(const Shape& s, int64_t width, double* out, F&& fn) {
  const int64_t block = s.block(), blocks = ceil_div(s.batch, block);
  ScratchArray<double> sums(blocks * width);
  parallel_for(s.batch, block, [&](int64_t begin, int64_t end) HWY_ATTR {
    double* const sum = sums.get() + begin / block * width;
    for (int64_t c = 0; c < width; ++c) sum[c] = 0;
    fn(begin, end, sum);
  });
  for (int64_t c = 0; c < width; ++c) {
    out[c] = 0;
    for (int64_t b = 0; b < blocks; ++b) out[c] += sums[b * width + c];
  }
}

// One pass, by deviations from the first image; a second one, from the means, where that lost digits and for float64.
template <class T>
void short_stats(const Shape& s, const T* x, double* mean, double* var) {
  const double n = static_cast<double>(s.batch * s.inner);
  ScratchArray<double> both(2 * s.channels);
  for (int64_t c = 0; c < s.channels; ++c) {
    const double first = n > 0 ? to_double(x[c * s.inner]) : 0;
    mean[c] = std::isfinite(first) ? first : 0;
  }
  for (bool again = true, last = false; again; last = true) {
    sum_over_blocks(s, 2 * s.channels, both.get(),
                    [&](int64_t n0, int64_t n1, double* sum) HWY_ATTR { add_rows(s, x, n0, n1, mean, sum); });
    again = !last && sizeof(T) == 8;
    for (int64_t c = 0; c < s.channels; ++c) {
      if (!std::isfinite(mean[c])) continue;  // infinite or NaN since the first pass
      const double shift = both[c] / n, rest = both[s.channels + c] - both[c] * shift;
      again |= !last && !spread_holds(both[c], shift, rest);
      mean[c] += shift;
      var[c] = (rest > 0 || rest != rest ? rest : 0) / n;
    }
  }
}

// ---- Application ----

// Numbers of the channels in the type that results are computed in.
template <class T>
struct Narrowed : ScratchArray<Arithmetic<T>> {
  Narrowed(const double* p, int64_t n) : ScratchArray<Arithmetic<T>>(n) {
    for (int64_t i = 0; i < n; ++i) (*this)[i] = static_cast<Arithmetic<T>>(p[i]);
  }
};

// y = (x - mean[c]) scale[c] + shift[c]
template <class T>
void Apply(const Shape& s, const T* x, const double* mean, const double* scale, const double* shift, T* y) {
  const bool stream = run_streams<T>(s.batch * s.row());
  if (s.inner >= kShort) {
    parallel_for(s.batch * s.channels, s.run_grain(), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t c = r % s.channels;
        run_affine(x + r * s.inner, s.inner, mean[c], scale[c], shift[c], y + r * s.inner, stream);
      }
      if (stream) hwy::FlushStream();
    });
    return;
  }
  const Narrowed<T> m(mean, s.channels), a(scale, s.channels), b(shift, s.channels);
  parallel_for(s.batch, s.block(), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t n = begin; n < end; ++n) {
      const T* const in = x + n * s.row();
      T* const out = y + n * s.row();
      if (s.inner == 1) {
        fill_run(out, s.channels, stream, [&](auto load) HWY_ATTR {
          return hn::MulAdd(hn::Sub(load(in), load(m.get())), load(a.get()), load(b.get()));
        });
        continue;
      }
      for (int64_t c = 0; c < s.channels; ++c)
        for (int64_t i = c * s.inner; i < (c + 1) * s.inner; ++i)
          out[i] = from_double<T>((to_double(in[i]) - mean[c]) * scale[c] + shift[c]);
    }
    if (stream) hwy::FlushStream();
  });
}

// ---- Gradient ----

// grad[c] = sum dy, product[c] = sum dy (x - mean[c])
template <class T>
void sum_moments(const Shape& s, const T* dy, const T* x, const double* mean, double* grad, double* product) {
  if (s.inner >= kShort) {
    ScratchArray<Moments> runs(s.batch * s.channels);
    parallel_for(s.batch * s.channels, s.run_grain(), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r)
        runs[r] = run_moments(dy + r * s.inner, x + r * s.inner, s.inner, mean[r % s.channels]);
    });
    for (int64_t c = 0; c < s.channels; ++c) {
      grad[c] = product[c] = 0;
      for (int64_t n = 0; n < s.batch; ++n) {
        grad[c] += runs[n * s.channels + c].grad;
        product[c] += runs[n * s.channels + c].product;
      }
    }
    return;
  }
  ScratchArray<double> both(2 * s.channels);
  sum_over_blocks(s, 2 * s.channels, both.get(), [&](int64_t n0, int64_t n1, double* sum) HWY_ATTR {
    const int64_t done = add_columns(s, n0, n1, sum, [&](int64_t n, int64_t c, V& a, V& b) HWY_ATTR {
      const V g = LoadD(dy + n * s.channels + c);
      a = hn::Add(a, g);
      b = hn::MulAdd(g, hn::Sub(LoadD(x + n * s.channels + c), hn::LoadU(d, mean + c)), b);
    });
    for (int64_t n = n0; n < n1; ++n)
      for (int64_t c = done, i = n * s.row() + done * s.inner; c < s.channels; ++c)
        for (int64_t k = 0; k < s.inner; ++k, ++i) {
          const double g = to_double(dy[i]);
          sum[c] += g;
          sum[s.channels + c] += g * (to_double(x[i]) - mean[c]);
        }
  });
  for (int64_t c = 0; c < s.channels; ++c) {
    grad[c] = both[c];
    product[c] = both[s.channels + c];
  }
}

// dx = dy a[c] + (x - mean[c]) b[c] + shift[c]
template <class T>
void Gradient(const Shape& s, const T* dy, const T* x, const double* mean, const double* a, const double* b,
              const double* shift, T* dx) {
  if (s.inner >= kShort) {
    parallel_for(s.batch * s.channels, s.run_grain(), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t c = r % s.channels, at = r * s.inner;
        run_gradient(dy + at, x + at, s.inner, mean[c], a[c], b[c], shift[c], dx + at);
      }
    });
    return;
  }
  const Narrowed<T> m(mean, s.channels), va(a, s.channels), vb(b, s.channels), vc(shift, s.channels);
  parallel_for(s.batch, s.block(), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t n = begin; n < end; ++n) {
      const T *const g = dy + n * s.row(), *const in = x + n * s.row();
      T* const out = dx + n * s.row();
      if (s.inner == 1) {
        fill_run(out, s.channels, false, [&](auto load) HWY_ATTR {
          return hn::MulAdd(load(g), load(va.get()),
                            hn::MulAdd(hn::Sub(load(in), load(m.get())), load(vb.get()), load(vc.get())));
        });
        continue;
      }
      for (int64_t c = 0, i = 0; c < s.channels; ++c)
        for (int64_t k = 0; k < s.inner; ++k, ++i)
          out[i] = from_double<T>(to_double(g[i]) * a[c] + ((to_double(in[i]) - mean[c]) * b[c] + shift[c]));
    }
  });
}

}  // namespace

void BatchNormStats(DType dtype, int64_t batch, int64_t channels, int64_t inner, const void* x, double* mean,
                    double* var) {
  visit_floats("batch_norm", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    const Shape s{batch, channels, inner};
    if (inner >= kShort && batch > 0) return long_stats(s, static_cast<const T*>(x), mean, var);
    short_stats(s, static_cast<const T*>(x), mean, var);
  });
}
void BatchNormAffine(DType dtype, int64_t batch, int64_t channels, int64_t inner, const void* x, const double* mean,
                     const double* scale, const double* shift, void* y) {
  visit_floats("batch_norm", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    Apply(Shape{batch, channels, inner}, static_cast<const T*>(x), mean, scale, shift, static_cast<T*>(y));
  });
}
void BatchNormMoments(DType dtype, int64_t batch, int64_t channels, int64_t inner, const void* dy, const void* x,
                      const double* mean, double* grad, double* product) {
  visit_floats("batch_norm_backward", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    sum_moments(Shape{batch, channels, inner}, static_cast<const T*>(dy), static_cast<const T*>(x), mean, grad,
                product);
  });
}
void BatchNormGradient(DType dtype, int64_t batch, int64_t channels, int64_t inner, const void* dy, const void* x,
                       const double* mean, const double* a, const double* b, const double* shift, void* dx) {
  visit_floats("batch_norm_backward", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    Gradient(Shape{batch, channels, inner}, static_cast<const T*>(dy), static_cast<const T*>(x), mean, a, b, shift,
             static_cast<T*>(dx));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace internal {
namespace {

TESSERA_SIMD_TABLE(BatchNormStats);
TESSERA_SIMD_TABLE(BatchNormAffine);
TESSERA_SIMD_TABLE(BatchNormMoments);
TESSERA_SIMD_TABLE(BatchNormGradient);

// A parameter as float64, or `value` where there is none.
void load_param(DType t, const void* p, int64_t n, double value, double* out) {
  if (!p) {
    for (int64_t i = 0; i < n; ++i) out[i] = value;
    return;
  }
  visit_floats("batch_norm", t, [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<double>(static_cast<Acc<T>>(static_cast<const T*>(p)[i]));
  });
}
void store_param(DType t, const double* values, int64_t n, void* p) {
  if (!p) return;
  visit_floats("batch_norm_backward", t, [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < n; ++i) static_cast<T*>(p)[i] = static_cast<T>(static_cast<Acc<T>>(values[i]));
  });
}

}  // namespace
}  // namespace internal

using namespace internal;  // NOLINT: the names above

void batch_norm_stats(DType dtype, int64_t batch, int64_t channels, int64_t inner, const void* x, double* mean,
                      double* var_biased) {
  TESSERA_SIMD(BatchNormStats)(dtype, batch, channels, inner, x, mean, var_biased);
}

void batch_norm_apply(DType dtype, DType param_dtype, int64_t batch, int64_t channels, int64_t inner, const void* x,
                      const double* mean, const double* invstd, const void* weight, const void* bias, void* y) {
  ScratchArray<double> scale(channels), shift(channels);
  load_param(param_dtype, weight, channels, 1, scale.get());
  load_param(param_dtype, bias, channels, 0, shift.get());
  for (int64_t c = 0; c < channels; ++c) scale[c] *= invstd[c];
  TESSERA_SIMD(BatchNormAffine)(dtype, batch, channels, inner, x, mean, scale.get(), shift.get(), y);
}

// With h = (x - mean) invstd: dx = weight invstd (dy - mean(dy) - h mean(dy h)) in training, weight invstd dy else.
void batch_norm_backward(DType dtype, DType param_dtype, int64_t batch, int64_t channels, int64_t inner, bool train,
                         const void* dy, const void* x, const double* mean, const double* invstd, const void* weight,
                         void* dx, void* dweight, void* dbias) {
  ScratchArray<double> grad(channels), product(channels), a(channels), b(channels), shift(channels);
  if (train || dweight || dbias)
    TESSERA_SIMD(BatchNormMoments)(dtype, batch, channels, inner, dy, x, mean, grad.get(), product.get());
  if (dx) {
    load_param(param_dtype, weight, channels, 1, a.get());
    const double n = static_cast<double>(batch * inner);
    for (int64_t c = 0; c < channels; ++c) {
      a[c] *= invstd[c];
      b[c] = train ? -a[c] * invstd[c] * invstd[c] * product[c] / n : 0;
      shift[c] = train ? -a[c] * grad[c] / n : 0;
    }
    if (!train) {
      // Infinities and NaN of x must not reach dx: it does not depend on x.
      ScratchArray<double> zero(channels);
      for (int64_t c = 0; c < channels; ++c) zero[c] = 0;
      TESSERA_SIMD(BatchNormAffine)(dtype, batch, channels, inner, dy, zero.get(), a.get(), zero.get(), dx);
    } else {
      TESSERA_SIMD(BatchNormGradient)(dtype, batch, channels, inner, dy, x, mean, a.get(), b.get(), shift.get(), dx);
    }
  }
  if (dweight) {
    for (int64_t c = 0; c < channels; ++c) product[c] *= invstd[c];
    store_param(param_dtype, product.get(), channels, dweight);
  }
  store_param(param_dtype, grad.get(), channels, dbias);
}

}  // namespace tessera::cpu
#endif
