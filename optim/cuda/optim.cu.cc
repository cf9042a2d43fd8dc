// Optimizer steps. The order of the operations is that of the documented algorithms, and each is rounded as on the CPU:
// products and sums are fused only where fma() is written.
#include "optim/cuda/optim.h"

#include <algorithm>
#include <cmath>

#include "tensor/cuda/support/types.h"

namespace tessera::cuda {

using cpu::AdamStep;
using cpu::SgdStep;

namespace {

__device__ inline float mul(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double mul(double a, double b) { return __dmul_rn(a, b); }
__device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
__device__ inline double add(double a, double b) { return __dadd_rn(a, b); }

constexpr int kArrays = 5;        // parameter, gradient, up to three of state
constexpr int kTensors = 56;      // of one launch: they are passed by value, in at most 4 KiB
constexpr int64_t kPiece = 4096;  // elements of a block

// The tensors of a launch; tensor i has the pieces [first[i], first[i + 1]).
struct Batch {
  void* data[kTensors][kArrays];
  int64_t size[kTensors];
  const float* step[kTensors];
  int first[kTensors + 1];
  int count;
};

// ---- SGD ----

// Sutskever et al. 2013, in the form of the documented algorithm: g += weight_decay p; buf = momentum buf + (1 -
// dampening) g; g = buf, or g + momentum buf with Nesterov; p -= lr g.
template <class A>
struct Sgd {
  A sign, decay, momentum, rest, step;
  bool has_buffer, first_step, nesterov;
  explicit Sgd(const SgdStep& s, bool buffer) : has_buffer(buffer), first_step(s.first_step), nesterov(s.nesterov) {
    sign = s.maximize ? A{-1} : A{1};
    decay = static_cast<A>(s.weight_decay);
    momentum = static_cast<A>(s.momentum);
    rest = static_cast<A>(1 - s.dampening);
    step = static_cast<A>(-s.lr);
  }
  __device__ bool uses(int array) const { return array <= 1 || (array == 2 && has_buffer); }
  __device__ bool reads(int array) const { return array <= 1 || (array == 2 && has_buffer && !first_step); }
  __device__ double2 corrections(float) const { return {}; }
  __device__ void correct(double2) {}
  __device__ void update(A (&x)[kArrays]) const {
    A g = mul(sign, x[1]);
    if (decay != 0) g = add(g, mul(decay, x[0]));
    if (has_buffer) {
      x[2] = first_step ? g : add(mul(momentum, x[2]), mul(rest, g));
      g = nesterov ? add(g, mul(momentum, x[2])) : x[2];
    }
    x[0] = add(x[0], mul(step, g));
  }
};

// ---- Adam, AdamW ----

// Kingma and Ba 2015; decoupled decay: Loshchilov and Hutter 2019; AMSGrad: Reddi, Kale and Kumar 2018.
template <class A>
struct Adam {
  A sign, shrink, decay, rest1, beta2, rest2, eps;
  A root2, step;  // of the bias corrections
  double lr, exact_beta1, exact_beta2;
  bool amsgrad;
  explicit Adam(const AdamStep& s) : lr(s.lr), exact_beta1(s.beta1), exact_beta2(s.beta2), amsgrad(s.amsgrad) {
    sign = s.maximize ? A{-1} : A{1};
    shrink = s.decoupled_decay ? static_cast<A>(1 - s.lr * s.weight_decay) : A{1};
    decay = s.decoupled_decay ? A{0} : static_cast<A>(s.weight_decay);
    rest1 = static_cast<A>(1 - s.beta1);
    beta2 = static_cast<A>(s.beta2);
    rest2 = static_cast<A>(1 - s.beta2);
    eps = static_cast<A>(s.eps);
    correct(corrections(s.step));
  }
  __host__ __device__ double2 corrections(double number) const {
    return {::sqrt(1 - ::pow(exact_beta2, number)), -(lr / (1 - ::pow(exact_beta1, number)))};
  }
  __host__ __device__ void correct(double2 c) {
    root2 = static_cast<A>(c.x);
    step = static_cast<A>(c.y);
  }
  __device__ bool uses(int array) const { return array <= 3 || amsgrad; }
  __device__ bool reads(int array) const { return uses(array); }
  __device__ void update(A (&x)[kArrays]) const {
    A g = mul(sign, x[1]);
    const A p = mul(x[0], shrink);
    if (decay != 0) g = fma(decay, p, g);
    const A change = add(g, -x[2]);
    // The documented lerp takes the nearer end as its base.
    x[2] = rest1 < A{0.5} ? fma(rest1, change, x[2]) : fma(-change, A{1} - rest1, g);
    x[3] = fma(mul(rest2, g), g, mul(x[3], beta2));
    A largest = x[3];
    if (amsgrad) x[4] = largest = x[4] > x[3] || x[4] != x[4] ? x[4] : x[3];
    const A denominator = add(::sqrt(largest) / root2, eps);
    x[0] = add(p, mul(step, x[2]) / denominator);
  }
};

// ---- The kernels ----

// The bias corrections of all tensors, where the step numbers lie on the device: once, not in every thread of the
// steps.
template <class F>
__global__ void corrections_kernel(Batch batch, F f, double2* out) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < batch.count) out[i] = f.corrections(*batch.step[i]);
}

template <class T, class F, int kCount>
__device__ inline void update_at(const F& f, void* const (&data)[kArrays], int64_t i, Compute<T> scale, bool scaled) {
  using A = Compute<T>;
  struct alignas(sizeof(T) * kCount) Group {
    T v[kCount];
  };
  Group group[kArrays];
#pragma unroll
  for (int a = 0; a < kArrays; ++a)
    if (f.reads(a)) group[a] = *reinterpret_cast<const Group*>(static_cast<const T*>(data[a]) + i);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    A x[kArrays];
#pragma unroll
    for (int a = 0; a < kArrays; ++a) x[a] = f.reads(a) ? load(&group[a].v[k]) : A{0};
    if (scaled) {
      store(&group[1].v[k], x[1] / scale);
      x[1] = load(&group[1].v[k]);
    }
    f.update(x);
#pragma unroll
    for (int a = 0; a < kArrays; ++a)
      if (a != 1 && f.uses(a)) store(&group[a].v[k], x[a]);
  }
#pragma unroll
  for (int a = 0; a < kArrays; ++a)
    if (a == 1 ? scaled : f.uses(a)) *reinterpret_cast<Group*>(static_cast<T*>(data[a]) + i) = group[a];
}

