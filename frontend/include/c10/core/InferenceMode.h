// While it lives, this thread neither records nor counts versions.
#pragma once

#include "c10/core/DispatchKeySet.h"

namespace c10 {

class InferenceMode {
 public:
  explicit InferenceMode(bool on = true) : saved_(tessera::thread_state) {
    auto& s = tessera::thread_state;
    s.inference_mode = on;
    s.grad_enabled = s.view_tracking = s.forward_grad_enabled = !on;
  }
  ~InferenceMode() {
    auto& s = tessera::thread_state;
    s.inference_mode = saved_.inference_mode;
    s.grad_enabled = saved_.grad_enabled;
    s.view_tracking = saved_.view_tracking;
    s.forward_grad_enabled = saved_.forward_grad_enabled;
  }
  InferenceMode(const InferenceMode&) = delete;
  static bool is_enabled() { return tessera::thread_state.inference_mode; }

 private:
  tessera::ThreadState saved_;
};

}  // namespace c10
namespace torch {
using c10::InferenceMode;
namespace autograd {
using c10::InferenceMode;
}
}  // namespace torch
