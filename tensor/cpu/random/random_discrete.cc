// Samplers that use as many random bits as they happen to need, permutations and choices.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/cpu/random/random.h"
#include "tensor/cpu/random/random_draw.h"
#include "tensor/cpu/random/random_transform.h"
#include "tensor/cpu/random/random_walk.h"

namespace tessera::cpu {

using namespace random_internal;

namespace {

// For large rates: the transformed rejection of W. Hörmann, "The transformed rejection method for generating Poisson
// random variables", Insurance: Mathematics and Economics 12 (1993), algorithm PTRS. For small ones: the product of
// uniform numbers (Knuth, TAOCP 3.4.1).
double draw_poisson(CpuGeneratorImpl& g, double rate) {
  if (rate == 0) return 0;
  if (!std::isfinite(rate)) return rate;
  if (rate < 10) {
    const double limit = std::exp(-rate);
    double product = 1;
    for (double k = 0;; ++k) {
      product *= draw_double(g);
      if (product <= limit) return k;
    }
  }
  const double root = std::sqrt(rate), log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * root;
  const double a = -0.059 + 0.02483 * b;
  const double inv_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double vr = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = draw_double(g) - 0.5;
    const double v = draw_double(g);
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= vr) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inv_alpha) - std::log(a / (us * us) + b) <= -rate + k * log_rate - std::lgamma(k + 1))
      return k;
  }
}

// G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000).
double draw_gamma(CpuGeneratorImpl& g, double alpha) {
  if (std::isnan(alpha) || std::isinf(alpha)) return alpha;
  double scale = 1;
  if (alpha < 1) {
    if (alpha <= 0) return 0;
    scale = std::pow(1 - draw_double(g), 1 / alpha);
    alpha += 1;
  }
  const double d = alpha - 1.0f / 3.0f;  // float constants, because the stream's results have them
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    double x, y;
    do {
      x = draw_normal(g);
      y = 1 + c * x;
    } while (y <= 0);
    const double v = y * y * y;
    const double u = 1 - draw_double(g);
    const double xx = x * x;
    if (u < 1 - 0.0331f * xx * xx) return scale * d * v;
    if (std::log(u) < 0.5 * xx + d * (1 - v + std::log(v))) return scale * d * v;
  }
}

// log(k!) minus Stirling's approximation of it.
double stirling_tail(double k) {
  static constexpr double kTail[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                                     0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                                     0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return kTail[static_cast<int>(k)];
  const double k1 = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / k1) / k1) / (k + 1);
}

// count * p >= 10, p <= 1/2: W. Hörmann, "The generation of binomial random variates", J. Statist. Comput. Simul. 46
// (1993), algorithm BTRS.
double draw_binomial_rejection(CpuGeneratorImpl& g, double count, double p) {
  const double stddev = std::sqrt(count * p * (1 - p));
  const double b = 1.15 + 2.53 * stddev;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double c = count * p + 0.5;
  const double vr = 0.92 - 4.2 / b;
  const double r = p / (1 - p);
  const double alpha = (2.83 + 5.1 / b) * stddev;
  const double m = std::floor((count + 1) * p);
  for (;;) {
    const double u = draw_double(g) - 0.5;
    double v = draw_double(g);
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= vr) return k;
    if (k < 0 || k > count) continue;
    v = std::log(v * alpha / (a / (us * us) + b));
    const double bound = (m + 0.5) * std::log((m + 1) / (r * (count - m + 1))) +
                         (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(r * (count - k + 1) / (k + 1)) + stirling_tail(m) +
                         stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k);
    if (v <= bound) return k;
  }
}

// Few successes: the sum of geometric gaps between them (L. Devroye, "Non-uniform random variate generation", 1986,
// X.4.3).
double draw_binomial_gaps(CpuGeneratorImpl& g, double count, double p) {
  const double log_failure = std::log1p(-p);
  double at = 0;
  for (double successes = 0;; ++successes) {
    at += std::ceil(std::log(draw_double(g)) / log_failure);
    if (at > count) return successes;
  }
}

