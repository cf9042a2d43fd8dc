// Samplers that use a fixed number of random bits an element.
#include <array>
#include <cmath>

#include "tensor/cuda/random/engines.h"
#include "tensor/cuda/runtime/graph.h"
#include "tensor/cuda/random/random_stream.h"
#include "tensor/cuda/support/report.h"

namespace tessera::cuda {

using cpu::RandomRange;
using cpu::Shape;

namespace {
// The seed, and the position from which on `steps` are taken. Reading and moving the offset are two calls: samplers of
// several threads take turns.
std::array<uint64_t, 2> take_steps(const Generator& gen, uint64_t steps) {
  static std::mutex& turn = *new std::mutex;
  std::lock_guard lock(turn);
  const uint64_t offset = gen->get_offset();
  gen->set_offset(offset + 4 * steps);
  return {gen->initial_seed(), offset / 4};
}
}  // namespace

Philox reserve(const Generator& gen, uint64_t steps) {
  TESSERA_CHECK(gen->device().is_cuda(), "Expected a 'cuda' device type for generator but found '",
                device_type_name(gen->device().type), "'");
  if (ReplayedWords* w = replayed_words(gen.get(), [gen](uint64_t used) { return take_steps(gen, used); })) {
    const uint64_t position = w->used;
    w->used += steps;
    return {0, position, w->memory.as<uint64_t>()};
  }
  const auto [seed, position] = take_steps(gen, steps);
  return {seed, position};
}

namespace {
[[noreturn]] void not_implemented(const char* name, DType t) {
  tessera::internal::raise<NotImplementedError>("\"", name, "\" not implemented for '", type_name_of(t), "'");
}
}  // namespace

void check_floating(const char* name, DType t) {
  if (t < DType::kFloat16 || t > DType::kFloat64) not_implemented(name, t);
}
void check_wide_floating(const char* name, DType t) {
  if (t != DType::kFloat32 && t != DType::kFloat64) not_implemented(name, t);
}
void check_ordinary(const char* name, DType t) {
  if (t > DType::kFloat64 || (t >= DType::kUInt16 && t <= DType::kUInt64)) not_implemented(name, t);
}

namespace {

// ---- Raw numbers: one step's words become kPerStep values ----

struct UniformFloats {
  using Value = float;
  static constexpr int kPerStep = 4;
  __device__ static void raw(PhiloxWords w, float (&v)[4]) {
    v[0] = unit_float(w.x);
    v[1] = unit_float(w.y);
    v[2] = unit_float(w.z);
    v[3] = unit_float(w.w);
  }
};
struct UniformDoubles {
  using Value = double;
  static constexpr int kPerStep = 2;
  __device__ static void raw(PhiloxWords w, double (&v)[2]) {
    v[0] = unit_double(w.x, w.y);
    v[1] = unit_double(w.z, w.w);
  }
};
struct NormalFloats {
  using Value = float;
  static constexpr int kPerStep = 4;
  __device__ static void raw(PhiloxWords w, float (&v)[4]) {
    box_muller(unit_float(w.x), unit_float(w.y), v[0], v[1]);
    box_muller(unit_float(w.z), unit_float(w.w), v[2], v[3]);
  }
};
struct NormalDoubles {
  using Value = double;
  static constexpr int kPerStep = 2;
  __device__ static void raw(PhiloxWords w, double (&v)[2]) {
    box_muller(unit_double(w.x, w.y), unit_double(w.z, w.w), v[0], v[1]);
  }
};
struct Words {
  using Value = int64_t;
  static constexpr int kPerStep = 4;
  __device__ static void raw(PhiloxWords w, int64_t (&v)[4]) {
    v[0] = w.x;
    v[1] = w.y;
    v[2] = w.z;
    v[3] = w.w;
  }
};
struct LongWords {
  using Value = int64_t;
  static constexpr int kPerStep = 2;
  __device__ static void raw(PhiloxWords w, int64_t (&v)[2]) {
    v[0] = static_cast<int64_t>(static_cast<uint64_t>(w.x) << 32 | w.y);
    v[1] = static_cast<int64_t>(static_cast<uint64_t>(w.z) << 32 | w.w);
  }
};

// ---- Distributions: number(raw value, the element's parameter if there is one) ----

template <class Raw>
struct Uniform : Raw {
  using V = typename Raw::Value;
  static constexpr int kInputs = 0;
  DType dtype;
  V from, range, to;
  // Rounded to the dtype before it is compared: the upper end is never returned.
  __device__ V number(V u, V) const {
    V v = fma(u, range, from);
    if (dtype == DType::kFloat16) v = static_cast<V>(to_float(to_element<Half>(v)));
    if (dtype == DType::kBFloat16) v = static_cast<V>(to_float(to_element<BFloat16>(v)));
    return v >= to ? from : v;
  }
};
template <class Raw>
struct Normal : Raw {
  using V = typename Raw::Value;
  static constexpr int kInputs = 0;
  V mean, std;
  bool log;
  __device__ V number(V z, V) const {
    const V v = fma(z, std, mean);
    return log ? ::exp(v) : v;
  }
};
template <class Raw>
struct Bernoulli : Raw {
  using V = typename Raw::Value;
  static constexpr int kInputs = 0;
  V p;
  // u is never 0 and may be 1.
  __device__ V number(V u, V) const { return u <= p ? V{1} : V{0}; }
};
template <class Raw>
struct BernoulliEach : Raw {
  using V = typename Raw::Value;
  static constexpr int kInputs = 1;
  Report* bad;
  __device__ V number(V u, V p) const {
    if (!(p >= V{0} && p <= V{1})) report(bad, ReportKind::kOther);
    return u <= p ? V{1} : V{0};
  }
};
template <class V>
inline constexpr V kEpsilon = std::is_same_v<V, float> ? static_cast<V>(0x1p-23) : static_cast<V>(0x1p-52);
// By the inverse of the distribution function. 1 counts as the number below it, so that 0 is never returned.
template <class Raw>
struct Exponential : Raw {
  using V = typename Raw::Value;
  static constexpr int kInputs = 0;
  V scale;  // -1 / lambda
  __device__ V number(V u, V) const { return scale * (u >= V{1} - kEpsilon<V> / 2 ? -kEpsilon<V> / 2 : ::log(u)); }
};
template <class Raw>
struct Cauchy : Raw {
  using V = typename Raw::Value;
  static constexpr int kInputs = 0;
  V median, sigma;
  __device__ V number(V u, V) const {
    const V in = u > V{1} - kEpsilon<V> ? V{1} - kEpsilon<V> : u < kEpsilon<V> ? kEpsilon<V> : u;
    return fma(sigma, ::tan(static_cast<V>(M_PI) * (in - V{0.5})), median);
  }
};
template <class Raw>
struct Geometric : Raw {
  using V = typename Raw::Value;
  static constexpr int kInputs = 0;
  V log_failure;  // log(1 - p)
  __device__ V number(V u, V) const {
    const V trials = ::ceil(::log(u) / log_failure);
    return trials < V{1} ? V{1} : trials;
  }
};
template <class Raw>
struct Integers : Raw {
  static constexpr int kInputs = 0;
  uint64_t size, base;  // size 0: all of them
  __device__ int64_t number(int64_t v, int64_t) const {
    const uint64_t x = static_cast<uint64_t>(v);
    if constexpr (Raw::kPerStep == 4)
      return static_cast<int64_t>(static_cast<uint32_t>(x) % static_cast<uint32_t>(size) + base);
    return static_cast<int64_t>((size ? x % size : x) + base);
  }
};

// ---- The kernel ----

struct Target {
  char* data[2];  // out, parameter
  DType dtype[2];
  int64_t size[2];  // bytes an element
  bool dense;
};

template <class F, int kOperands>
__global__ void sample_kernel(Philox stream, Lanes lanes, Walk<kOperands> walk, Target target, F f) {
  using V = typename F::Value;
  const int64_t lane = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t step = blockIdx.y; step < lanes.steps; step += gridDim.y) {
    V v[F::kPerStep];
    F::raw(stream.words(static_cast<uint64_t>(lane), static_cast<uint64_t>(step)), v);
#pragma unroll
    for (int k = 0; k < F::kPerStep; ++k) {
      const int64_t i = (step * F::kPerStep + k) * lanes.lanes + lane;
      if (i >= lanes.n) break;
      int64_t at[kOperands];
      if (target.dense) {
        for (int o = 0; o < kOperands; ++o) at[o] = i * target.size[o];
      } else {
        walk.offsets(i, at);
      }
      V parameter = V{0};
      if constexpr (F::kInputs > 0) parameter = load_as<V>(target.dtype[1], target.data[1] + at[1]);
      store_as(target.dtype[0], target.data[0] + at[0], f.number(v[k], parameter));
    }
  }
}

template <class F>
void sample(Shape shape, const Operand& out, const Operand* parameter, const Generator& gen, const F& f) {
  constexpr int kOperands = 1 + F::kInputs;
  const Operand* const operands[2] = {&out, parameter ? parameter : &out};
  const int64_t* strides[kOperands];
  for (int o = 0; o < kOperands; ++o) strides[o] = operands[o]->strides;
  const Walk<kOperands> walk = make_walk<kOperands>(shape, strides, false);
  if (walk.numel == 0) return;
  const Lanes lanes(walk.numel, F::kPerStep);
  Target target;
  target.dense = true;
  for (int o = 0; o < 2; ++o) {
    target.data[o] = static_cast<char*>(operands[o]->data);
    target.dtype[o] = operands[o]->dtype;
    target.size[o] = item_size(target.dtype[o]);
    if (o < kOperands) target.dense = target.dense && is_dense(walk, o, target.size[o]);
  }
  const dim3 blocks(static_cast<unsigned>(lanes.lanes / 256), static_cast<unsigned>(std::min<int64_t>(lanes.steps, 8)));
  launch(sample_kernel<F, kOperands>, blocks, dim3(256), reserve(gen, static_cast<uint64_t>(lanes.steps)), lanes, walk,
         target, f);
}

// double is computed in double, all else in float. make(Raw) gives the distribution.
template <template <class> class D, class RawFloat, class RawDouble, class Make>
void sample_real(bool wide, Shape shape, const Operand& out, const Operand* parameter, const Generator& gen,
                 Make&& make) {
  if (wide)
    sample(shape, out, parameter, gen, make(D<RawDouble>{}, double{}));
  else
    sample(shape, out, parameter, gen, make(D<RawFloat>{}, float{}));
}

// How the messages about bounds name the C++ types of dtypes.
const char* cxx_type_name(DType t) {
  switch (t) {
    case DType::kFloat16:
      return "c10::Half";
    case DType::kBFloat16:
      return "c10::BFloat16";
    case DType::kFloat32:
      return "float";
    case DType::kFloat64:
      return "double";
    default:
      return type_name_of(t);
  }
}

double largest(DType t) {
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

// The number of the dtype next to x.
double rounded(DType t, double x) {
  switch (t) {
    case DType::kFloat16:
      return static_cast<float>(Half(static_cast<float>(x)));
    case DType::kBFloat16:
      return static_cast<float>(BFloat16(static_cast<float>(x)));
    case DType::kFloat32:
      return static_cast<float>(x);
    default:
      return x;
  }
}

int digits_of(DType t) {
  return t == DType::kFloat16 ? 11 : t == DType::kBFloat16 ? 8 : t == DType::kFloat32 ? 24 : 53;
}

}  // namespace

void random_uniform(Shape shape, const Operand& out, double from, double to, const Generator& gen) {
  const DType t = out.dtype;
  check_floating("check_uniform_bounds", t);
  const double limit = largest(t);
  TESSERA_CHECK(from >= -limit && from <= limit, "from is out of bounds for ", cxx_type_name(t));
  TESSERA_CHECK(to >= -limit && to <= limit, "to is out of bounds for ", cxx_type_name(t));
  TESSERA_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
  TESSERA_CHECK(to - from <= limit, "uniform_ expects to-from <= std::numeric_limits<", type_name_of(t),
                ">::max(), but found to=", to, " and from=", from, " which result in to-from to exceed the limit");
  // The bounds and their difference are numbers of the dtype itself.
  const double low = rounded(t, from), high = rounded(t, to);
  sample_real<Uniform, UniformFloats, UniformDoubles>(t == DType::kFloat64, shape, out, nullptr, gen,
                                                      [&]<class F, class V>(F f, V) {
                                                        f.dtype = t;
                                                        f.from = static_cast<V>(low);
                                                        f.to = static_cast<V>(high);
                                                        f.range = static_cast<V>(rounded(t, high - low));
                                                        return f;
                                                      });
}

namespace {
void sample_normal(Shape shape, const Operand& out, double mean, double std, bool log, const Generator& gen) {
  sample_real<Normal, NormalFloats, NormalDoubles>(out.dtype == DType::kFloat64, shape, out, nullptr, gen,
                                                   [&]<class F, class V>(F f, V) {
                                                     f.mean = static_cast<V>(mean);
                                                     f.std = static_cast<V>(std);
                                                     f.log = log;
                                                     return f;
                                                   });
}
}  // namespace

void random_normal(Shape shape, const Operand& out, double mean, double std, const Generator& gen) {
  check_floating("normal_kernel_cuda", out.dtype);
  TESSERA_CHECK(std >= 0.0, "normal expects std >= 0.0, but found std ", std);
  sample_normal(shape, out, mean, std, false, gen);
}

void random_log_normal(Shape shape, const Operand& out, double mean, double std, const Generator& gen) {
  check_floating("log_normal_cuda", out.dtype);
  TESSERA_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  sample_normal(shape, out, mean, std, true, gen);
}

void random_bernoulli(Shape shape, const Operand& out, double p, const Generator& gen) {
  TESSERA_CHECK(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  check_ordinary("bernoulli_scalar_cuda_", out.dtype);
  sample_real<Bernoulli, UniformFloats, UniformDoubles>(out.dtype == DType::kFloat64, shape, out, nullptr, gen,
                                                        [&]<class F, class V>(F f, V) {
                                                          f.p = static_cast<V>(p);
                                                          return f;
                                                        });
}

namespace {
template <class T, class Raw>
__global__ void dropout_kernel(Philox stream, Lanes lanes, typename Raw::Value kept, Compute<T> scale, const T* x, T* y,
                               bool* mask) {
  const int64_t lane = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t step = blockIdx.y; step < lanes.steps; step += gridDim.y) {
    typename Raw::Value u[Raw::kPerStep];
    Raw::raw(stream.words(static_cast<uint64_t>(lane), static_cast<uint64_t>(step)), u);
#pragma unroll
    for (int k = 0; k < Raw::kPerStep; ++k) {
      const int64_t i = (step * Raw::kPerStep + k) * lanes.lanes + lane;
      if (i >= lanes.n) break;
      const bool keep = u[k] <= kept;
      // What is not a number stays so.
      store(y + i, load(x + i) * (keep ? scale : Compute<T>{0}));
      mask[i] = keep;
    }
  }
}
}  // namespace

void random_dropout(DType dtype, int64_t n, double p, double scale, const void* x, void* y, bool* mask,
                    const Generator& gen) {
  visit<kAllFloats>(dtype, "fused_dropout", [&]<class T>(Tag<T>) {
    using Raw = std::conditional_t<std::is_same_v<T, double>, UniformDoubles, UniformFloats>;
    if (n == 0) return;
    const Lanes lanes(n, Raw::kPerStep);
    const dim3 blocks(static_cast<unsigned>(lanes.lanes / 256),
                      static_cast<unsigned>(std::min<int64_t>(lanes.steps, 8)));
    launch(dropout_kernel<T, Raw>, blocks, dim3(256), reserve(gen, static_cast<uint64_t>(lanes.steps)), lanes,
           static_cast<typename Raw::Value>(1 - p), static_cast<Compute<T>>(scale), static_cast<const T*>(x),
           static_cast<T*>(y), mask);
  });
}

void random_bernoulli_tensor(Shape shape, const Operand& out, const Operand& p, const Generator& gen) {
  check_ordinary("bernoulli_tensor_cuda_self_", out.dtype);
  check_floating("bernoulli_tensor_cuda_p_", p.dtype);
  sample_real<BernoulliEach, UniformFloats, UniformDoubles>(p.dtype == DType::kFloat64, shape, out, &p, gen,
                                                            [&]<class F, class V>(F f, V) {
                                                              f.bad = report_slot();
                                                              return f;
                                                            });
}

void random_exponential(Shape shape, const Operand& out, double lambda, const Generator& gen) {
  TESSERA_CHECK(is_floating_point(out.dtype),
                "Exponential distribution is a continuous probability distribution. dtype must be a floating point but "
                "you specified ",
                type_name_of(out.dtype));
  check_floating("exponential_cuda", out.dtype);
  TESSERA_CHECK(lambda > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
  sample_real<Exponential, UniformFloats, UniformDoubles>(out.dtype == DType::kFloat64, shape, out, nullptr, gen,
                                                          [&]<class F, class V>(F f, V) {
                                                            f.scale = static_cast<V>(-1.0 / lambda);
                                                            return f;
                                                          });
}

void random_cauchy(Shape shape, const Operand& out, double median, double sigma, const Generator& gen) {
  TESSERA_CHECK(
      is_floating_point(out.dtype),
      "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified ",
      type_name_of(out.dtype));
  check_floating("cauchy_cuda", out.dtype);
  TESSERA_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  sample_real<Cauchy, UniformFloats, UniformDoubles>(out.dtype == DType::kFloat64, shape, out, nullptr, gen,
                                                     [&]<class F, class V>(F f, V) {
                                                       f.median = static_cast<V>(median);
                                                       f.sigma = static_cast<V>(sigma);
                                                       return f;
                                                     });
}

void random_geometric(Shape shape, const Operand& out, double p, const Generator& gen) {
  check_ordinary("geometric_cuda", out.dtype);
  if (out.dtype == DType::kBool) not_implemented("geometric_cuda", out.dtype);
  TESSERA_CHECK(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  sample_real<Geometric, UniformFloats, UniformDoubles>(out.dtype == DType::kFloat64, shape, out, nullptr, gen,
                                                        [&]<class F, class V>(F f, V) {
                                                          f.log_failure = static_cast<V>(std::log1p(-p));
                                                          return f;
                                                        });
}

namespace {

// `size` values from `base` on. Up to 2^28 values are made of 32 random bits, so that the remainder's bias stays below
// 2^-4 of a value's share; more of 64.
void sample_integers(bool wide, Shape shape, const Operand& out, uint64_t size, uint64_t base, const Generator& gen) {
  if (wide)
    sample(shape, out, nullptr, gen, Integers<LongWords>{{}, size, base});
  else
    sample(shape, out, nullptr, gen, Integers<Words>{{}, size, base});
}

}  // namespace

void random_full(Shape shape, const Operand& out, const Generator& gen) {
  const DType t = out.dtype;
  check_ordinary("random_kernel_cuda", t);
  uint64_t values;  // 1 + the largest
  if (is_floating_point(t))
    values = (uint64_t{1} << digits_of(t)) + 1;
  else if (t == DType::kBool)
    values = 2;
  else
    values = uint64_t{1} << (8 * item_size(t) - (t != DType::kUInt8));
  sample_integers(t == DType::kInt64 || t == DType::kFloat64, shape, out, values, 0, gen);
}

void random_integers(Shape shape, const Operand& out, const RandomRange& r, const Generator& gen) {
  sample_integers(r.size == 0 || r.size >= uint64_t{1} << 28, shape, out, r.size, static_cast<uint64_t>(r.base), gen);
}

}  // namespace tessera::cuda
