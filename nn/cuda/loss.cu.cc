// Negative log likelihood, and the one of smoothed targets.
#include <algorithm>

#include "tensor/cuda/support/block.h"
#include "nn/cuda/loss_engines.h"
#include "tensor/cuda/support/report.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {

using cpu::LossReduction;

namespace {

// Targets (batch, inner) and what is known of classes; x and its gradient are (batch, classes, inner).
struct Targets {
  int64_t n, classes, inner;
  const int64_t* target;
  int64_t ignore_index;
  Report* bad;

  // The class at i, or -1 for one that does not count: ignored, or wrong.
  __device__ int64_t at(int64_t i) const {
    const int64_t t = target[i];
    if (t == ignore_index) return -1;
    if (t >= 0 && t < classes) return t;
    report(bad, ReportKind::kTargetOutOfBounds, t, 0, classes);
    return -1;
  }
  __device__ int64_t offset(int64_t i, int64_t t) const {
    return inner == 1 ? i * classes + t : (i / inner * classes + t) * inner + i % inner;
  }
};

template <class T>
__device__ inline Compute<T> weight_of(const T* weight, int64_t t) {
  return weight ? load(weight + t) : Compute<T>{1};
}

struct Sums {
  double loss = 0, weights = 0;
};
struct AddSums {
  __device__ Sums operator()(const Sums& a, const Sums& b) const { return {a.loss + b.loss, a.weights + b.weights}; }
};

template <class T>
__device__ inline void write_loss(const Sums& s, bool mean, T* out, T* total_weight) {
  using A = Compute<T>;
  // The mean of nothing is 0 / 0: not a number.
  store(out, static_cast<A>(mean ? s.loss / s.weights : s.loss));
  store(total_weight, static_cast<A>(s.weights));
}

// What a block ends with: one that is alone writes the loss, one of several leaves its sums in `partial`.
template <class T>
__device__ inline void finish_block(Sums s, Sums* partial, bool mean, T* out, T* total_weight) {
  s = block_reduce(s, AddSums());
  if (threadIdx.x != 0) return;
  if (partial)
    partial[blockIdx.x] = s;
  else
    write_loss(s, mean, out, total_weight);
}

constexpr int kLossThreads = 256;
constexpr int64_t kTargetsOfBlock = 2048;

// Each block sums its targets; a single block writes the loss, several leave their sums in `partial`.
template <class T>
__global__ void loss_kernel(Targets targets, const T* x, const T* weight, bool mean, Sums* partial, T* out,
                            T* total_weight) {
  using A = Compute<T>;
  Sums s;
  const int64_t begin = blockIdx.x * kTargetsOfBlock, end = min(begin + kTargetsOfBlock, targets.n);
  for (int64_t i = begin + threadIdx.x; i < end; i += kLossThreads) {
    const int64_t t = targets.at(i);
    if (t < 0) continue;
    const A w = weight_of(weight, t);
    s.loss -= static_cast<double>(w) * static_cast<double>(load(x + targets.offset(i, t)));
    s.weights += static_cast<double>(w);
  }
  finish_block(s, partial, mean, out, total_weight);
}

template <class T>
__global__ void finish_kernel(int64_t n, const Sums* partial, bool mean, T* out, T* total_weight) {
  Sums s;
  for (int64_t i = threadIdx.x; i < n; i += kLossThreads) s = AddSums()(s, partial[i]);
  s = block_reduce(s, AddSums());
  if (threadIdx.x == 0) write_loss(s, mean, out, total_weight);
}

template <class T>
__global__ void loss_each_kernel(Targets targets, const T* x, const T* weight, T* out, T* total_weight) {
  using A = Compute<T>;
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (first == 0) store(total_weight, A{0});
  for (int64_t i = first; i < targets.n; i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t t = targets.at(i);
    store(out + i, t < 0 ? A{0} : -weight_of(weight, t) * load(x + targets.offset(i, t)));
  }
}

// The gradient where it is not 0.
template <class T>
__global__ void loss_backward_kernel(Targets targets, const T* dy, bool each, const T* weight, const T* total_weight,
                                     T* dx) {
  using A = Compute<T>;
  const A total = total_weight ? load(total_weight) : A{1};
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < targets.n;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t t = targets.at(i);
    if (t >= 0) store(dx + targets.offset(i, t), -weight_of(weight, t) * load(dy + (each ? i : 0)) / total);
  }
}

