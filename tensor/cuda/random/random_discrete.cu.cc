// Samplers that use as many random bits as they happen to need, permutations and choices.
#include <algorithm>
#include <cmath>

#include "tensor/cuda/support/block.h"
#include "tensor/cuda/random/engines.h"
#include "tensor/cuda/sort/engines.h"
#include "tensor/cuda/random/random_stream.h"
#include "tensor/cuda/support/report.h"

namespace tessera::cuda {

using cpu::Shape;

namespace {

// The numbers of one element, as many as it asks for: further words come from streams whose numbers no element has.
class Draws {
 public:
  __device__ Draws(const Philox& p, int64_t element) : philox_(p), stream_(static_cast<uint64_t>(element)) {}
  // (0, 1]
  __device__ double uniform() {
    if (waiting_) {
      waiting_ = false;
      return second_;
    }
    const PhiloxWords w = next();
    waiting_ = true;
    second_ = unit_double(w.z, w.w);
    return unit_double(w.x, w.y);
  }
  __device__ double normal() {
    const PhiloxWords w = next();
    double a, b;
    box_muller(unit_double(w.x, w.y), unit_double(w.z, w.w), a, b);
    return a;
  }

 private:
  __device__ PhiloxWords next() {
    const PhiloxWords w = philox_.words(stream_, 0);
    stream_ += uint64_t{1} << 40;
    return w;
  }

