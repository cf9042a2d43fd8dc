// Convolutions: of one channel per group by kernels of their own, others through cuDNN, and where it is missing or
// refuses (integers, complex numbers, absurd sizes) as matrix products over columns.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "nn/cpu/conv/conv_sizes.h"
#include "tensor/core/error.h"
#include "tensor/cuda/libraries/dnn.h"
#include "nn/cuda/conv_engines.h"
#include "nn/cuda/depthwise.h"
#include "tensor/cuda/gemm/engines.h"
#include "tensor/cuda/pointwise/engines.h"
#include "nn/cuda/nn_kernels.h"

namespace tessera::cuda {
namespace {

using cpu::ConvGeometry;
using cpu::MatrixRef;
using cpu::Operand;
using cpu::internal::volume;

enum class Direction : int { kForward, kData, kFilter };

// The three tensors of a convolution; which one is written depends on the direction.
struct Tensors {
  const void *x, *w, *y;
};

// ---- cuDNN ----

struct Descriptors {
  cudnnTensorDescriptor_t x = nullptr, y = nullptr, bias = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  cudnnActivationDescriptor_t none = nullptr, relu = nullptr;
  Descriptors() = default;
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  ~Descriptors() {
    const Dnn& d = *find_dnn();
    if (x) d.destroy_tensor(x);
    if (y) d.destroy_tensor(y);
    if (bias) d.destroy_tensor(bias);
    if (none) d.destroy_activation(none);
    if (relu) d.destroy_activation(relu);
    if (w) d.destroy_filter(w);
    if (conv) d.destroy_convolution(conv);
  }
};

struct Choice {
  int algorithm;
  size_t workspace;
  cudnnMathType_t math;
};
// How a convolution of certain sizes runs: the algorithms to try, best first; none if cuDNN refuses.
struct Plan {
  Descriptors d;
  std::vector<Choice> choices;
};

// What the plans depend on.
using Key = std::tuple<int, Direction, DType, unsigned, std::array<int64_t, 23>>;
std::array<int64_t, 23> numbers_of(const ConvGeometry& g) {
  std::array<int64_t, 23> n{g.batch, g.in_channels, g.out_channels, g.groups};
  for (int i = 0; i < 3; ++i) {
    const int64_t line[] = {g.in_size[i], g.kernel[i], g.stride[i], g.padding[i], g.dilation[i], g.out_size[i]};
    std::copy(std::begin(line), std::end(line), n.begin() + 4 + 6 * i);
  }
  n.back() = g.channels_last;
  return n;
}

std::optional<cudnnDataType_t> dnn_type(DType t) {
  switch (t) {
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kFloat64:
      return CUDNN_DATA_DOUBLE;
    default:
      return std::nullopt;
  }
}

cudnnMathType_t wanted_math(DType t, const DnnSettings& s) {
  if (is_reduced_float(t)) return CUDNN_TENSOR_OP_MATH;
  return t == DType::kFloat32 && !s.allow_tf32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

// False where cuDNN cannot take the sizes.
bool describe(DType dtype, const ConvGeometry& g, cudnnMathType_t math, Descriptors& d) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (g.batch * g.in_channels * volume(g.in_size) >= kMost || g.batch * g.out_channels * volume(g.out_size) >= kMost)
    return false;
  for (const int64_t n : numbers_of(g))
    if (n >= kMost) return false;
  // Two dimensions are what cuDNN is best at.
  const bool flat =
      g.in_size[0] == 1 && g.kernel[0] == 1 && g.stride[0] == 1 && g.padding[0] == 0 && g.out_size[0] == 1;
  const int first = flat ? 1 : 0, spatial = 3 - first, rank = spatial + 2;
  std::array<int, 5> x{static_cast<int>(g.batch), static_cast<int>(g.in_channels)},
      y{static_cast<int>(g.batch), static_cast<int>(g.out_channels)},
      w{static_cast<int>(g.out_channels), static_cast<int>(g.in_channels / g.groups)};
  std::array<int, 3> padding{}, stride{}, dilation{};
  for (int i = 0; i < spatial; ++i) {
    x[2 + i] = static_cast<int>(g.in_size[first + i]);
    y[2 + i] = static_cast<int>(g.out_size[first + i]);
    w[2 + i] = static_cast<int>(g.kernel[first + i]);
    padding[i] = static_cast<int>(g.padding[first + i]);
    stride[i] = static_cast<int>(g.stride[first + i]);
    dilation[i] = static_cast<int>(g.dilation[first + i]);
  }
  const auto strides_of = [&](const std::array<int, 5>& size) {
    std::array<int, 5> s{};
    int n = 1;
    if (g.channels_last) {
      s[1] = 1;
      n = size[1];
    }
    for (int i = rank - 1; i >= 0; --i) {
      if (g.channels_last && i == 1) continue;
      s[i] = n;
      n *= size[i];
    }
    return s;
  };
  const std::array<int, 5> bias{1, y[1], 1, 1, 1};
  const Dnn& dnn = *find_dnn();
  const cudnnDataType_t type = *dnn_type(dtype);
  const auto ok = [](cudnnStatus_t s) { return s == CUDNN_STATUS_SUCCESS; };
  return ok(dnn.create_tensor(&d.x)) && ok(dnn.create_tensor(&d.y)) && ok(dnn.create_filter(&d.w)) &&
         ok(dnn.create_convolution(&d.conv)) && ok(dnn.set_tensor(d.x, type, rank, x.data(), strides_of(x).data())) &&
         ok(dnn.set_tensor(d.y, type, rank, y.data(), strides_of(y).data())) && ok(dnn.create_tensor(&d.bias)) &&
         ok(dnn.set_tensor(d.bias, type, rank, bias.data(), strides_of(bias).data())) &&
         ok(dnn.set_filter(d.w, type, g.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, rank, w.data())) &&
         ok(dnn.create_activation(&d.none)) &&
         ok(dnn.set_activation(d.none, CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0)) &&
         ok(dnn.create_activation(&d.relu)) &&
         ok(dnn.set_activation(d.relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0)) &&
         ok(dnn.set_convolution(d.conv, spatial, padding.data(), stride.data(), dilation.data(),
                                CUDNN_CROSS_CORRELATION,
                                type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)) &&
         ok(dnn.set_groups(d.conv, static_cast<int>(g.groups))) && ok(dnn.set_math_type(d.conv, math));
}

// Keeps what cuDNN offers, with its workspace. size(algorithm, &bytes).
template <class Perf, class F>
void keep_choices(const Perf* offers, int count, DType dtype, const DnnSettings& s, F&& size,
                  std::vector<Choice>& choices) {
  for (int i = 0; i < count; ++i) {
    if (offers[i].status != CUDNN_STATUS_SUCCESS || (s.deterministic && offers[i].determinism != CUDNN_DETERMINISTIC))
      continue;
    size_t bytes = 0;
    if (size(offers[i].algo, &bytes) != CUDNN_STATUS_SUCCESS) continue;
    const bool exact = dtype == DType::kFloat32 && !s.allow_tf32;
    choices.push_back({static_cast<int>(offers[i].algo), bytes, exact ? CUDNN_FMA_MATH : offers[i].mathType});
  }
}

constexpr int kMostOffers = 10;

// The offers of one direction, what cuDNN thinks best first: functions that ask for them, for a workspace's size, and
// that measure.
template <class Perf, class Ask, class Size, class Measure>
void choose(DType dtype, const DnnSettings& s, std::vector<Choice>& choices, Ask&& ask, Size&& size,
            Measure&& measure) {
  Perf offers[kMostOffers];
  int count = 0;
  if (ask(&count, offers) != CUDNN_STATUS_SUCCESS) return;
  keep_choices(offers, count, dtype, s, size, choices);
  if (!s.benchmark || choices.empty()) return;
  std::vector<Choice> tried = choices;
  if (s.benchmark_limit > 0 && tried.size() > static_cast<size_t>(s.benchmark_limit))
    tried.resize(static_cast<size_t>(s.benchmark_limit));
  if (tried.size() == 1) return;  // nothing to compare it with
  size_t bytes = 0;
  for (const Choice& c : tried) bytes = std::max(bytes, c.workspace);
  try {
    const Buffer workspace(bytes);
    if (measure(&count, offers, workspace.get(), bytes) != CUDNN_STATUS_SUCCESS) return;
  } catch (const OutOfMemoryError&) { return; }
  std::vector<Choice> measured;
  keep_choices(offers, count, dtype, s, size, measured);
  std::erase_if(measured, [&](const Choice& m) {
    return std::ranges::none_of(tried, [&](const Choice& c) { return c.algorithm == m.algorithm; });
  });
  if (!measured.empty()) choices = std::move(measured);
}

void find_choices(Direction direction, DType dtype, const DnnSettings& s, const Tensors& t, Plan& plan) {
  const Dnn& dnn = *find_dnn();
  const cudnnHandle_t h = dnn_handle();
  const Descriptors& d = plan.d;
  // Measuring writes the result's tensor, as the convolution will.
  if (direction == Direction::kForward)
    choose<cudnnConvolutionFwdAlgoPerf_t>(
        dtype, s, plan.choices,
        [&](int* n, auto* offers) { return dnn.forward_algorithms(h, d.x, d.w, d.conv, d.y, kMostOffers, n, offers); },
        [&](auto a, size_t* n) { return dnn.forward_workspace(h, d.x, d.w, d.conv, d.y, a, n); },
        [&](int* n, auto* offers, void* work, size_t bytes) {
          return dnn.measure_forward(h, d.x, t.x, d.w, t.w, d.conv, d.y, const_cast<void*>(t.y), kMostOffers, n, offers,
                                     work, bytes);
        });
  else if (direction == Direction::kData)
    choose<cudnnConvolutionBwdDataAlgoPerf_t>(
        dtype, s, plan.choices,
        [&](int* n, auto* offers) {
          return dnn.backward_data_algorithms(h, d.w, d.y, d.conv, d.x, kMostOffers, n, offers);
        },
        [&](auto a, size_t* n) { return dnn.backward_data_workspace(h, d.w, d.y, d.conv, d.x, a, n); },
        [&](int* n, auto* offers, void* work, size_t bytes) {
          return dnn.measure_backward_data(h, d.w, t.w, d.y, t.y, d.conv, d.x, const_cast<void*>(t.x), kMostOffers, n,
                                           offers, work, bytes);
        });
  else
    choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
        dtype, s, plan.choices,
        [&](int* n, auto* offers) {
          return dnn.backward_filter_algorithms(h, d.x, d.y, d.conv, d.w, kMostOffers, n, offers);
        },
        [&](auto a, size_t* n) { return dnn.backward_filter_workspace(h, d.x, d.y, d.conv, d.w, a, n); },
        [&](int* n, auto* offers, void* work, size_t bytes) {
          return dnn.measure_backward_filter(h, d.x, t.x, d.y, t.y, d.conv, d.w, const_cast<void*>(t.w), kMostOffers, n,
                                             offers, work, bytes);
        });
}

std::shared_ptr<const Plan> make_plan(Direction direction, DType dtype, const ConvGeometry& g, const DnnSettings& s,
                                      const Tensors& t) {
  auto plan = std::make_shared<Plan>();
  if (!describe(dtype, g, wanted_math(dtype, s), plan->d)) return plan;
  find_choices(direction, dtype, s, t, *plan);
  // A descriptor has one kind of arithmetic: that of the best choice.
  if (!plan->choices.empty()) {
    const cudnnMathType_t math = plan->choices.front().math;
    std::erase_if(plan->choices, [math](const Choice& c) { return c.math != math; });
    if (find_dnn()->set_math_type(plan->d.conv, math) != CUDNN_STATUS_SUCCESS) plan->choices.clear();
  }
  return plan;
}

std::shared_ptr<const Plan> plan_of(Direction direction, DType dtype, const ConvGeometry& g, const Tensors& t) {
  static std::mutex& mutex = *new std::mutex;
  static auto& plans = *new std::map<Key, std::shared_ptr<const Plan>>;
  constexpr size_t kMostPlans = 8192;
  const DnnSettings s = dnn_settings();
  const Key key{op_device(), direction, dtype,
                (s.deterministic ? 1u : 0u) | (s.allow_tf32 ? 2u : 0u) |
                    (s.benchmark ? 4u | static_cast<unsigned>(s.benchmark_limit) << 3 : 0u),
                numbers_of(g)};
  {
    const std::lock_guard lock(mutex);
    if (const auto it = plans.find(key); it != plans.end()) return it->second;
  }
  auto plan = make_plan(direction, dtype, g, s, t);
  const std::lock_guard lock(mutex);
  if (plans.size() >= kMostPlans) plans.clear();
  return plans.emplace(key, std::move(plan)).first->second;
}

// The algorithm with which cuDNN adds a bias that no activation follows.
bool adds_bias(const Choice& c) { return c.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM; }

// What else becomes part of a forward convolution: activation(sums + bias + alpha z). bias null: nothing.
struct Ending {
  const void *bias = nullptr, *z = nullptr;
  double alpha = 0;
  bool relu = false;
};

// The ending: of a choice that can do it.
cudnnStatus_t start(Direction direction, DType dtype, const Plan& plan, const Choice& c, const Tensors& t,
                    const Ending& ending, void* workspace) {
  const Dnn& dnn = *find_dnn();
  const cudnnHandle_t h = dnn_handle();
  const Descriptors& d = plan.d;
  const float one_f = 1, zero_f = 0;
  const double one_d = 1, zero_d = 0;
  const bool wide = dtype == DType::kFloat64;
  const void *const one = wide ? static_cast<const void*>(&one_d) : &one_f, *const zero =
                                                                                wide ? static_cast<const void*>(&zero_d)
                                                                                     : &zero_f;
  switch (direction) {
    case Direction::kForward:
      if (ending.bias) {
        const float alpha_f = static_cast<float>(ending.alpha);
        const void* const alpha = wide ? static_cast<const void*>(&ending.alpha) : &alpha_f;
        return dnn.forward_with_ending(h, one, d.x, t.x, d.w, t.w, d.conv,
                                       static_cast<cudnnConvolutionFwdAlgo_t>(c.algorithm), workspace, c.workspace,
                                       ending.z ? alpha : zero, d.y, ending.z ? ending.z : t.y, d.bias, ending.bias,
                                       ending.relu ? d.relu : d.none, d.y, const_cast<void*>(t.y));
      }
      return dnn.forward(h, one, d.x, t.x, d.w, t.w, d.conv, static_cast<cudnnConvolutionFwdAlgo_t>(c.algorithm),
                         workspace, c.workspace, zero, d.y, const_cast<void*>(t.y));
    case Direction::kData:
      return dnn.backward_data(h, one, d.w, t.w, d.y, t.y, d.conv,
                               static_cast<cudnnConvolutionBwdDataAlgo_t>(c.algorithm), workspace, c.workspace, zero,
                               d.x, const_cast<void*>(t.x));
    default:
      return dnn.backward_filter(h, one, d.x, t.x, d.y, t.y, d.conv,
                                 static_cast<cudnnConvolutionBwdFilterAlgo_t>(c.algorithm), workspace, c.workspace,
                                 zero, d.w, const_cast<void*>(t.w));
  }
}

bool refused(cudnnStatus_t s) { return s >= CUDNN_STATUS_NOT_SUPPORTED && s < 4000; }

void add_bias(DType dtype, const ConvGeometry& g, const void* bias, void* y) {
  const int64_t places = volume(g.out_size);
  internal::add_bias(dtype, g.channels_last ? g.batch * places : g.batch, g.out_channels, g.channels_last ? 1 : places,
                     bias, y);
}

// The plan of a convolution; null if cuDNN is missing, switched off, or there is nothing to do.
std::shared_ptr<const Plan> dnn_plan(Direction direction, DType dtype, const ConvGeometry& g, const Tensors& t) {
  if (!dnn_type(dtype) || !dnn_settings().enabled || !find_dnn()) return nullptr;
  if (g.batch == 0 || g.in_channels == 0 || g.out_channels == 0 || volume(g.in_size) == 0 || volume(g.out_size) == 0)
    return nullptr;
  return plan_of(direction, dtype, g, t);
}

// try_choice(choice, workspace) for one choice after the other, those first for which there is memory, until one is
// not refused. False: all were.
template <class F>
bool try_choices(const Plan& plan, const char* name, F try_choice) {
  for (const Choice& c : plan.choices) {
    Buffer workspace;
    try {
      workspace = Buffer(c.workspace);
    } catch (const OutOfMemoryError&) {
      continue;  // another algorithm may need less
    }
    const cudnnStatus_t s = try_choice(c, workspace.get());
    if (refused(s)) continue;
    check_dnn(s, name);
    return true;
  }
  return false;
}

// False if cuDNN is missing, switched off, or cannot do it: nothing has been written then. bias: null, or what the
// result of a forward convolution gets.
bool run_dnn(Direction direction, DType dtype, const ConvGeometry& g, const Tensors& t, const void* bias) {
  const auto plan = dnn_plan(direction, dtype, g, t);
  if (!plan) return false;
  bool left = false;  // the bias is to be added afterwards
  const char* const name = direction == Direction::kForward ? "cudnnConvolutionForward"
                           : direction == Direction::kData  ? "cudnnConvolutionBackwardData"
                                                            : "cudnnConvolutionBackwardFilter";
  const bool done = try_choices(*plan, name, [&](const Choice& c, void* workspace) {
    left = bias != nullptr;
    cudnnStatus_t s = CUDNN_STATUS_NOT_SUPPORTED;
    if (left && adds_bias(c)) {
      s = start(direction, dtype, *plan, c, t, {bias}, workspace);
      left = refused(s);
    }
    return refused(s) ? start(direction, dtype, *plan, c, t, {}, workspace) : s;
  });
  if (done && left) add_bias(dtype, g, bias, const_cast<void*>(t.y));
  return done;
}

// ---- Columns ----

constexpr int64_t kColumnBytes = int64_t{1} << 28;  // of columns at a time
constexpr const char* kName = "slow_conv2d_cuda";   // the name that the documented messages use

// Sizes that all directions use. `item`: bytes of an element.
struct Columns : cpu::ConvSizes {
  Columns(const ConvGeometry& geometry, DType t) : ConvSizes(geometry), g(geometry), dtype(t) {}
  const ConvGeometry& g;
  const DType dtype;
  const int64_t item = item_size(dtype);
  const bool pointwise = cpu::is_pointwise(g);
  const KernelParam zero = cpu::whole_number(dtype, 0), one = cpu::whole_number(dtype, 1);

