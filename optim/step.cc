// Optimizer steps: checks, and parameters of any layout and dtype; the arithmetic is optim/cpu/optim.h's.
#include <algorithm>

#include "optim/ops_extra.h"
#include "optim/ops_kernels.h"
#include "optim/engine/engines.h"
#include "tensor/engine/device.h"
#include "tensor/ops/api.h"
#include "tensor/ops/result_memory.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {
namespace {

void check_list(const char* op, TensorList self, TensorList list, const char* name) {
  TESSERA_CHECK(list.size() == self.size(), op, ": expected as many ", name, " as parameters (", self.size(),
                "), but got ", list.size());
  for (size_t i = 0; i < self.size(); ++i) {
    TESSERA_CHECK(list[i].defined() && list[i].device() == self[0].device(), op, ": expected ", name, "[", i,
                  "] to be on the first parameter's device, ", self[0].device().str());
    TESSERA_CHECK(std::ranges::equal(list[i].sizes(), self[i].sizes()), op, ": expected ", name, "[", i,
                  "] to have the parameter's shape ", shape_string(self[i].sizes()), ", but got ",
                  shape_string(list[i].sizes()));
    TESSERA_CHECK(list[i].is_floating_point(), op, ": expected ", name, "[", i,
                  "] to be of a floating point dtype, but got ", name_of(list[i].dtype()));
  }
}

void check_number(const char* name, const Tensor& t) {
  TESSERA_CHECK(!t.defined() || t.numel() == 1, name, " must have one element, but got shape ",
                shape_string(t.sizes()));
}
// Nothing to do: Meta parameters, or gradients that are not finite.
bool skips(TensorList self, const Tensor& grad_scale, const Tensor& found_inf) {
  check_number("grad_scale", grad_scale);
  check_number("found_inf", found_inf);
  return self.empty() || self[0].is_meta() || (found_inf.defined() && found_inf.item_scalar().to_double() != 0);
}

bool is_plain(const Tensor& t, DType dtype) {
  return t.dtype() == dtype && t.is_contiguous() && !t.is_neg() && !t.is_conj();
}

// A tensor as contiguous memory of one dtype: itself, or a copy that is written back.
struct Flat : ResultMemory {
  Flat(const Tensor& t, DType dtype) : ResultMemory(t, is_plain(t, dtype), {}, dtype) { load(); }
};

// Gradients that were made of a scaled loss are divided by the scale, and stay so.
void unscale(TensorList grads, const Tensor& grad_scale) {
  if (!grad_scale.defined()) return;
  const Scalar scale(grad_scale.item_scalar().to_double());
  for (const Tensor& grad : grads) copy__kernel(grad, div(grad, scale), false);
}

bool is_plain(const Tensor& t, DType dtype, Device device) { return is_plain(t, dtype) && t.device() == device; }

// Whether all of these can be worked on in place on the CPU: dense, of one dtype.
bool plain_on_cpu(TensorList self, std::initializer_list<TensorList> lists) {
  if (!self[0].is_cpu()) return false;
  const DType t = self[0].dtype();
  for (TensorList list : lists)
    for (const Tensor& x : list)
      if (!is_plain(x, t, self[0].device())) return false;
  return true;
}

// A step for a device whose library takes all parameters in one call and reads the scalars there. run() does nothing
// and says false if these tensors are not of the kind it takes: plain memory of one dtype on one device, scalars in
// float32; step counters lie on the device too, or all on the CPU with one value.
class StepOnDevice {
 public:
  StepOnDevice(TensorList self, TensorList grads, std::initializer_list<TensorList> state, TensorList state_steps,
               const Tensor& grad_scale, const Tensor& found_inf) {
    if (self.empty() || self[0].is_cpu() || self[0].is_meta()) return;
    const DType t = self[0].dtype();
    const Device d = self[0].device();
    fits_ = true;
    auto addresses = [&](TensorList list, std::vector<void*>* to) {
      for (const Tensor& x : list) {
        fits_ = fits_ && is_plain(x, t, d);
        to->push_back(x.data_ptr());
      }
    };
    addresses(self, &lists_[0]);
    addresses(grads, &lists_[1]);
    size_t k = 2;
    for (TensorList s : state) addresses(s, &lists_[k++]);
    auto scalar = [&](const Tensor& x) {
      fits_ = fits_ && (!x.defined() || (x.numel() == 1 && is_plain(x, DType::kFloat32, d)));
      return x.defined() ? x.data_ptr<float>() : nullptr;
    };
    options_.grad_scale = scalar(grad_scale);
    options_.found_inf = scalar(found_inf);
    if (!state_steps.empty() && state_steps[0].is_cpu()) {
      step_ = state_steps[0].item_scalar().to_double();
      for (const Tensor& s : state_steps) fits_ = fits_ && s.is_cpu() && s.item_scalar().to_double() == step_;
    } else {
      for (const Tensor& s : state_steps) steps_.push_back(scalar(s));
      if (!steps_.empty()) options_.steps = steps_.data();
    }
    for (const Tensor& x : self) sizes_.push_back(x.numel());
    tensors_ = {t, static_cast<int64_t>(self.size()), sizes_.data(), lists_[0].data(), lists_[1].data(), {}};
    for (size_t i = 0; i < 3; ++i) tensors_.state[i] = lists_[2 + i].empty() ? nullptr : lists_[2 + i].data();
    engines_ = &optim::Engines::of(d.type);
    const DeviceTable& device = DeviceTable::of(d.type);
    if (fits_ && device.select) device.select(d);
  }
  StepOnDevice(const StepOnDevice&) = delete;
  bool run(const cpu::SgdStep& s) const {
    if (!fits_ || !engines_->sgd_steps) return false;
    engines_->sgd_steps(s, tensors_, options_);
    return true;
  }
  bool run(cpu::AdamStep s) const {
    if (!fits_ || !engines_->adam_steps) return false;
    s.step = step_;
    engines_->adam_steps(s, tensors_, options_);
    return true;
  }