  Philox philox_;
  uint64_t stream_;
  double second_ = 0;
  bool waiting_ = false;
};

// For large rates: the transformed rejection of W. Hörmann, "The transformed rejection method for generating Poisson
// random variables", Insurance: Mathematics and Economics 12 (1993), algorithm PTRS. For small ones: the product of
// uniform numbers (Knuth, TAOCP 3.4.1).
struct Poisson {
  static constexpr int kInputs = 1;
  Report* bad;
  __device__ double operator()(Draws& d, double rate, double) const {
    if (!(rate >= 0)) {
      report(bad, ReportKind::kOther);
      return 0;
    }
    if (rate == 0 || isinf(rate)) return rate;
    return rate < 10 ? by_product(d, rate) : by_rejection(d, rate);
  }
  __device__ static double by_product(Draws& d, double rate) {
    const double limit = ::exp(-rate);
    double product = d.uniform(), k = 0;
    for (; product > limit; ++k) product *= d.uniform();
    return k;
  }
  __device__ static double by_rejection(Draws& d, double rate) {
    const double log_rate = ::log(rate);
    const double b = 0.931 + 2.53 * ::sqrt(rate);
    const double a = -0.059 + 0.02483 * b;
    const double inv_alpha = 1.1239 + 1.1328 / (b - 3.4);
    const double vr = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
      const double u = d.uniform() - 0.5;
      const double v = d.uniform();
      const double us = 0.5 - ::fabs(u);
      const double k = ::floor((2 * a / us + b) * u + rate + 0.43);
      if (us >= 0.07 && v <= vr) return k;
      if (k < 0 || (us < 0.013 && v > us)) continue;
      if (::log(v) + ::log(inv_alpha) - ::log(a / (us * us) + b) <= -rate + k * log_rate - ::lgamma(k + 1)) return k;
    }
  }
};

// G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000).
struct Gamma {
  static constexpr int kInputs = 1;
  double smallest;
  __device__ double operator()(Draws& d, double alpha, double) const {
    const double x = draw(d, alpha);
    return x > smallest ? x : smallest;
  }
  __device__ static double draw(Draws& d, double alpha) {
    if (alpha != alpha || isinf(alpha)) return alpha;
    double scale = 1;
    if (alpha < 1) {
      if (alpha <= 0) return 0;
      scale = ::pow(d.uniform(), 1 / alpha);
      alpha += 1;
    }
    const double shape = alpha - 1.0 / 3.0;
    const double c = 1 / ::sqrt(9 * shape);
    for (;;) {
      const double x = d.normal(), y = 1 + c * x;
      if (y <= 0) continue;
      const double v = y * y * y, u = d.uniform(), xx = x * x;
      if (u < 1 - 0.0331 * xx * xx || ::log(u) < 0.5 * xx + shape * (1 - v + ::log(v))) return scale * shape * v;
    }
  }
};

struct Binomial {
  static constexpr int kInputs = 2;
  bool narrow;  // operands are float32: so is the probability of failure
  __device__ double operator()(Draws& d, double count, double p) const {
    if (count <= 0 || p <= 0) return 0;
    if (p >= 1) return count;
    if (count != count || isinf(count) || p != p) return std::numeric_limits<double>::quiet_NaN();
    const bool few = p <= 0.5;
    const double failure = narrow ? static_cast<double>(1.0f - static_cast<float>(p)) : 1 - p;
    const double q = few ? p : failure;
    const double k = count * q >= 10 ? by_rejection(d, count, q) : by_gaps(d, count, q);
    return few ? k : count - k;
  }
  // Few successes: the sum of geometric gaps between them (L. Devroye, "Non-uniform random variate generation", 1986,
  // X.4.3).
  __device__ static double by_gaps(Draws& d, double count, double p) {
    const double log_failure = ::log1p(-p);
    double at = 0;
    for (double successes = 0;; ++successes) {
      const double gap = ::ceil(::log(d.uniform()) / log_failure);
      at += gap < 1 ? 1 : gap;
      if (at > count) return successes;
    }
  }
  // log(k!) minus Stirling's approximation of it.
  __device__ static double stirling_tail(double k) {
    const double k1 = k + 1;
    if (k > 9) return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / (k1 * k1)) / (k1 * k1)) / k1;
    return ::lgamma(k1) - (0.5 * ::log(2 * M_PI) + (k + 0.5) * ::log(k1) - k1);
  }
  // count * p >= 10, p <= 1/2: W. Hörmann, "The generation of binomial random variates", J. Statist. Comput. Simul. 46
  // (1993), algorithm BTRS.
  __device__ static double by_rejection(Draws& d, double count, double p) {
    const double stddev = ::sqrt(count * p * (1 - p));
    const double b = 1.15 + 2.53 * stddev;
    const double a = -0.0873 + 0.0248 * b + 0.01 * p;
    const double c = count * p + 0.5;
    const double vr = 0.92 - 4.2 / b;
    const double r = p / (1 - p);
    const double alpha = (2.83 + 5.1 / b) * stddev;
    const double m = ::floor((count + 1) * p);
    for (;;) {
      const double u = d.uniform() - 0.5;
      const double v = d.uniform();
      const double us = 0.5 - ::fabs(u);
      const double k = ::floor((2 * a / us + b) * u + c);
      if (us >= 0.07 && v <= vr) return k;
      if (!(k >= 0 && k <= count)) continue;
      const double bound = (m + 0.5) * ::log((m + 1) / (r * (count - m + 1))) +
                           (count + 1) * ::log((count - m + 1) / (count - k + 1)) +
                           (k + 0.5) * ::log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                           stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
      if (::log(v * alpha / (a / (us * us) + b)) <= bound) return k;
    }
  }
};

template <int kOperands>
struct Target {
  char* data[kOperands];
  DType dtype;
};

template <class F>
__global__ void draw_kernel(Philox stream, Walk<1 + F::kInputs> walk, Target<1 + F::kInputs> target, F f) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < walk.numel;
       i += int64_t{gridDim.x} * blockDim.x) {
    int64_t at[1 + F::kInputs];
    walk.offsets(i, at);
    double in[2] = {0, 0};
    for (int k = 0; k < F::kInputs; ++k) in[k] = load_as<double>(target.dtype, target.data[1 + k] + at[1 + k]);
    Draws draws(stream, i);
    store_as(target.dtype, target.data[0] + at[0], f(draws, in[0], in[1]));
  }
}