  int64_t image() const { return g.in_channels * plane; }  // elements of an image, of its columns, of its output
  int64_t columns() const { return g.in_channels * taps * positions; }
  int64_t output() const { return g.out_channels * positions; }
  int64_t images_at_once() const {
    return std::clamp<int64_t>(kColumnBytes / (columns() * item + 1), 1, std::max<int64_t>(1, g.batch));
  }
  ConvGeometry part(int64_t images) const {
    ConvGeometry p = g;
    p.batch = images;
    return p;
  }
  char* at(const void* p, int64_t elements) const { return static_cast<char*>(const_cast<void*>(p)) + elements * item; }

  // fn(first image, images, their columns) for parts of the batch. With `fill` the columns are those of x.
  template <class F>
  void for_parts(const void* x, bool fill, F&& fn) const {
    const int64_t most = images_at_once();
    const Buffer buffer(pointwise ? 0 : static_cast<size_t>(most * columns() * item));
    for (int64_t n = 0; n < g.batch; n += most) {
      const int64_t count = std::min(most, g.batch - n);
      if (!pointwise && fill) cuda::im2col(dtype, part(count), at(x, n * image()), buffer.get());
      fn(n, count, pointwise ? at(x, n * image()) : buffer.as<char>());
    }
  }
  // Products of all groups of `count` images: a, b and c hold the first one. Strides in elements: from group to group,
  // from image to image.
  struct Operands {
    MatrixRef matrix;
    int64_t group, image;
  };
  void multiply(int64_t count, int64_t m, int64_t n, int64_t k, const Operands& a, const Operands& b,
                const Operands& c) const {
    const auto moved = [this](const Operands& o, int64_t group, int64_t image) {
      MatrixRef r = o.matrix;
      r.data = at(r.data, group * o.group + image * o.image);
      return r;
    };
    if (g.groups <= count)
      for (int64_t i = 0; i < g.groups; ++i)
        cuda::gemm_batched(dtype, count, m, n, k, one, moved(a, i, 0), a.image, moved(b, i, 0), b.image, zero,
                           moved(c, i, 0), c.image, false, false);
    else
      for (int64_t i = 0; i < count; ++i)
        cuda::gemm_batched(dtype, g.groups, m, n, k, one, moved(a, 0, i), a.group, moved(b, 0, i), b.group, zero,
                           moved(c, 0, i), c.group, false, false);
  }
  Operands weights(const void* w, bool transposed) const {
    return {transposed ? MatrixRef{const_cast<void*>(w), 1, rows} : MatrixRef{const_cast<void*>(w), rows, 1},
            out_c * rows, 0};
  }
  Operands outputs(const void* y, int64_t n) const {
    return {{at(y, n * output()), positions, 1}, out_c * positions, output()};
  }
  Operands column_blocks(void* cols) const { return {{cols, positions, 1}, rows * positions, columns()}; }