template <class T, class F>
__global__ void step_kernel(Batch batch, F f, const double2* corrections, const float* grad_scale,
                            const float* found_inf) {
  if (found_inf && *found_inf != 0) return;
  const int piece = static_cast<int>(blockIdx.x);
  int low = 0, high = batch.count;  // the piece is of a tensor in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (batch.first[middle] <= piece)
      low = middle;
    else
      high = middle;
  }
  void* data[kArrays];
  uintptr_t bits = 0;
  for (int a = 0; a < kArrays; ++a) {
    data[a] = batch.data[low][a];
    bits |= reinterpret_cast<uintptr_t>(data[a]);
  }
  if (corrections) f.correct(corrections[low]);
  const bool scaled = grad_scale != nullptr;
  const Compute<T> scale = scaled ? static_cast<Compute<T>>(*grad_scale) : Compute<T>{1};
  const int64_t begin = (piece - batch.first[low]) * kPiece, end = min(begin + kPiece, batch.size[low]);
  constexpr int kCount = 16 / sizeof(T);
  int64_t i = begin;
  if (bits % 16 == 0) {
    for (i += threadIdx.x * kCount; i + kCount <= end; i += blockDim.x * kCount)
      update_at<T, F, kCount>(f, data, i, scale, scaled);
    i = end - (end - begin) % kCount;
  }
  for (i += threadIdx.x; i < end; i += blockDim.x) update_at<T, F, 1>(f, data, i, scale, scaled);
}

template <class T, class F>
void run_steps(const F& f, const StepTensors& p, const StepOptions& options) {
  int64_t i = 0, done = 0;  // the parameter that comes next, and how many of its elements are in earlier launches
  constexpr int64_t kMostPieces = int64_t{1} << 30;
  const Buffer corrections(options.steps ? kTensors * sizeof(double2) : 0);
  while (i < p.count) {
    Batch batch{};
    while (i < p.count && batch.count < kTensors && batch.first[batch.count] < kMostPieces) {
      const int64_t size = std::min(p.sizes[i] - done, kMostPieces * kPiece);
      if (size > 0) {
        const int b = batch.count++;
        void* const arrays[kArrays] = {p.params[i], p.grads[i], p.state[0] ? p.state[0][i] : nullptr,
                                       p.state[1] ? p.state[1][i] : nullptr, p.state[2] ? p.state[2][i] : nullptr};
        for (int a = 0; a < kArrays; ++a) batch.data[b][a] = arrays[a] ? static_cast<T*>(arrays[a]) + done : nullptr;
        batch.size[b] = size;
        batch.step[b] = options.steps ? options.steps[i] : nullptr;
        batch.first[b + 1] = batch.first[b] + static_cast<int>((size + kPiece - 1) / kPiece);
      }
      done += size;
      if (done >= p.sizes[i]) ++i, done = 0;
    }
    if (batch.count == 0) continue;
    if (options.steps) launch(corrections_kernel<F>, dim3(1), dim3(64), batch, f, corrections.template as<double2>());
    launch(step_kernel<T, F>, dim3(static_cast<unsigned>(batch.first[batch.count])), dim3(256), batch, f,
           corrections.template as<double2>(), options.grad_scale, options.found_inf);
  }
}

}  // namespace

void sgd_steps(const SgdStep& s, const StepTensors& p, const StepOptions& options) {
  visit<kAllFloats>(p.dtype, "sgd_step",
                    [&]<class T>(Tag<T>) { run_steps<T>(Sgd<Compute<T>>(s, p.state[0] != nullptr), p, options); });
}

void adam_steps(const AdamStep& s, const StepTensors& p, const StepOptions& options) {
  visit<kAllFloats>(p.dtype, "adam_step", [&]<class T>(Tag<T>) { run_steps<T>(Adam<Compute<T>>(s), p, options); });
}

void sgd_step(DType dtype, int64_t n, const SgdStep& s, void* param, const void* grad, void* momentum_buffer) {
  void* gradient = const_cast<void*>(grad);
  sgd_steps(s, {dtype, 1, &n, &param, &gradient, {momentum_buffer ? &momentum_buffer : nullptr, nullptr, nullptr}}, {});
}

void adam_step(DType dtype, int64_t n, const AdamStep& s, void* param, const void* grad, void* exp_avg,
               void* exp_avg_sq, void* max_exp_avg_sq) {
  void* gradient = const_cast<void*>(grad);
  adam_steps(s, {dtype, 1, &n, &param, &gradient, {&exp_avg, &exp_avg_sq, max_exp_avg_sq ? &max_exp_avg_sq : nullptr}},
             {});
}

void connect(optim::Engines& engines) {
  engines.sgd_step = &cuda::sgd_step;
  engines.adam_step = &cuda::adam_step;
  engines.sgd_steps = &sgd_steps;
  engines.adam_steps = &adam_steps;
}

}  // namespace tessera::cuda
