// Samplers that use a fixed number of random bits an element.
#include "tensor/cpu/random/random.h"

#include <cmath>
#include <limits>

#include "tensor/cpu/random/random_draw.h"
#include "tensor/cpu/random/random_transform.h"
#include "tensor/cpu/random/random_walk.h"

namespace tessera::cpu {

using namespace random_internal;

namespace {

// How the messages about bounds name the C++ types of dtypes.
const char* cxx_type_name(DType t) {
  static constexpr const char* kNames[13] = {
      "bool",         "unsigned char",     "signed char", "short int",     "int",   "long int", "short unsigned int",
      "unsigned int", "long unsigned int", "c10::Half",   "c10::BFloat16", "float", "double"};
  return t <= DType::kFloat64 ? kNames[static_cast<int>(t)] : type_name_of(t);
}

// Most samplers do not exist for uint16 to uint64, complex dtypes and so on.
void check_ordinary(const char* kernel, DType t) {
  if (t > DType::kFloat64 || (t >= DType::kUInt16 && t <= DType::kUInt64)) not_implemented(kernel, t);
}

// Are all numbers of x in [0, 1]?
bool all_probabilities(Shape shape, const Operand& x) {
  const Walk walk(shape, {&x, 1});
  const bool wide = x.dtype == DType::kFloat64;
  bool good = true;
  float narrow_values[kChunk];
  double wide_values[kChunk];
  walk.for_each_run([&](char* const* p, int64_t n) {
    for (int64_t i = 0; i < n && good; i += kChunk) {
      const int64_t m = std::min(kChunk, n - i);
      const char* const from = p[0] + i * walk.step(0);
      good = wide ? all_in_unit(numbers(x.dtype, from, walk.step(0), wide_values, m), m)
                  : all_in_unit(numbers(x.dtype, from, walk.step(0), narrow_values, m), m);
    }
  });
  return good;
}

// make(v, n) of doubles for float64, of floats for the narrower floating dtypes.
template <class Make>
void emit_wide_or_float(Shape shape, const Operand& out, Make&& make) {
  if (out.dtype == DType::kFloat64) {
    emit<double>(shape, out, make);
  } else {
    emit<float>(shape, out, make);
  }
}

double max_of(DType t) {
  switch (t) {
    case DType::kFloat16:
      return 65504.0;
    case DType::kBFloat16:
      return 0x1.fep127;
    case DType::kFloat32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

}  // namespace

void random_uniform(Shape shape, const Operand& out, double from, double to, const Generator& gen) {
  const DType t = out.dtype;
  check_floating("check_uniform_bounds", t);
  const double limit = max_of(t);
  TESSERA_CHECK(from >= -limit && from <= limit, "from is out of bounds for ", cxx_type_name(t));
  TESSERA_CHECK(to >= -limit && to <= limit, "to is out of bounds for ", cxx_type_name(t));
  TESSERA_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
  TESSERA_CHECK(to - from <= limit, "uniform_ expects to-from <= std::numeric_limits<", type_name_of(t),
                ">::max(), but found to=", to, " and from=", from, " which result in to-from to exceed the limit");
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  if (t == DType::kFloat64) {
    const double range = to - from;
    emit<double>(shape, out, [&](double* v, int64_t n) {
      draw_doubles(g, v, n);
      // Fused, as the reference numbers are.
      if (from != 0) {
        for (int64_t i = 0; i < n; ++i) v[i] = std::fma(v[i], range, from);
      } else if (range != 1) {
        for (int64_t i = 0; i < n; ++i) v[i] *= range;
      }
    });
    return;
  }
  // The bounds and their difference are numbers of the dtype itself.
  float low = 0, range = 0;
  for_real_type(t, [&]<class T>() {
    const T a = convert<T>(from), b = convert<T>(to);
    low = static_cast<float>(a);
    range = static_cast<float>(convert<T>(static_cast<float>(b) - static_cast<float>(a)));
  });
  const int digits = digits_of(t);
  emit<float>(shape, out, [&](float* v, int64_t n) {
    draw_floats(g, digits, v, n);
    // The product is exact in double, so this rounds as a fused operation does.
    if (low != 0) {
      for (int64_t i = 0; i < n; ++i) v[i] = static_cast<float>(static_cast<double>(v[i]) * range + low);
    } else if (range != 1) {
      for (int64_t i = 0; i < n; ++i) v[i] *= range;
    }
  });
}

void random_bernoulli(Shape shape, const Operand& out, double p, const Generator& gen) {
  TESSERA_CHECK(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  check_ordinary("bernoulli_scalar_cpu_", out.dtype);
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  emit<float>(shape, out, [&](float* v, int64_t n) {
    uint32_t words[2 * kChunk];
    g.fill(words, 2 * n);
    bernoulli_numbers(words, n, p, v);
  });
}

void random_bernoulli_tensor(Shape shape, const Operand& out, const Operand& p, const Generator& gen) {
  check_ordinary("bernoulli_tensor_cpu_self_", out.dtype);
  check_floating("bernoulli_tensor_cpu_p_", p.dtype);
  TESSERA_CHECK(all_probabilities(shape, p),
                "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  "
                "If so, please report an enhancement request to PyTorch.)");
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  if (p.dtype == DType::kFloat64) {
    emit_from<double>(shape, out, {&p, 1}, [&](double* v, const double* a, const double*, int64_t n) {
      double u[kChunk];
      draw_doubles(g, u, n);
      for (int64_t i = 0; i < n; ++i) v[i] = u[i] < a[i] ? 1.0 : 0.0;
    });
  } else {
    emit_from<float>(shape, out, {&p, 1}, [&](float* v, const float* a, const float*, int64_t n) {
      uint32_t words[kChunk];
      g.fill(words, n);
      bernoulli_numbers(words, n, a, v);
    });
  }
}

// Inverse of the distribution function 1 - exp(-lambda x).
void random_exponential(Shape shape, const Operand& out, double lambda, const Generator& gen) {
  TESSERA_CHECK(is_floating_point(out.dtype),
                "Exponential distribution is a continuous probability distribution. dtype must be a floating point but "
                "you specified ",
                type_name_of(out.dtype));
  check_floating("exponential_cpu", out.dtype);
  TESSERA_CHECK(lambda > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  const double scale = -1.0 / lambda;
  emit_wide_or_float(shape, out, [&](auto* v, int64_t n) {
    uint32_t words[2 * kChunk];
    g.fill(words, 2 * n);
    exponential_numbers(words, n, scale, v);
  });
}

void random_cauchy(Shape shape, const Operand& out, double median, double sigma, const Generator& gen) {
  TESSERA_CHECK(
      is_floating_point(out.dtype),
      "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified ",
      cxx_type_name(out.dtype));
  check_floating("cauchy_cpu", out.dtype);
  TESSERA_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  emit_wide_or_float(shape, out, [&](auto* v, int64_t n) {
    uint32_t words[2 * kChunk];
    g.fill(words, 2 * n);
    cauchy_numbers(words, n, median, sigma, v);
  });
}

void random_geometric(Shape shape, const Operand& out, double p, const Generator& gen) {
  check_ordinary("geometric_cpu", out.dtype);
  if (out.dtype == DType::kBool) not_implemented("geometric_cpu", out.dtype);
  TESSERA_CHECK(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  const double log_failure = std::log1p(-p);
  emit<double>(shape, out, [&](double* v, int64_t n) {
    draw_doubles(g, v, n);
    for (int64_t i = 0; i < n; ++i) v[i] = std::ceil(std::log(v[i]) / log_failure);
  });
}

void random_full(Shape shape, const Operand& out, const Generator& gen) {
  const DType t = out.dtype;
  check_ordinary("random_kernel_cpu", t);
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  if (t == DType::kInt64 || t == DType::kFloat64) {
    const uint64_t values = t == DType::kInt64 ? uint64_t{1} << 63 : (uint64_t{1} << 53) + 1;
    emit<int64_t>(shape, out, [&](int64_t* v, int64_t n) {
      for (int64_t i = 0; i < n; ++i) v[i] = static_cast<int64_t>(g.random64() % values);
    });
    return;
  }
  uint32_t values = 0;  // how many, 1 + the largest
  if (is_floating_point(t))
    values = (1u << digits_of(t)) + 1;
  else if (t == DType::kBool)
    values = 2;
  else
    values = 1u << (8 * item_size(t) - (t != DType::kUInt8));
  emit<int64_t>(shape, out, [&](int64_t* v, int64_t n) {
    uint32_t words[kChunk];
    g.fill(words, n);
    remainders(words, n, values, 0, v);
  });
}

namespace {

// x rounded to the floating dtype.
double rounded(DType t, int64_t x) {
  double r = 0;
  for_real_type(t, [&]<class T>() { r = static_cast<double>(convert<T>(x)); });
  return r;
}

// Distance between neighbours of x in the floating dtype, for |x| > 2^digits.
int64_t spacing(DType t, int64_t x) {
  uint64_t a = x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  int exponent = 0;
  while (a >>= 1) ++exponent;
  return int64_t{1} << std::max(0, exponent - digits_of(t) + 1);
}

// Moves bounds that the floating dtype cannot represent to representable ones inside the range, where int64 has room
// for the step.
int64_t representable_from(DType t, int64_t from) {
  if (from == std::numeric_limits<int64_t>::max()) return from;
  const double r = rounded(t, from + 1);
  if (r >= 0x1p63 || static_cast<int64_t>(r) >= from) return from;
  return static_cast<int64_t>(r) + spacing(t, from + 1);
}
int64_t representable_to(DType t, int64_t to) {
  if (to == std::numeric_limits<int64_t>::min()) return to;
  const double r = rounded(t, to - 1);
  if (r >= 0x1p63 || static_cast<int64_t>(r) < to) return to;
  return static_cast<int64_t>(r) - spacing(t, to - 1);
}

struct IntBounds {
  int64_t low, high;
};  // both inclusive

IntBounds bounds_of(DType t) {
  switch (t) {
    case DType::kBool:
      return {0, 1};
    case DType::kUInt8:
      return {0, 255};
    case DType::kInt8:
      return {-128, 127};
    case DType::kInt16:
      return {-32768, 32767};
    case DType::kInt32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case DType::kUInt16:
      return {0, 65535};
    case DType::kUInt32:
      return {0, 0xffffffffll};
    case DType::kUInt64:
      return {0, std::numeric_limits<int64_t>::max()};
    case DType::kFloat16:
      return {-65504, 65504};
    default:
      return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  }
}

void check_bounds(DType t, int64_t from, int64_t last, std::string& warning) {
  const IntBounds b = bounds_of(t);
  TESSERA_CHECK(from >= b.low && from <= b.high, "from is out of bounds for ", cxx_type_name(t));
  TESSERA_CHECK(last >= b.low && last <= b.high, "to - 1 is out of bounds for ", cxx_type_name(t));
  if (!is_floating_point(t)) return;
  const int64_t exact = int64_t{1} << digits_of(t);
  for (const auto& [value, name] : {std::pair{from, "from"}, {last, "to - 1"}}) {
    if (value >= -exact && value <= exact) continue;
    warning += str_cat(warning.empty() ? "" : "\n", name, " is out of bounds [-(2^", digits_of(t), "), 2^",
                       digits_of(t), "]. Due to precision limitations ", cxx_type_name(t),
                       " can support discrete uniform distribution only within this range. "
                       "This warning will become an error in version 1.7 release, please fix the code in advance");
  }
}

// Up to this many values are made of 32 random bits, so that the remainder's bias stays below 2^-4 of a value's share;
// more of 64.
constexpr uint64_t kMax32BitRange = uint64_t{1} << 28;

}  // namespace

RandomRange random_range(DType t, int64_t from, std::optional<int64_t> to) {
  TESSERA_CHECK(t <= DType::kFloat64, "check_random_bounds handles only integral, floating-point and boolean types");
  RandomRange r{0, from, {}};
  if (to) {
    TESSERA_CHECK(from < *to, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", *to);
    if (is_floating_point(t)) {
      from = representable_from(t, from);
      *to = representable_to(t, *to);
      TESSERA_CHECK(from < *to,
                    "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from=", from,
                    " >= to=", *to);
    }
    check_bounds(t, from, *to - 1, r.warning);
    r.size = static_cast<uint64_t>(*to) - static_cast<uint64_t>(from);
  } else if (from != std::numeric_limits<int64_t>::min()) {
    const int64_t last = is_floating_point(t) ? int64_t{1} << digits_of(t) : bounds_of(t).high;
    if (is_floating_point(t)) {
      from = representable_from(t, from);
      TESSERA_CHECK(
          from < last,
          "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, but got from=",
          from, " > to_inc=", last);
    }
    check_bounds(t, from, last, r.warning);
    r.size = static_cast<uint64_t>(last) - static_cast<uint64_t>(from) + 1;
  } else {
    check_ordinary("random_full_64_bits_range_kernel_cpu", t);
    if (t == DType::kBool || t == DType::kFloat16) not_implemented("random_full_64_bits_range_kernel_cpu", t);
    TESSERA_CHECK(t == DType::kInt64 || is_floating_point(t),
                  "random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16");
  }
  r.base = from;
  return r;
}

void random_integers(Shape shape, const Operand& out, const RandomRange& r, const Generator& gen) {
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  const uint64_t base = static_cast<uint64_t>(r.base), size = r.size;
  if (size == 0) {
    emit<int64_t>(shape, out, [&](int64_t* v, int64_t n) {
      for (int64_t i = 0; i < n; ++i) v[i] = static_cast<int64_t>(g.random64());
    });
  } else if (size < kMax32BitRange) {
    emit<int64_t>(shape, out, [&](int64_t* v, int64_t n) {
      uint32_t words[kChunk];
      g.fill(words, n);
      remainders(words, n, static_cast<uint32_t>(size), r.base, v);
    });
  } else {
    emit<int64_t>(shape, out, [&](int64_t* v, int64_t n) {
      for (int64_t i = 0; i < n; ++i) v[i] = static_cast<int64_t>(g.random64() % size + base);
    });
  }
}

}  // namespace tessera::cpu