// The choice of method is made in the precision of the operands.
template <class F>
F draw_binomial(CpuGeneratorImpl& g, F count, F p) {
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  if (!std::isfinite(count) || std::isnan(p)) return std::numeric_limits<F>::quiet_NaN();
  const F q = p <= 0.5 ? p : 1 - p;
  const double k = count * q >= 10 ? draw_binomial_rejection(g, count, q) : draw_binomial_gaps(g, count, q);
  return static_cast<F>(p <= 0.5 ? k : count - k);
}

void check_wide_floating(const char* kernel, DType t) {
  if (t != DType::kFloat32 && t != DType::kFloat64) not_implemented(kernel, t);
}

}  // namespace

void random_poisson(Shape shape, const Operand& out, const Operand& rate, const Generator& gen) {
  check_floating("poisson_cpu", out.dtype);
  TESSERA_CHECK(all_of(shape, rate, [](double x) { return x >= 0; }),
                "invalid Poisson rate, expected rate to be non-negative");
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  emit_from<double>(shape, out, {&rate, 1}, [&](double* v, const double* a, const double*, int64_t n) {
    for (int64_t i = 0; i < n; ++i) v[i] = draw_poisson(g, a[i]);
  });
}

void random_gamma(Shape shape, const Operand& out, const Operand& concentration, const Generator& gen) {
  check_wide_floating("gamma_cpu", out.dtype);
  const double smallest = out.dtype == DType::kFloat64 ? std::numeric_limits<double>::min()
                                                       : static_cast<double>(std::numeric_limits<float>::min());
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  emit_from<double>(shape, out, {&concentration, 1}, [&](double* v, const double* a, const double*, int64_t n) {
    for (int64_t i = 0; i < n; ++i) v[i] = std::max(smallest, draw_gamma(g, a[i]));
  });
}

void random_binomial(Shape shape, const Operand& out, const Operand& count, const Operand& probability,
                     const Generator& gen) {
  check_wide_floating("binomial_cpu", out.dtype);
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  const Operand ins[] = {count, probability};
  const auto draw = [&]<class F>(F) {
    emit_from<F>(shape, out, ins, [&](F* v, const F* a, const F* b, int64_t n) {
      for (int64_t i = 0; i < n; ++i) v[i] = draw_binomial<F>(g, a[i], b[i]);
    });
  };
  if (out.dtype == DType::kFloat64)
    draw(double{});
  else
    draw(float{});
}

// Fisher-Yates: from the front with 32-bit numbers where the remainder's bias is small, for longer ones from the back
// with 64-bit numbers.
namespace {

// 0 ... n - 1, then each is swapped with one of those from it on, for n below 2^31. The numbers are of 32 bits until
// the end, in the first half of the memory, so that more of them are in the cache; and partners are known some time
// before their swaps, so that memory can be fetched.
void shuffled_numbers(CpuGeneratorImpl& g, int64_t* result, int64_t n) {
  uint32_t* const r = reinterpret_cast<uint32_t*>(result);
  for (int64_t i = 0; i < n; ++i) r[i] = static_cast<uint32_t>(i);
  constexpr int64_t kEarly = 64;  // swaps between a request and its use
  uint32_t words[kChunk];
  for (int64_t i = 0; i < n - 1; i += kChunk) {
    const int64_t m = std::min(kChunk, n - 1 - i);
    g.fill(words, m);
    falling_remainders(words, m, static_cast<int32_t>(n - i));
    uint32_t* const from = r + i;
    const auto request = [&](int64_t j) { __builtin_prefetch(from + j + words[j], 1); };
    const auto exchange = [&](int64_t j) { std::swap(from[j], from[j + words[j]]); };
    const int64_t early = std::min(kEarly, m);
    for (int64_t j = 0; j < early; ++j) request(j);
    for (int64_t j = early; j < m; ++j) request(j), exchange(j - early);
    for (int64_t j = m - early; j < m; ++j) exchange(j);
  }
  for (int64_t end = n; end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - kChunk);
    std::memcpy(words, r + begin, static_cast<size_t>(end - begin) * 4);
    for (int64_t i = begin; i < end; ++i) result[i] = words[i - begin];
    end = begin;
  }
}

}  // namespace

