#include <cstring>
#include <type_traits>
#include <vector>

#include "tensor/core/half.h"
#include "tensor/cuda/emulation/device.h"
#include "tensor/cuda/emulation/libraries.h"

namespace tessera::cuda::emulation {
namespace {

constexpr int kMostDims = 5;

struct Sizes {  // of a tensor or a filter
  cudnnDataType_t type;
  int rank, size[kMostDims];
  bool first, last;  // where the channels lie; one channel, or one place, is both
  int64_t volume(int from) const {
    int64_t v = 1;
    for (int i = from; i < rank; ++i) v *= size[i];
    return v;
  }
};
struct Convolution {
  int rank, padding[3], stride[3], dilation[3], groups = 1;
  cudnnDataType_t compute;
};
Sizes* get(cudnnTensorDescriptor_t d) { return reinterpret_cast<Sizes*>(d); }
Sizes* get(cudnnFilterDescriptor_t d) { return reinterpret_cast<Sizes*>(d); }
Convolution* get(cudnnConvolutionDescriptor_t d) { return reinterpret_cast<Convolution*>(d); }

// One convolution, its sizes in three dimensions.
struct Problem {
  int batch, in_c, out_c, groups, in[3], out[3], kernel[3], padding[3], stride[3], dilation[3];
  int64_t in_plane, out_plane, taps;
  bool channels_last;
};
// Channels first or last, of all three alike; float64 has them first.
bool problem_of(const Sizes& x, const Sizes& w, const Convolution& c, const Sizes& y, Problem* p) {
  if (x.rank != w.rank || x.rank != y.rank || x.rank != c.rank + 2 || x.rank < 4 || x.type != w.type ||
      x.type != y.type)
    return false;
  const bool last = x.last && w.last && y.last;
  if (last ? x.type == CUDNN_DATA_DOUBLE : !(x.first && w.first && y.first)) return false;
  *p = {x.size[0], x.size[1], y.size[1], c.groups,    {1, 1, 1},   {1, 1, 1},   {1, 1, 1},
        {0, 0, 0}, {1, 1, 1}, {1, 1, 1}, x.volume(2), y.volume(2), w.volume(2), last};
  if (y.size[0] != p->batch || w.size[0] != p->out_c || w.size[1] * c.groups != p->in_c || p->out_c % c.groups != 0)
    return false;
  for (int i = 0; i < c.rank; ++i) {
    const int to = 3 - c.rank + i;
    p->in[to] = x.size[2 + i];
    p->out[to] = y.size[2 + i];
    p->kernel[to] = w.size[2 + i];
    p->padding[to] = c.padding[i];
    p->stride[to] = c.stride[i];
    p->dilation[to] = c.dilation[i];
    if (p->out[to] !=
        1 + (p->in[to] + 2 * p->padding[to] - ((p->kernel[to] - 1) * p->dilation[to] + 1)) / p->stride[to])
      return false;
  }
  return true;
}

// fn(flat index in x, in w, in y) for every multiplication.
template <class F>
void for_products(const Problem& p, F&& fn) {
  const int in_c = p.in_c / p.groups, out_c = p.out_c / p.groups;
  const auto flat = [&](int64_t n, int64_t channels, int64_t c, int64_t places, int64_t place) {
    return p.channels_last ? (n * places + place) * channels + c : (n * channels + c) * places + place;
  };
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t o = 0; o < p.out_c; ++o)
      for (int64_t at = 0; at < p.out_plane; ++at)
        for (int64_t c = 0; c < in_c; ++c)
          for (int64_t tap = 0; tap < p.taps; ++tap) {
            int64_t rest_out = at, rest_tap = tap, plane = 0, size = 1;
            bool inside = true;
            for (int i = 2; i >= 0; --i) {
              const int64_t place =
                  rest_out % p.out[i] * p.stride[i] - p.padding[i] + rest_tap % p.kernel[i] * p.dilation[i];
              inside = inside && place >= 0 && place < p.in[i];
              plane += place * size;
              size *= p.in[i];
              rest_out /= p.out[i];
              rest_tap /= p.kernel[i];
            }
            if (inside)
              fn(flat(n, p.in_c, o / out_c * in_c + c, p.in_plane, plane), flat(o, in_c, c, p.taps, tap),
                 flat(n, p.out_c, o, p.out_plane, at));
          }
}

enum class Direction { kForward, kData, kFilter };

struct Activation {
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
};
// What becomes part of a forward convolution: activation(sums + alpha z + bias).
struct Ending {
  const void *bias = nullptr, *z = nullptr;
  double alpha = 0;
  Activation activation{CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN};
};

// result = alpha (the sums) + beta result; with an ending: that, beta is 0 then.
template <class T, class S>
void convolve(const Problem& p, Direction direction, const T* x, const T* w, const T* y, const Ending& ending, S alpha,
              S beta) {
  const int64_t x_size = p.batch * p.in_c * p.in_plane, w_size = int64_t{p.out_c} * (p.in_c / p.groups) * p.taps,
                y_size = p.batch * p.out_c * p.out_plane;
  std::vector<S> sums(static_cast<size_t>(direction == Direction::kForward ? y_size
                                          : direction == Direction::kData  ? x_size
                                                                           : w_size));
  for_products(p, [&](int64_t xi, int64_t wi, int64_t yi) {
    if (direction == Direction::kForward)
      sums[yi] += static_cast<S>(x[xi]) * static_cast<S>(w[wi]);
    else if (direction == Direction::kData)
      sums[xi] += static_cast<S>(y[yi]) * static_cast<S>(w[wi]);
    else
      sums[wi] += static_cast<S>(y[yi]) * static_cast<S>(x[xi]);
  });
  T* const to = const_cast<T*>(direction == Direction::kForward ? y : direction == Direction::kData ? x : w);
  const T *const bias = static_cast<const T*>(ending.bias), *const z = static_cast<const T*>(ending.z);
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!bias) {
      to[i] = static_cast<T>(beta == 0 ? alpha * sums[i] : alpha * sums[i] + beta * static_cast<S>(to[i]));
      continue;
    }
    S v = alpha * sums[i] + static_cast<S>(bias[(p.channels_last ? i : i / p.out_plane) % p.out_c]);
    if (ending.alpha != 0) v += static_cast<S>(ending.alpha) * static_cast<S>(z[i]);
    const bool keep = v > 0 || (v != v && ending.activation.nan == CUDNN_PROPAGATE_NAN);
    to[i] = static_cast<T>(ending.activation.mode == CUDNN_ACTIVATION_IDENTITY || keep ? v : S(0));
  }
}