template <class F>
void draw(Shape shape, const Operand (&operands)[1 + F::kInputs], const Generator& gen, const F& f) {
  constexpr int kOperands = 1 + F::kInputs;
  const int64_t* strides[kOperands];
  Target<kOperands> target;
  target.dtype = operands[0].dtype;
  for (int k = 0; k < kOperands; ++k) {
    strides[k] = operands[k].strides;
    target.data[k] = static_cast<char*>(operands[k].data);
  }
  const Walk<kOperands> walk = make_walk<kOperands>(shape, strides, false);
  if (walk.numel > 0) launch(draw_kernel<F>, blocks_for(walk.numel), dim3(kThreads), reserve(gen, 1), walk, target, f);
}

}  // namespace

void random_poisson(Shape shape, const Operand& out, const Operand& rate, const Generator& gen) {
  check_floating("poisson_cuda", out.dtype);
  draw<Poisson>(shape, {out, rate}, gen, {report_slot()});
}

void random_gamma(Shape shape, const Operand& out, const Operand& concentration, const Generator& gen) {
  check_wide_floating("gamma_cuda", out.dtype);
  const double smallest = out.dtype == DType::kFloat64 ? std::numeric_limits<double>::min()
                                                       : static_cast<double>(std::numeric_limits<float>::min());
  draw<Gamma>(shape, {out, concentration}, gen, {smallest});
}

void random_binomial(Shape shape, const Operand& out, const Operand& count, const Operand& probability,
                     const Generator& gen) {
  check_wide_floating("binomial_cuda", out.dtype);
  draw<Binomial>(shape, {out, count, probability}, gen, {out.dtype == DType::kFloat32});
}

// In the order of random keys. Two equal keys among n have a probability below n^2 / 2^65.
void random_permutation(int64_t n, const Operand& out, const Generator& gen) {
  check_ordinary("randperm", out.dtype);
  TESSERA_CHECK_NOT_IMPLEMENTED(out.dtype != DType::kBool, "\"randperm\" not implemented for 'Bool'");
  TESSERA_CHECK(n >= 0, "n must be non-negative, got", n);
  if (out.dtype == DType::kFloat16) TESSERA_CHECK(n <= (1 << 11) + 1, "n cannot be greater than 2049 for Half type.");
  if (out.dtype == DType::kFloat32)
    TESSERA_CHECK(n <= (1 << 24) + 1, "n cannot be greater than 16777217 for Float type.");
  if (is_integral(out.dtype, false) && item_size(out.dtype) < 8) {
    const int bits = static_cast<int>(8 * item_size(out.dtype)) - is_signed(out.dtype);
    TESSERA_CHECK(n <= (int64_t{1} << bits), "value cannot be converted to type ", name_of(out.dtype),
                  "_t without overflow");
  }
  if (n == 0) return;
  const bool direct = out.dtype == DType::kInt64 && (n == 1 || out.strides[0] == 8);
  const size_t bytes = static_cast<size_t>(n) * sizeof(int64_t);
  const Buffer keys(bytes), sorted(bytes), own(direct ? 0 : bytes);
  const Philox stream = reserve(gen, 1);
  int64_t* const k = keys.as<int64_t>();
  for_each(n, [=] __device__(int64_t i) {
    const PhiloxWords w = stream.words(static_cast<uint64_t>(i / 2), 0);
    k[i] =
        static_cast<int64_t>(i % 2 ? static_cast<uint64_t>(w.z) << 32 | w.w : static_cast<uint64_t>(w.x) << 32 | w.y);
  });
  int64_t* const order = direct ? static_cast<int64_t*>(out.data) : own.as<int64_t>();
  const int64_t stride = sizeof(int64_t);
  cuda::run_sort({&n, 1}, 0, false, {sorted.get(), DType::kInt64, &stride}, {order, DType::kInt64, &stride},
                 {keys.get(), DType::kInt64, &stride});
  if (direct) return;
  char* const to = static_cast<char*>(out.data);
  const DType dtype = out.dtype;
  const int64_t step = n > 1 ? out.strides[0] : 0;
  for_each(n, [=] __device__(int64_t i) { store_as(dtype, to + i * step, order[i]); });
}