void random_permutation(int64_t n, const Operand& out, const Generator& gen) {
  const bool wide_unsigned = out.dtype >= DType::kUInt16 && out.dtype <= DType::kUInt64;
  if (out.dtype > DType::kFloat64 || out.dtype == DType::kBool || wide_unsigned) not_implemented("randperm", out.dtype);
  TESSERA_CHECK(n >= 0, "n must be non-negative, got", n);
  if (out.dtype == DType::kFloat16) TESSERA_CHECK(n <= (1 << 11) + 1, "n cannot be greater than 2049 for Half type.");
  if (out.dtype == DType::kFloat32)
    TESSERA_CHECK(n <= (1 << 24) + 1, "n cannot be greater than 16777217 for Float type.");
  if (is_integral(out.dtype, false) && item_size(out.dtype) < 8) {
    const int bits = static_cast<int>(8 * item_size(out.dtype)) - is_signed(out.dtype);
    TESSERA_CHECK(n <= (int64_t{1} << bits), "value cannot be converted to type ", name_of(out.dtype),
                  "_t without overflow");
  }
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  std::vector<int64_t> own;
  const bool direct = out.dtype == DType::kInt64 && (n < 2 || out.strides[0] == 8);
  if (!direct) own.resize(n);
  int64_t* r = direct ? static_cast<int64_t*>(out.data) : own.data();
  if (n < static_cast<int64_t>(std::numeric_limits<uint32_t>::max() / 20)) {
    shuffled_numbers(g, r, n);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t z = static_cast<int64_t>(g.random64() % static_cast<uint64_t>(i + 1));
      r[i] = i;
      std::swap(r[i], r[z]);
    }
  }
  if (!direct && n > 0)
    store(out.dtype, static_cast<char*>(out.data), n > 1 ? out.strides[0] : item_size(out.dtype), r, n);
}

namespace {

// The first of n - 1 growing numbers that is not below `bound`; n - 1 if all are.
template <class F>
int64_t search(const F* cumulative, int64_t n, F bound) {
  const F* from = cumulative;
  for (int64_t left = n; left > 1; left -= left / 2)
    from += left / 2 & -static_cast<int64_t>(from[left / 2 - 1] < bound);  // no branch to guess
  return from - cumulative;
}

float next_up(float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) + 1); }  // x >= 0

// The least c whose quotient by `sum`, rounded to float32, is at least u, without a division: the bound of the
// quotients that are rounded up that far is the middle of two neighbours, of 25 bits, so that its product with the sum
// is exact.
float least_with_quotient(float sum, double u) {
  if (u == 0) return 0;
  float up = static_cast<float>(u);
  if (up < u) up = next_up(up);
  const uint32_t bits = std::bit_cast<uint32_t>(up);
  const double bound = (static_cast<double>(up) + std::bit_cast<float>(bits - 1)) * 0.5 * sum;
  const bool itself = bits % 2 == 0;  // the middle is rounded to the even neighbour
  const float c = static_cast<float>(bound);
  return c > bound || (itself && c == bound) ? c : next_up(c);
}

struct Rows {
  int64_t rows, categories;
  const char* data;
  DType dtype;
  int64_t row_step, step;
  template <class F>
  void read(int64_t row, F* out) const {
    load(dtype, data + row * row_step, step, out, categories);
  }
};

// Where the distribution function, rounded to F, reaches uniform numbers.
template <class F>
void sample_with_replacement(CpuGeneratorImpl& g, const Rows& w, int64_t n_sample, char* out, int64_t out_row,
                             int64_t out_step) {
  constexpr int64_t kTogether = 8;  // rows: a sum waits for the one before
  const int64_t n = w.categories;
  std::vector<F> c(kTogether * n);
  for (int64_t first = 0; first < w.rows; first += kTogether) {
    const int64_t rows = std::min(kTogether, w.rows - first);
    for (int64_t r = 0; r < rows; ++r) w.read(first + r, &c[r * n]);
    F sums[kTogether] = {};
    for (int64_t k = 0; k < n; ++k) {
      for (int64_t r = 0; r < kTogether; ++r) c[r * n + k] = sums[r] += c[r * n + k];
    }
    for (int64_t r = 0; r < rows; ++r) {
      F* row = &c[r * n];
      if constexpr (sizeof(F) == 8) {
        for (int64_t k = 0; k < n; ++k) row[k] /= sums[r];
      }
      for (int64_t i = 0; i < n_sample; ++i) {
        const double u = draw_double(g);
        const F bound = [&] {
          if constexpr (sizeof(F) == 8)
            return u;
          else
            return least_with_quotient(sums[r], u);
        }();
        *reinterpret_cast<int64_t*>(out + (first + r) * out_row + i * out_step) = search(row, n, bound);
      }
    }
  }
}