  void forward(const Tensors& t) const {
    for_parts(t.x, true, [&](int64_t n, int64_t count, char* cols) {
      multiply(count, out_c, positions, rows, weights(t.w, false), column_blocks(cols), outputs(t.y, n));
    });
  }
  void backward_input(const Tensors& t) const {
    for_parts(t.x, false, [&](int64_t n, int64_t count, char* cols) {
      multiply(count, rows, positions, out_c, weights(t.w, true), outputs(t.y, n), column_blocks(cols));
      if (!pointwise) cuda::col2im(dtype, part(count), cols, at(t.x, n * image()));
    });
  }
  // Images one after the other: each adds to dw.
  void backward_weight(const Tensors& t) const {
    fill_bytes(const_cast<void*>(t.w), 0, static_cast<size_t>(g.out_channels * rows * item));
    for_parts(t.x, true, [&](int64_t n, int64_t count, char* cols) {
      for (int64_t i = 0; i < count; ++i)
        cuda::gemm_batched(dtype, g.groups, out_c, rows, positions, one, {at(t.y, (n + i) * output()), positions, 1},
                           out_c * positions, {at(cols, i * columns()), 1, positions}, rows * positions, one,
                           {const_cast<void*>(t.w), rows, 1}, out_c * rows, false, false);
    });
  }
  void run(Direction direction, const Tensors& t) const {
    if (direction == Direction::kForward) return forward(t);
    direction == Direction::kData ? backward_input(t) : backward_weight(t);
  }
};

void convert_elements(DType to, void* dst, DType from, const void* src, int64_t n) {
  const std::array<int64_t, 1> shape{n}, to_stride{item_size(to)}, from_stride{item_size(from)};
  if (n > 0)
    cuda::copy_strided(shape, Operand{dst, to, to_stride.data()},
                       Operand{const_cast<void*>(src), from, from_stride.data()}, false, false);
}

void run_columns(Direction direction, DType dtype, const ConvGeometry& g, const Tensors& t, const void* bias) {
  const DType wide = is_reduced_float(dtype) ? DType::kFloat32 : dtype == DType::kComplex32 ? DType::kComplex64 : dtype;
  if (wide == dtype) {
    Columns(g, dtype).run(direction, t);
    if (bias) add_bias(dtype, g, bias, const_cast<void*>(t.y));
    return;
  }
  // Reduced precision: all in float32, rounded once.
  const cpu::ConvElements n(g);
  const auto copy = [&](const void* p, int64_t count, bool filled) {
    Buffer b(static_cast<size_t>(count * item_size(wide)));
    if (filled) convert_elements(wide, b.get(), dtype, p, count);
    return b;
  };
  const Buffer x = copy(t.x, n.x, direction != Direction::kData), w = copy(t.w, n.w, direction != Direction::kFilter),
               y = copy(t.y, n.y, direction != Direction::kForward);
  const Buffer wide_bias = copy(bias, bias ? g.out_channels : 0, bias != nullptr);
  run_columns(direction, wide, g, {x.get(), w.get(), y.get()}, wide_bias.get());
  if (direction == Direction::kForward)
    convert_elements(dtype, const_cast<void*>(t.y), wide, y.get(), n.y);
  else if (direction == Direction::kData)
    convert_elements(dtype, const_cast<void*>(t.x), wide, x.get(), n.x);
  else
    convert_elements(dtype, const_cast<void*>(t.w), wide, w.get(), n.w);
}

// An image or a filter in the other order of memory: to the one that columns are made of, or back.
void move_channels(DType dtype, int64_t images, int64_t channels, int64_t places, bool to_last, void* to,
                   const void* from) {
  const int64_t item = item_size(dtype), image = item * channels * places;
  const std::array<int64_t, 3> shape{images, channels, places}, first{image, item * places, item},
      last{image, item, item * channels};
  if (images * channels * places > 0)
    cuda::copy_strided(shape, {to, dtype, (to_last ? last : first).data()},
                       {const_cast<void*>(from), dtype, (to_last ? first : last).data()}, false, false);
}

void run_columns_last(Direction direction, DType dtype, const ConvGeometry& g, const Tensors& t, const void* bias) {
  struct Part {
    const void* last;
    int64_t images, channels, places;
    bool result;
    Buffer first;
  };
  Part parts[] = {
      {t.x, g.batch, g.in_channels, volume(g.in_size), direction == Direction::kData, {}},
      {t.w, g.out_channels, g.in_channels / g.groups, volume(g.kernel), direction == Direction::kFilter, {}},
      {t.y, g.batch, g.out_channels, volume(g.out_size), direction == Direction::kForward, {}}};
  for (Part& p : parts) {
    p.first = Buffer(static_cast<size_t>(p.images * p.channels * p.places * item_size(dtype)));
    if (!p.result) move_channels(dtype, p.images, p.channels, p.places, false, p.first.get(), p.last);
  }
  ConvGeometry plain = g;
  plain.channels_last = false;
  run_columns(direction, dtype, plain, {parts[0].first.get(), parts[1].first.get(), parts[2].first.get()}, bias);
  for (const Part& p : parts)
    if (p.result) move_channels(dtype, p.images, p.channels, p.places, true, const_cast<void*>(p.last), p.first.get());
}

void run(Direction direction, DType dtype, const ConvGeometry& g, const Tensors& t, const void* bias = nullptr) {
  TESSERA_CHECK_NOT_IMPLEMENTED(dtype != DType::kBool && dtype <= DType::kComplex128, "\"", kName,
                                "\" not implemented for '", type_name_of(dtype), "'");
  if (internal::is_depthwise(dtype, g)) {
    if (direction == Direction::kForward)
      internal::depthwise_forward(dtype, g, t.x, t.w, bias, const_cast<void*>(t.y));
    else if (direction == Direction::kData)
      internal::depthwise_backward_input(dtype, g, t.y, t.w, const_cast<void*>(t.x));
    else
      internal::depthwise_backward_weight(dtype, g, t.y, t.x, const_cast<void*>(t.w));
  } else if (!run_dnn(direction, dtype, g, t, bias)) {
    (g.channels_last ? run_columns_last : run_columns)(direction, dtype, g, t, bias);
  }
}

}  // namespace