// ---- Smoothed targets: every element of x counts ----

template <class T>
struct Smoothed {
  using A = Compute<T>;
  Targets targets;
  const T* weight;
  double own, each;  // what the target and what every class has of the loss

  // The weight of an element of x; `of_target` is what counts for the mean, at the element of the target alone.
  __device__ double share(int64_t element, double* of_target) const {
    int64_t i = element;
    const int64_t place = i % targets.inner;
    i /= targets.inner;
    const int64_t c = i % targets.classes, t = targets.at(i / targets.classes * targets.inner + place);
    *of_target = 0;
    if (t < 0) return 0;
    const double w = static_cast<double>(weight_of(weight, c));
    if (c != t) return each * w;
    *of_target = w;
    return (own + each) * w;
  }
};

constexpr int64_t kElementsOfBlock = 16384;

template <class T>
__global__ void smoothed_loss_kernel(Smoothed<T> s, int64_t n, const T* x, bool mean, Sums* partial, T* out,
                                     T* total_weight) {
  Sums sums;
  const int64_t begin = blockIdx.x * kElementsOfBlock, end = min(begin + kElementsOfBlock, n);
  for (int64_t i = begin + threadIdx.x; i < end; i += kLossThreads) {
    double of_target;
    const double share = s.share(i, &of_target);
    if (share != 0) sums.loss -= share * static_cast<double>(load(x + i));
    sums.weights += of_target;
  }
  finish_block(sums, partial, mean, out, total_weight);
}

// A block for each target.
template <class T>
__global__ void smoothed_each_kernel(Smoothed<T> s, const T* x, T* out, T* total_weight) {
  if (blockIdx.x == 0 && threadIdx.x == 0) store(total_weight, Compute<T>{0});
  for (int64_t i = blockIdx.x; i < s.targets.n; i += gridDim.x) {
    Sums sums;
    for (int64_t c = threadIdx.x; c < s.targets.classes; c += blockDim.x) {
      double of_target;
      const int64_t at = s.targets.offset(i, c);
      const double share = s.share(at, &of_target);
      if (share != 0) sums.loss -= share * static_cast<double>(load(x + at));
    }
    sums = block_reduce(sums, AddSums());
    if (threadIdx.x == 0) store(out + i, static_cast<Compute<T>>(sums.loss));
  }
}

template <class T>
__global__ void smoothed_backward_kernel(Smoothed<T> s, int64_t n, const T* dy, bool each, const T* total_weight,
                                         T* dx) {
  const double total = total_weight ? static_cast<double>(load(total_weight)) : 1;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += int64_t{gridDim.x} * blockDim.x) {
    double of_target;
    const double share = s.share(i, &of_target);
    const int64_t at = each ? i / (s.targets.classes * s.targets.inner) * s.targets.inner + i % s.targets.inner : 0;
    store(dx + i,
          share == 0 ? Compute<T>{0} : static_cast<Compute<T>>(-share * static_cast<double>(load(dy + at)) / total));
  }
}

template <class T>
Smoothed<T> smoothed(const Targets& targets, const void* weight, double smoothing) {
  return {targets, static_cast<const T*>(weight), 1 - smoothing, smoothing / static_cast<double>(targets.classes)};
}

// start(blocks, where several of them leave their sums): the first kernel over n items.
template <class T, class F>
void sum_losses(int64_t n, int64_t per_block, bool mean, T* out, T* total, F&& start) {
  const int64_t blocks = std::max<int64_t>(1, (n + per_block - 1) / per_block);
  const Buffer partial(blocks > 1 ? static_cast<size_t>(blocks) * sizeof(Sums) : 0);
  start(dim3(static_cast<unsigned>(blocks)), partial.as<Sums>());
  if (blocks > 1)
    launch_blocks(finish_kernel<T>, dim3(1), dim3(kLossThreads), 0, blocks, partial.as<Sums>(), mean, out, total);
}

}  // namespace