// Without replacement: the largest of weight / exponential number (the "exponential races" of P. Efraimidis and P.
// Spirakis, "Weighted random sampling with a reservoir", Inf. Process. Lett. 97, 2006). Keys are rounded to the dtype
// of the weights.
template <class F>
void sample_without_replacement(CpuGeneratorImpl& g, const Rows& w, int64_t n_sample, char* out, int64_t out_row,
                                int64_t out_step) {
  const auto rounded = [t = w.dtype](double x) -> F {
    return t == DType::kFloat16    ? F(float(Half(float(x))))
           : t == DType::kBFloat16 ? F(float(BFloat16(float(x))))
                                   : F(x);
  };
  // The exponential numbers lie in memory as the weights do.
  const bool by_column =
      w.rows > 1 && w.categories > 1 && w.row_step != 0 && w.step != 0 && std::abs(w.row_step) < std::abs(w.step);
  std::vector<F> q;
  if (by_column) {
    q.resize(w.rows * w.categories);
    for (F& x : q) x = rounded(-std::log1p(-draw_double(g)));
  }
  using Key = std::pair<F, int64_t>;
  std::vector<Key> keys(w.categories);
  std::vector<F> row(w.categories);
  const auto larger = [](const Key& a, const Key& b) {
    return (std::isnan(a.first) && !std::isnan(b.first)) || a.first > b.first;
  };
  for (int64_t r = 0; r < w.rows; ++r) {
    w.read(r, row.data());
    for (int64_t c = 0; c < w.categories; ++c) {
      const F e = by_column ? q[c * w.rows + r] : rounded(-std::log1p(-draw_double(g)));
      keys[c] = {rounded(row[c] / e), c};
    }
    if (n_sample == 1) {
      std::swap(keys[0], *std::min_element(keys.begin(), keys.end(), larger));
    } else if (n_sample * 64 <= w.categories) {
      std::partial_sort(keys.begin(), keys.begin() + n_sample, keys.end(), larger);
    } else {
      std::nth_element(keys.begin(), keys.begin() + n_sample - 1, keys.end(), larger);
      std::sort(keys.begin(), keys.begin() + n_sample - 1, larger);
    }
    for (int64_t i = 0; i < n_sample; ++i)
      *reinterpret_cast<int64_t*>(out + r * out_row + i * out_step) = keys[i].second;
  }
}

template <class F>
void check_weights(const Rows& w) {
  using Bits = std::conditional_t<sizeof(F) == 4, uint32_t, uint64_t>;  // those of negative numbers and nans are
                                                                        // greater than those of infinity; 0 + -0 is 0
  std::vector<F> buffer(w.categories);
  for (int64_t r = 0; r < w.rows; ++r) {
    const F* const row = numbers(w.dtype, w.data + r * w.row_step, w.step, buffer.data(), w.categories);
    Bits largest = 0;
    for (int64_t c = 0; c < w.categories; ++c) largest = std::max(largest, std::bit_cast<Bits>(row[c] + F{0}));
    TESSERA_CHECK(largest < std::bit_cast<Bits>(std::numeric_limits<F>::infinity()),
                  "probability tensor contains either `inf`, `nan` or element < 0");
    TESSERA_CHECK(largest > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  }
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
  const Rows w{rows,          categories,         static_cast<const char*>(weights.data),
               weights.dtype, weights.strides[0], weights.strides[1]};
  TESSERA_CHECK(categories > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  const bool wide = weights.dtype == DType::kFloat64;
  (wide ? check_weights<double> : check_weights<float>)(w);
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  char* o = static_cast<char*>(out.data);
  if (replacement && n_sample > 1) {
    (wide ? sample_with_replacement<double> : sample_with_replacement<float>)(g, w, n_sample, o, out.strides[0],
                                                                              out.strides[1]);
  } else {
    (wide ? sample_without_replacement<double> : sample_without_replacement<float>)(g, w, n_sample, o, out.strides[0],
                                                                                    out.strides[1]);
  }
}

}  // namespace tessera::cpu
