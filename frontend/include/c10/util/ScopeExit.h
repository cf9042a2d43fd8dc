// Runs a function at the end of a block, unless it was released.
#pragma once

#include <utility>

namespace c10 {

template <class F>
class scope_exit {
 public:
  explicit scope_exit(F f) : f_(std::move(f)) {}
  scope_exit(scope_exit&& from) noexcept : f_(std::move(from.f_)), armed_(std::exchange(from.armed_, false)) {}
  ~scope_exit() {
    if (armed_) f_();
  }
  void release() { armed_ = false; }

 private:
  F f_;
  bool armed_ = true;
};
template <class F>
scope_exit<F> make_scope_exit(F f) {
  return scope_exit<F>(std::move(f));
}

}  // namespace c10
