// Negative log likelihood.
#include <cstring>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/loss.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu {
namespace {

using namespace internal;  // NOLINT: helpers of these kernels

void check_targets(const int64_t* target, int64_t n, int64_t classes, int64_t ignore_index) {
  for (int64_t i = 0; i < n; ++i)
    TESSERA_CHECK_INDEX((target[i] >= 0 && target[i] < classes) || target[i] == ignore_index, "Target ", target[i],
                        " is out of bounds.");
}

// One weighted loss: the position's target, its weight, and where x of the target lies; skipped if ignored.
template <class T, class F>
void for_targets(int64_t begin, int64_t end, int64_t classes, int64_t inner, const int64_t* target, const T* weight,
                 int64_t ignore_index, F&& fn) {
  int64_t b = begin / inner, at = begin % inner;
  for (int64_t i = begin; i < end; ++i, ++at) {
    if (at == inner) ++b, at = 0;
    const int64_t t = target[i];
    if (t != ignore_index) fn(i, (b * classes + t) * inner + at, weight ? static_cast<Acc<T>>(weight[t]) : Acc<T>{1});
  }
}

constexpr int64_t kBlock = 8192;  // targets; sums over blocks are added in order

}  // namespace

void nll_loss_forward(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* x, const int64_t* target,
                      const void* weight, LossReduction reduction, int64_t ignore_index, void* out,
                      void* total_weight) {
  visit_floats("nll_loss_out_frame", dtype, [&](auto tag) {
    using T = decltype(tag);
    using A = Acc<T>;
    const int64_t n = batch * inner;
    check_targets(target, n, classes, ignore_index);
    const T *const in = static_cast<const T*>(x), *const w = static_cast<const T*>(weight);
    T* const to = static_cast<T*>(out);
    if (reduction == LossReduction::kNone) {
      parallel_for(n, kBlock, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = T{};
        for_targets(begin, end, classes, inner, target, w, ignore_index, [&](int64_t i, int64_t at, A weight_of) {
          to[i] = static_cast<T>(-weight_of * static_cast<A>(in[at]));
        });
      });
      *static_cast<T*>(total_weight) = T{};
      return;
    }
    const int64_t blocks = ceil_div(n, kBlock);
    std::vector<double> sums(2 * blocks, 0.0);
    parallel_for(n, kBlock, [&](int64_t begin, int64_t end) {
      double loss = 0, weights = 0;
      for_targets(begin, end, classes, inner, target, w, ignore_index, [&](int64_t, int64_t at, A weight_of) {
        loss -= static_cast<double>(weight_of) * static_cast<double>(static_cast<A>(in[at]));
        weights += static_cast<double>(weight_of);
      });
      sums[2 * (begin / kBlock)] = loss;
      sums[2 * (begin / kBlock) + 1] = weights;
    });
    double loss = 0, weights = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      loss += sums[2 * b];
      weights += sums[2 * b + 1];
    }
    // The mean of nothing is 0 / 0: not a number.
    *to = static_cast<T>(static_cast<A>(reduction == LossReduction::kMean ? loss / weights : loss));
    *static_cast<T*>(total_weight) = static_cast<T>(static_cast<A>(weights));
  });
}

void nll_loss_backward(DType dtype, int64_t batch, int64_t classes, int64_t inner, const void* dy,
                       const int64_t* target, const void* weight, LossReduction reduction, int64_t ignore_index,
                       const void* total_weight, void* dx) {
  visit_floats("nll_loss_backward_out_frame", dtype, [&](auto tag) {
    using T = decltype(tag);
    using A = Acc<T>;
    const int64_t n = batch * inner;
    check_targets(target, n, classes, ignore_index);
    T* const to = static_cast<T*>(dx);
    const T *const grad = static_cast<const T*>(dy), *const w = static_cast<const T*>(weight);
    const bool each = reduction == LossReduction::kNone;
    parallel_for(n * classes, 65536, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = T{};
    });
    const A total = reduction == LossReduction::kMean ? static_cast<A>(*static_cast<const T*>(total_weight)) : A{1};
    parallel_for(n, kBlock, [&](int64_t begin, int64_t end) {
      for_targets(begin, end, classes, inner, target, w, ignore_index, [&](int64_t i, int64_t at, A weight_of) {
        to[at] = static_cast<T>(-weight_of * static_cast<A>(grad[each ? i : 0]) / total);
      });
    });
  });
}

}  // namespace tessera::cpu