void smoothed_loss_forward(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* x,
                           const int64_t* target, const void* weight, LossReduction reduction, int64_t ignore_index,
                           double smoothing, void* out, void* total_weight) {
  visit<kAllFloats>(dtype, "nll_loss_out_frame", [&]<class T>(Tag<T>) {
    const Targets targets{batch * inner, classes, inner, target, ignore_index, report_slot()};
    const Smoothed<T> s = smoothed<T>(targets, weight, smoothing);
    const T* const in = static_cast<const T*>(x);
    T *const to = static_cast<T*>(out), *const total = static_cast<T*>(total_weight);
    if (reduction == LossReduction::kNone) {
      launch_blocks(smoothed_each_kernel<T>, blocks_for(targets.n, 1), dim3(128), 0, s, in, to, total);
      return;
    }
    const bool mean = reduction == LossReduction::kMean;
    const int64_t n = targets.n * classes;
    sum_losses(n, kElementsOfBlock, mean, to, total, [&](dim3 blocks, Sums* partial) {
      launch_blocks(smoothed_loss_kernel<T>, blocks, dim3(kLossThreads), 0, s, n, in, mean, partial, to, total);
    });
  });
}

void smoothed_loss_backward(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* dy,
                            const int64_t* target, const void* weight, LossReduction reduction, int64_t ignore_index,
                            double smoothing, const void* total_weight, void* dx) {
  visit<kAllFloats>(dtype, "nll_loss_backward_out_frame", [&]<class T>(Tag<T>) {
    const Targets targets{batch * inner, classes, inner, target, ignore_index, report_slot()};
    const int64_t n = targets.n * classes;
    if (n == 0) return;
    launch(smoothed_backward_kernel<T>, blocks_for(n), dim3(kThreads), smoothed<T>(targets, weight, smoothing), n,
           static_cast<const T*>(dy), reduction == LossReduction::kNone,
           reduction == LossReduction::kMean ? static_cast<const T*>(total_weight) : nullptr, static_cast<T*>(dx));
  });
}

void nll_loss_forward(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* x, const int64_t* target,
                      const void* weight, LossReduction reduction, int64_t ignore_index, void* out,
                      void* total_weight) {
  visit<kAllFloats>(dtype, "nll_loss_out_frame", [&]<class T>(Tag<T>) {
    const Targets targets{batch * inner, classes, inner, target, ignore_index, report_slot()};
    const T *const in = static_cast<const T*>(x), *const w = static_cast<const T*>(weight);
    T *const to = static_cast<T*>(out), *const total = static_cast<T*>(total_weight);
    if (reduction == LossReduction::kNone) {
      launch(loss_each_kernel<T>, blocks_for(targets.n), dim3(kThreads), targets, in, w, to, total);
      return;
    }
    const bool mean = reduction == LossReduction::kMean;
    sum_losses(targets.n, kTargetsOfBlock, mean, to, total, [&](dim3 blocks, Sums* partial) {
      launch_blocks(loss_kernel<T>, blocks, dim3(kLossThreads), 0, targets, in, w, mean, partial, to, total);
    });
  });
}

void nll_loss_backward(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* dy,
                       const int64_t* target, const void* weight, LossReduction reduction, int64_t ignore_index,
                       const void* total_weight, void* dx) {
  visit<kAllFloats>(dtype, "nll_loss_backward_out_frame", [&]<class T>(Tag<T>) {
    const Targets targets{batch * inner, classes, inner, target, ignore_index, report_slot()};
    if (targets.n * classes == 0) return;
    fill_bytes(dx, 0, static_cast<size_t>(targets.n * classes) * sizeof(T));
    launch(loss_backward_kernel<T>, blocks_for(targets.n), dim3(kThreads), targets, static_cast<const T*>(dy),
           reduction == LossReduction::kNone, static_cast<const T*>(weight),
           reduction == LossReduction::kMean ? static_cast<const T*>(total_weight) : nullptr, static_cast<T*>(dx));
  });
}

}  // namespace tessera::cuda