 private:
  bool fits_ = false;
  double step_ = 0;
  const optim::Engines* engines_ = nullptr;
  std::vector<void*> lists_[5];
  std::vector<const float*> steps_;
  std::vector<int64_t> sizes_;
  optim::StepTensors tensors_;
  optim::StepOptions options_;
};

}  // namespace

double number_of(const Tensor& lr) {
  TESSERA_CHECK(lr.numel() == 1, "lr as a tensor must have one element, but got shape ", shape_string(lr.sizes()));
  return lr.item_scalar().to_double();
}

void fused_sgd(TensorList self, TensorList grads, TensorList momentum_buffer_list, double weight_decay, double momentum,
               double lr, double dampening, bool nesterov, bool maximize, bool is_first_step, const Tensor& grad_scale,
               const Tensor& found_inf) {
  const bool buffers = !momentum_buffer_list.empty();
  check_list("_fused_sgd_", self, self, "self");
  check_list("_fused_sgd_", self, grads, "grads");
  if (buffers) check_list("_fused_sgd_", self, momentum_buffer_list, "momentum_buffer_list");
  TESSERA_CHECK(buffers || momentum == 0, "_fused_sgd_: a momentum of ", momentum, " needs a momentum_buffer_list");
  const cpu::SgdStep step{lr, momentum, dampening, weight_decay, nesterov, maximize, is_first_step};
  if (StepOnDevice(self, grads, {momentum != 0 ? momentum_buffer_list : TensorList()}, {}, grad_scale, found_inf)
          .run(step))
    return;
  if (skips(self, grad_scale, found_inf)) return;
  unscale(grads, grad_scale);
  if (plain_on_cpu(self, {self, grads, momentum_buffer_list})) {
    for (size_t i = 0; i < self.size(); ++i)
      cpu::sgd_step(self[i].dtype(), self[i].numel(), step, self[i].data_ptr(), grads[i].data_ptr(),
                    buffers && momentum != 0 ? momentum_buffer_list[i].data_ptr() : nullptr);
    return;
  }
  for (size_t i = 0; i < self.size(); ++i) {
    const DType t =
        buffers ? promote_types(promote_types(self[i].dtype(), grads[i].dtype()), momentum_buffer_list[i].dtype())
                : promote_types(self[i].dtype(), grads[i].dtype());
    const Flat param(self[i], t), grad(grads[i], t), buffer(buffers ? momentum_buffer_list[i] : self[i], t);
    TESSERA_ON(self[i].device(), sgd_step)
    (t, self[i].numel(), step, param.data(), grad.data(), buffers && momentum != 0 ? buffer.data() : nullptr);
    param.finish();
    if (buffers) buffer.finish();
  }
}