namespace {

// ---- Choices with given weights ----

struct Weights {
  int64_t rows, categories;
  const char* data;
  DType dtype;
  int64_t row_step, step;  // bytes
  Report* bad;
  // A weight; wrong ones count as 0.
  template <class V>
  __device__ V at(int64_t row, int64_t c) const {
    const V w = load_as<V>(dtype, data + row * row_step + c * step);
    if (w >= V{0} && w <= std::numeric_limits<V>::max()) return w;
    report(bad, ReportKind::kBadProbability);
    return V{0};
  }
};

constexpr int kScanThreads = 256;
constexpr int kEach = 4;  // weights of a thread
constexpr int64_t kTile = int64_t{kScanThreads} * kEach;
constexpr int64_t kChunk = 4 * kTile;  // of a block

struct AddDoubles {
  __device__ double operator()(double a, double b) const { return a + b; }
};

// Running sums of the weights of each row. Rows are cut into chunks: sums == null writes the running sums, from each
// chunk's `before` on (null: 0); else the chunks' totals are written to sums.
__global__ void running_sums_kernel(Weights weights, int64_t chunks, double* sums, const double* before,
                                    double* running) {
  for (int64_t b = blockIdx.x; b < weights.rows * chunks; b += gridDim.x) {
    const int64_t row = b / chunks, begin = b % chunks * kChunk, end = min(begin + kChunk, weights.categories);
    double carry = before ? before[b] : 0;
    for (int64_t tile = begin; tile < end; tile += kTile) {
      double own[kEach], sum = 0;
      const int64_t first = tile + threadIdx.x * kEach;
      for (int k = 0; k < kEach; ++k) own[k] = sum += first + k < end ? weights.at<double>(row, first + k) : 0;
      const Scanned<double> scanned = block_scan(sum, AddDoubles(), 0.0);
      if (!sums)
        for (int k = 0; k < kEach && first + k < end; ++k)
          running[row * weights.categories + first + k] = carry + (scanned.before + own[k]);
      carry += scanned.total;
    }
    if (sums && threadIdx.x == 0) sums[b] = carry;
  }
}

// Where the running sums reach uniform numbers.
void sample_with_replacement(const Weights& weights, int64_t n_sample, const Operand& out, const Generator& gen) {
  const int64_t categories = weights.categories, rows = weights.rows, chunks = (categories + kChunk - 1) / kChunk;
  const Buffer running_sums(static_cast<size_t>(rows * categories) * sizeof(double)),
      chunk_sums(chunks > 1 ? static_cast<size_t>(rows * chunks) * sizeof(double) : 0);
  double *const running = running_sums.as<double>(), *const sums = chunk_sums.as<double>();
  const dim3 blocks = blocks_for(rows * chunks, 1);
  if (chunks > 1) {
    launch_blocks(running_sums_kernel, blocks, dim3(kScanThreads), 0, weights, chunks, sums,
                  static_cast<const double*>(nullptr), static_cast<double*>(nullptr));
    for_each(rows, [=] __device__(int64_t row) {
      double total = 0;
      for (int64_t i = row * chunks; i < (row + 1) * chunks; ++i) {
        const double own = sums[i];
        sums[i] = total;
        total += own;
      }
    });
  }
  launch_blocks(running_sums_kernel, blocks, dim3(kScanThreads), 0, weights, chunks, static_cast<double*>(nullptr),
                static_cast<const double*>(sums), running);
  const Philox stream = reserve(gen, 1);
  char* const to = static_cast<char*>(out.data);
  const int64_t row_step = out.strides[0], step = out.strides[1];
  for_each(rows * n_sample, [=] __device__(int64_t i) {
    const int64_t row = i / n_sample;
    const double* const reached = running + row * categories;
    const double total = reached[categories - 1];
    int64_t* const sample = reinterpret_cast<int64_t*>(to + row * row_step + i % n_sample * step);
    *sample = 0;
    if (!(total > 0)) {
      report(weights.bad, ReportKind::kBadProbability);
      return;
    }
    const PhiloxWords w = stream.words(static_cast<uint64_t>(i), 0);
    const double u = unit_double(w.x, w.y) * total;
    int64_t low = 0, high = categories - 1;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (reached[middle] < u)
        low = middle + 1;
      else
        high = middle;
    }
    // Rounding of the sums could let a category of weight 0 seem to have a share.
    int64_t c = low;
    while (c > 0 && weights.at<double>(row, c) == 0) --c;
    while (c < categories - 1 && weights.at<double>(row, c) == 0) ++c;
    *sample = c;
  });
}