template <class T, class S>
cudnnStatus_t start(cudnnHandle_t h, const Problem& p, Direction direction, const void* x, const void* w, const void* y,
                    const Ending& ending, const void* alpha, const void* beta) {
  const S a = *static_cast<const S*>(alpha), b = *static_cast<const S*>(beta);
  const cudaError_t e = run(stream_of(h), dim3(1), dim3(1), 0, false, [=] {
    convolve<T, S>(p, direction, static_cast<const T*>(x), static_cast<const T*>(w), static_cast<const T*>(y), ending,
                   a, b);
  });
  return e == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t convolve_any(cudnnHandle_t h, Direction direction, cudnnTensorDescriptor_t xd, const void* x,
                           cudnnFilterDescriptor_t wd, const void* w, cudnnConvolutionDescriptor_t c,
                           cudnnTensorDescriptor_t yd, const void* y, const Ending& ending, const void* alpha,
                           const void* beta) {
  Problem p;
  if (!problem_of(*get(xd), *get(wd), *get(c), *get(yd), &p)) return CUDNN_STATUS_BAD_PARAM;
  const cudnnDataType_t type = get(xd)->type;
  if (get(c)->compute != (type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
    return CUDNN_STATUS_NOT_SUPPORTED;
  switch (type) {
    case CUDNN_DATA_HALF:
      return start<Half, float>(h, p, direction, x, w, y, ending, alpha, beta);
    case CUDNN_DATA_BFLOAT16:
      return start<BFloat16, float>(h, p, direction, x, w, y, ending, alpha, beta);
    case CUDNN_DATA_FLOAT:
      return start<float, float>(h, p, direction, x, w, y, ending, alpha, beta);
    case CUDNN_DATA_DOUBLE:
      return start<double, double>(h, p, direction, x, w, y, ending, alpha, beta);
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

cudnnStatus_t set_sizes(Sizes* s, cudnnDataType_t type, int rank, const int* size, bool first, bool last) {
  if (rank > kMostDims) return CUDNN_STATUS_NOT_SUPPORTED;
  s->first = first;
  s->last = last;
  s->type = type;
  s->rank = rank;
  std::memcpy(s->size, size, static_cast<size_t>(rank) * sizeof(int));
  return CUDNN_STATUS_SUCCESS;
}

// Elements one behind the other.
cudnnStatus_t set_tensor(cudnnTensorDescriptor_t d, cudnnDataType_t type, int rank, const int* size,
                         const int* stride) {
  const auto dense = [&](bool last) {
    int n = last ? size[1] : 1;
    bool same = !last || stride[1] == 1;
    for (int i = rank - 1; i >= 0; --i) {
      if (last && i == 1) continue;
      same = same && stride[i] == n;
      n *= size[i];
    }
    return same;
  };
  if (rank > kMostDims || rank < 4 || (!dense(false) && !dense(true))) return CUDNN_STATUS_NOT_SUPPORTED;
  return set_sizes(get(d), type, rank, size, dense(false), dense(true));
}

constexpr size_t kWorkspace = 512;

// The one algorithm of each direction. The forward one that adds a bias is for windows of neighbours.
template <class Perf>
cudnnStatus_t one_algorithm(const Convolution& c, int requested, int* returned, Perf* perf) {
  *returned = requested > 0 ? 1 : 0;
  if (requested <= 0) return CUDNN_STATUS_BAD_PARAM;
  std::memset(static_cast<void*>(perf), 0, sizeof *perf);
  perf->status = CUDNN_STATUS_SUCCESS;
  if constexpr (std::is_same_v<Perf, cudnnConvolutionFwdAlgoPerf_t>) {
    bool neighbours = true;
    for (int i = 0; i < c.rank; ++i) neighbours = neighbours && c.dilation[i] == 1;
    perf->algo =
        neighbours ? CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM : CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  }
  perf->memory = kWorkspace;
  perf->determinism = CUDNN_DETERMINISTIC;
  perf->mathType = CUDNN_DEFAULT_MATH;
  return CUDNN_STATUS_SUCCESS;
}
// The operands of a convolution in the order in which the functions of each direction take them.
struct Operands {
  cudnnTensorDescriptor_t x;
  const void* x_data;
  cudnnFilterDescriptor_t w;
  const void* w_data;
  cudnnTensorDescriptor_t y;
  const void* y_data;
};
template <class Algorithm>
struct Order;
template <>
struct Order<cudnnConvolutionFwdAlgo_t> {
  static constexpr Direction kDirection = Direction::kForward;
  static Operands operands(cudnnTensorDescriptor_t x, const void* x_data, cudnnFilterDescriptor_t w, const void* w_data,
                           cudnnTensorDescriptor_t y, const void* y_data) {
    return {x, x_data, w, w_data, y, y_data};
  }
};
template <>
struct Order<cudnnConvolutionBwdDataAlgo_t> {
  static constexpr Direction kDirection = Direction::kData;
  static Operands operands(cudnnFilterDescriptor_t w, const void* w_data, cudnnTensorDescriptor_t y, const void* y_data,
                           cudnnTensorDescriptor_t x, const void* x_data) {
    return {x, x_data, w, w_data, y, y_data};
  }
};
template <>
struct Order<cudnnConvolutionBwdFilterAlgo_t> {
  static constexpr Direction kDirection = Direction::kFilter;
  static Operands operands(cudnnTensorDescriptor_t x, const void* x_data, cudnnTensorDescriptor_t y, const void* y_data,
                           cudnnFilterDescriptor_t w, const void* w_data) {
    return {x, x_data, w, w_data, y, y_data};
  }
};

// The functions of a direction; A, B and D are what it calls the descriptors of its operands.
template <class A, class B, class D, class Algorithm>
cudnnStatus_t algorithms(cudnnHandle_t, A a, B b, cudnnConvolutionDescriptor_t c, D d, int requested, int* returned,
                         cudnnAlgoPerf<Algorithm>* perf) {
  const Operands o = Order<Algorithm>::operands(a, nullptr, b, nullptr, d, nullptr);
  Problem p;
  if (!problem_of(*get(o.x), *get(o.w), *get(c), *get(o.y), &p)) return CUDNN_STATUS_BAD_PARAM;
  return one_algorithm(*get(c), requested, returned, perf);
}
template <class A, class B, class D, class Algorithm>
cudnnStatus_t measure(cudnnHandle_t h, A a, const void*, B b, const void*, cudnnConvolutionDescriptor_t c, D d, void*,
                      int requested, int* returned, cudnnAlgoPerf<Algorithm>* perf, void*, size_t) {
  return algorithms(h, a, b, c, d, requested, returned, perf);
}
template <class A, class B, class D, class Algorithm>
cudnnStatus_t workspace(cudnnHandle_t, A, B, cudnnConvolutionDescriptor_t, D, Algorithm, size_t* bytes) {
  *bytes = kWorkspace;
  return CUDNN_STATUS_SUCCESS;
}
template <class A, class B, class D, class Algorithm>
cudnnStatus_t convolution(cudnnHandle_t h, const void* alpha, A a, const void* a_data, B b, const void* b_data,
                          cudnnConvolutionDescriptor_t c, Algorithm, void*, size_t, const void* beta, D d,
                          void* d_data) {
  const Operands o = Order<Algorithm>::operands(a, a_data, b, b_data, d, d_data);
  return convolve_any(h, Order<Algorithm>::kDirection, o.x, o.x_data, o.w, o.w_data, c, o.y, o.y_data, {}, alpha, beta);
}

// As documented: without an activation by one algorithm alone; the bias has one number for each channel; z is of the
// result's form, and not read where its factor is 0.
cudnnStatus_t convolution_with_ending(cudnnHandle_t h, const void* alpha, cudnnTensorDescriptor_t xd, const void* x,
                                      cudnnFilterDescriptor_t wd, const void* w, cudnnConvolutionDescriptor_t c,
                                      cudnnConvolutionFwdAlgo_t algorithm, void*, size_t, const void* alpha2,
                                      cudnnTensorDescriptor_t zd, const void* z, cudnnTensorDescriptor_t bd,
                                      const void* bias, cudnnActivationDescriptor_t activation,
                                      cudnnTensorDescriptor_t yd, void* y) {
  const Sizes &b = *get(bd), &result = *get(yd), &added = *get(zd);
  bool same = added.type == result.type && added.rank == result.rank && added.last == result.last;
  for (int i = 0; i < result.rank && same; ++i) same = added.size[i] == result.size[i];
  if (!same || !bias || !z || b.type != result.type || b.rank != result.rank || b.size[0] != 1 ||
      b.size[1] != result.size[1] || b.volume(2) != 1)
    return CUDNN_STATUS_BAD_PARAM;
  const double factor =
      result.type == CUDNN_DATA_DOUBLE ? *static_cast<const double*>(alpha2) : *static_cast<const float*>(alpha2);
  const Activation& a = *reinterpret_cast<Activation*>(activation);
  const bool bare = a.mode == CUDNN_ACTIVATION_IDENTITY;
  if ((!bare && a.mode != CUDNN_ACTIVATION_RELU) ||
      (bare && algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM))
    return CUDNN_STATUS_NOT_SUPPORTED;
  const double zero = 0;  // of either type
  return convolve_any(h, Direction::kForward, xd, x, wd, w, c, yd, y, {bias, z, factor, a}, alpha, &zero);
}

cudnnStatus_t set_convolution(cudnnConvolutionDescriptor_t d, int rank, const int* padding, const int* stride,
                              const int* dilation, cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  if (rank > 3 || mode != CUDNN_CROSS_CORRELATION) return CUDNN_STATUS_NOT_SUPPORTED;
  Convolution& c = *get(d);
  c.rank = rank;
  c.compute = compute;
  std::memcpy(c.padding, padding, static_cast<size_t>(rank) * sizeof(int));
  std::memcpy(c.stride, stride, static_cast<size_t>(rank) * sizeof(int));
  std::memcpy(c.dilation, dilation, static_cast<size_t>(rank) * sizeof(int));
  return CUDNN_STATUS_SUCCESS;
}
const char* error_string(cudnnStatus_t s) {
  return s == CUDNN_STATUS_BAD_PARAM       ? "CUDNN_STATUS_BAD_PARAM"
         : s == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                           : "CUDNN_STATUS_EXECUTION_FAILED";
}

}  // namespace

Dnn dnn_functions() {
  Dnn f;
  f.get_version = [] { return static_cast<size_t>(CUDNN_VERSION); };
  f.error_string = error_string;
  f.create = make<LibraryHandle>;
  f.set_stream = set_stream;
  f.create_tensor = make<Sizes>;
  f.set_tensor = set_tensor;
  f.destroy_tensor = destroy<Sizes>;
  f.create_filter = make<Sizes>;
  f.set_filter = [](cudnnFilterDescriptor_t d, cudnnDataType_t type, cudnnTensorFormat_t format, int rank,
                    const int* size) {
    return set_sizes(get(d), type, rank, size, format == CUDNN_TENSOR_NCHW, format == CUDNN_TENSOR_NHWC);
  };
  f.destroy_filter = destroy<Sizes>;
  f.create_convolution = make<Convolution>;
  f.set_convolution = set_convolution;
  f.set_groups = [](cudnnConvolutionDescriptor_t d, int groups) {
    get(d)->groups = groups;
    return CUDNN_STATUS_SUCCESS;
  };
  f.set_math_type = [](cudnnConvolutionDescriptor_t, cudnnMathType_t) { return CUDNN_STATUS_SUCCESS; };
  f.destroy_convolution = destroy<Convolution>;
  f.create_activation = make<Activation>;
  f.set_activation = [](cudnnActivationDescriptor_t d, cudnnActivationMode_t mode, cudnnNanPropagation_t nan, double) {
    *reinterpret_cast<Activation*>(d) = {mode, nan};
    return CUDNN_STATUS_SUCCESS;
  };
  f.destroy_activation = destroy<Activation>;
  f.forward_algorithms = algorithms;
  f.backward_data_algorithms = algorithms;
  f.backward_filter_algorithms = algorithms;
  f.measure_forward = measure;
  f.measure_backward_data = measure;
  f.measure_backward_filter = measure;
  f.forward_workspace = workspace;
  f.backward_data_workspace = workspace;
  f.backward_filter_workspace = workspace;
  f.forward = convolution;
  f.forward_with_ending = convolution_with_ending;
  f.backward_data = convolution;
  f.backward_filter = convolution;
  return f;
}

}  // namespace tessera::cuda::emulation
