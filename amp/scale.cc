// Operators on the gradients of a scaled loss.
#include <atomic>
#include <cmath>
#include <limits>

#include "amp/scaling_kernels.h"
#include "foreach/foreach_ops.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kGrain = 1 << 15;

void check_number(const char* op, const char* name, const Tensor& t, DType dtype) {
  TESSERA_CHECK(t.defined() && t.numel() == 1 && t.dtype() == dtype, op, ": ", name, " must be one number of ",
                name_of(dtype), ", but got ",
                t.defined() ? str_cat(name_of(t.dtype()), " of shape ", shape_string(t.sizes())) : "None");
}

// Multiplies n elements; whether one of them was not finite before.
template <class T>
bool unscale(T* x, int64_t n, float factor) {
  std::atomic<bool> found{false};
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    bool bad = false;
    for (int64_t i = begin; i < end; ++i) {
      const float v = static_cast<float>(x[i]);
      bad |= !(std::abs(v) <= std::numeric_limits<float>::max());
    }
    if (factor != 1)
      for (int64_t i = begin; i < end; ++i) x[i] = static_cast<T>(static_cast<float>(x[i]) * factor);
    if (bad) found.store(true, std::memory_order_relaxed);
  });
  return found;
}
template <>
bool unscale(double* x, int64_t n, float factor) {
  bool bad = false;
  for (int64_t i = 0; i < n; ++i) {
    bad |= !std::isfinite(x[i]);
    x[i] *= factor;
  }
  return bad;
}

// True, and done, for what lies in plain memory of the CPU.
bool unscale_plain(const Tensor& t, float factor, bool* found) {
  if (!t.is_cpu() || !t.is_contiguous() || t.is_neg() || t.is_conj()) return false;
  switch (t.dtype()) {
    case DType::kFloat32:
      *found |= unscale(t.data<float>(), t.numel(), factor);
      return true;
    case DType::kFloat64:
      *found |= unscale(t.data<double>(), t.numel(), factor);
      return true;
    case DType::kBFloat16:
      *found |= unscale(t.data<BFloat16>(), t.numel(), factor);
      return true;
    case DType::kFloat16:
      *found |= unscale(t.data<Half>(), t.numel(), factor);
      return true;
    default:
      return false;
  }
}

}  // namespace

void check_and_unscale(TensorList self, const Tensor& found_inf, const Tensor& inv_scale) {
  constexpr const char* kName = "_amp_foreach_non_finite_check_and_unscale_";
  check_number(kName, "found_inf", found_inf, DType::kFloat32);
  check_number(kName, "inv_scale", inv_scale, DType::kFloat32);
  for (const Tensor& t : self) {
    TESSERA_CHECK(t.defined() && (t.is_floating_point() || t.is_complex()), kName,
                  ": expected gradients of floating dtypes, but got ", t.defined() ? name_of(t.dtype()) : "None");
    TESSERA_CHECK(t.device().type == self[0].device().type && t.device().type == found_inf.device().type, kName,
                  ": expected gradients on the device of found_inf (", found_inf.device().str(), "), but got ",
                  t.device().str());
  }
  if (self.empty() || self[0].is_meta()) return;
  const NoGradGuard no_grad;
  std::vector<Tensor> others;
  bool found = false;
  const float factor = self[0].is_cpu() ? inv_scale.item_scalar().to_double() : 1;
  for (const Tensor& t : self)
    if (!unscale_plain(t, factor, &found)) others.push_back(t);
  if (found) fill_(found_inf, Scalar(1.0));
  if (others.empty()) return;
  // Nothing here waits for a device: the numbers stay on it.
  std::vector<Tensor> largest;
  for (const Tensor& norm : _foreach_norm(others, Scalar(std::numeric_limits<double>::infinity())))
    largest.push_back(to(norm, DType::kFloat64));
  copy_(found_inf, logical_or(ne(found_inf, Scalar(0.0)), logical_not(all(isfinite(stack(largest))))));
  _foreach_mul_(others, inv_scale);
}

const Tensor& update_scale(const Tensor& self, const Tensor& growth_tracker, const Tensor& found_inf,
                           double scale_growth_factor, double scale_backoff_factor, int64_t growth_interval) {
  constexpr const char* kName = "_amp_update_scale_";
  check_number(kName, "self", self, DType::kFloat32);
  check_number(kName, "growth_tracker", growth_tracker, DType::kInt32);
  check_number(kName, "found_inf", found_inf, DType::kFloat32);
  const NoGradGuard no_grad;
  if (self.is_meta()) return self;
  if (self.is_cpu() && growth_tracker.is_cpu() && found_inf.is_cpu()) {
    float& scale = *self.data<float>();
    int32_t& steps = *growth_tracker.data<int32_t>();
    if (*found_inf.data<float>() != 0) {
      scale = static_cast<float>(scale * scale_backoff_factor);
      steps = 0;
    } else if (++steps == growth_interval) {
      const float grown = static_cast<float>(scale * scale_growth_factor);
      if (std::isfinite(grown)) scale = grown;
      steps = 0;
    }
    return self;
  }
  const Tensor found = ne(reshape_as(found_inf, self), Scalar(0.0));
  const Tensor steps = add(reshape_as(growth_tracker, self), Scalar(int64_t{1}));
  const Tensor grows = logical_and(logical_not(found), eq(steps, Scalar(growth_interval)));
  const Tensor grown = mul(self, Scalar(scale_growth_factor));
  const Tensor without = where(logical_and(grows, isfinite(grown)), grown, self);
  copy_(self, where(found, mul(self, Scalar(scale_backoff_factor)), without));
  copy_(growth_tracker, reshape_as(mul(steps, logical_not(logical_or(found, grows))), growth_tracker));
  return self;
}

}  // namespace tessera::kernels