// The largest of weight / exponential number: the "exponential races" of P. Efraimidis and P. Spirakis, "Weighted
// random sampling with a reservoir", Inf. Process. Lett. 97 (2006).
template <class V>
void sample_without_replacement(const Weights& weights, int64_t n_sample, const Operand& out, const Generator& gen) {
  const int64_t rows = weights.rows, categories = weights.categories;
  const Buffer keys(static_cast<size_t>(rows * categories) * sizeof(V)),
      best(static_cast<size_t>(rows * n_sample) * sizeof(V));
  const Philox stream = reserve(gen, 1);
  V *const k = keys.as<V>(), *const largest = best.as<V>();
  for_each(rows * categories, [=] __device__(int64_t i) {
    const PhiloxWords w = stream.words(static_cast<uint64_t>(i), 0);
    V u;
    if constexpr (std::is_same_v<V, float>)
      u = unit_float(w.x);
    else
      u = unit_double(w.x, w.y);
    const V below_one = V{1} - std::numeric_limits<V>::epsilon() / 2;
    k[i] = weights.at<V>(i / categories, i % categories) / -::log(u < below_one ? u : below_one);
  });
  const int64_t shape[2] = {rows, categories}, size = sizeof(V), key_strides[2] = {categories * size, size},
                best_strides[2] = {n_sample * size, size};
  constexpr DType t = DTypeOf<V>::value;
  cuda::run_topk(shape, 1, n_sample, true, true, {best.get(), t, best_strides}, out, {keys.get(), t, key_strides});
  Report* const bad = weights.bad;
  for_each(rows, [=] __device__(int64_t row) {
    if (!(largest[row * n_sample] > V{0})) report(bad, ReportKind::kBadProbability);
  });
}

}  // namespace

void random_multinomial(int64_t rows, int64_t categories, const Operand& weights, int64_t n_sample, bool replacement,
                        const Operand& out, const Generator& gen) {
  TESSERA_CHECK(weights.dtype >= DType::kFloat16 && weights.dtype <= DType::kFloat64,
                "multinomial only supports floating-point dtypes for input, got: ", type_name_of(weights.dtype));
  TESSERA_CHECK(n_sample > 0, "cannot sample n_sample <= 0 samples");
  TESSERA_CHECK(replacement || n_sample <= categories,
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TESSERA_CHECK(out.dtype == DType::kInt64, "multinomial expects Long tensor out, got: ", type_name_of(out.dtype));
  if (rows == 0) return;
  TESSERA_CHECK(categories > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  const Weights w{rows,          categories,         static_cast<const char*>(weights.data),
                  weights.dtype, weights.strides[0], weights.strides[1],
                  report_slot()};
  // A single sample is not put back.
  if (replacement || n_sample == 1)
    sample_with_replacement(w, n_sample, out, gen);
  else
    (weights.dtype == DType::kFloat64 ? sample_without_replacement<double>
                                      : sample_without_replacement<float>)(w, n_sample, out, gen);
}

}  // namespace tessera::cuda