// cuDNN's kernels for float64 know channels first alone.
bool conv_channels_last(DType dtype, const ConvGeometry& g) {
  return internal::is_depthwise(dtype, g) ||
         (dnn_type(dtype) && dtype != DType::kFloat64 && dnn_settings().enabled && find_dnn());
}

void conv_forward(DType dtype, const ConvGeometry& g, const void* x, const void* w, const void* bias, void* y) {
  run(Direction::kForward, dtype, g, {x, w, y}, bias);
}
bool conv_relu(DType dtype, const ConvGeometry& g, const void* x, const void* w, const void* bias, const void* z,
               double alpha, void* y) {
  const Tensors t{x, w, y};
  const auto plan = internal::is_depthwise(dtype, g) ? nullptr : dnn_plan(Direction::kForward, dtype, g, t);
  if (!plan || plan->choices.empty()) return false;
  const size_t bytes = static_cast<size_t>(g.out_channels * item_size(dtype));
  const Buffer zeros(bias ? 0 : bytes);  // the call wants a bias
  if (!bias) fill_bytes(zeros.get(), 0, bytes);
  const Ending ending{bias ? bias : zeros.get(), z, alpha, true};
  return try_choices(*plan, "cudnnConvolutionBiasActivationForward", [&](const Choice& c, void* workspace) {
    return start(Direction::kForward, dtype, *plan, c, t, ending, workspace);
  });
}
void conv_backward_input(DType dtype, const ConvGeometry& g, const void* dy, const void* w, void* dx) {
  run(Direction::kData, dtype, g, {dx, w, dy});
}
void conv_backward_weight(DType dtype, const ConvGeometry& g, const void* dy, const void* x, void* dw) {
  run(Direction::kFilter, dtype, g, {x, dw, dy});
}

}  // namespace tessera::cuda