void adam_steps(bool decoupled_decay, TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                TensorList max_exp_avg_sqs, TensorList state_steps, double lr, double beta1, double beta2,
                double weight_decay, double eps, bool amsgrad, bool maximize, const Tensor& grad_scale,
                const Tensor& found_inf) {
  const char* op = decoupled_decay ? "_fused_adamw_" : "_fused_adam_";
  check_list(op, self, self, "self");
  check_list(op, self, grads, "grads");
  check_list(op, self, exp_avgs, "exp_avgs");
  check_list(op, self, exp_avg_sqs, "exp_avg_sqs");
  if (amsgrad) check_list(op, self, max_exp_avg_sqs, "max_exp_avg_sqs");
  TESSERA_CHECK(state_steps.size() == self.size(), op, ": expected as many state_steps as parameters (", self.size(),
                "), but got ", state_steps.size());
  for (const Tensor& s : state_steps) check_number("state_steps", s);
  cpu::AdamStep step{lr, beta1, beta2, eps, weight_decay, decoupled_decay, amsgrad, maximize, 0};
  if (StepOnDevice(self, grads, {exp_avgs, exp_avg_sqs, amsgrad ? max_exp_avg_sqs : TensorList()}, state_steps,
                   grad_scale, found_inf)
          .run(step))
    return;
  if (skips(self, grad_scale, found_inf)) return;
  unscale(grads, grad_scale);
  if (plain_on_cpu(self, {self, grads, exp_avgs, exp_avg_sqs, amsgrad ? max_exp_avg_sqs : TensorList()})) {
    for (size_t i = 0; i < self.size(); ++i) {
      step.step = state_steps[i].item_scalar().to_double();
      cpu::adam_step(self[i].dtype(), self[i].numel(), step, self[i].data_ptr(), grads[i].data_ptr(),
                     exp_avgs[i].data_ptr(), exp_avg_sqs[i].data_ptr(),
                     amsgrad ? max_exp_avg_sqs[i].data_ptr() : nullptr);
    }
    return;
  }
  for (size_t i = 0; i < self.size(); ++i) {
    DType t = promote_types(promote_types(self[i].dtype(), grads[i].dtype()),
                            promote_types(exp_avgs[i].dtype(), exp_avg_sqs[i].dtype()));
    if (amsgrad) t = promote_types(t, max_exp_avg_sqs[i].dtype());
    const Flat param(self[i], t), grad(grads[i], t), m(exp_avgs[i], t), v(exp_avg_sqs[i], t),
        largest(amsgrad ? max_exp_avg_sqs[i] : exp_avg_sqs[i], t);
    step.step = state_steps[i].item_scalar().to_double();
    TESSERA_ON(self[i].device(), adam_step)
    (t, self[i].numel(), step, param.data(), grad.data(), m.data(), v.data(), amsgrad ? largest.data() : nullptr);
    param.finish();
    m.finish();
    v.finish();
    if (amsgrad) largest.finish();
  }
}

}  // namespace tessera::kernels
