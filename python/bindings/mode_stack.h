// Modes of __torch_function__ and __torch_dispatch__ lie on stacks, one of each for every thread.
#pragma once

#include <utility>
#include <vector>

#include "python/bindings/common.h"

namespace tessera::python {

// Takes the topmost mode off its stack while it handles a call, so that what it calls goes to the modes below; puts it
// back at the end of the scope. changed() runs after either.
template <class Changed>
class TopModeOff {
 public:
  TopModeOff(std::vector<Ref>& stack, Changed changed)
      : stack_(stack), changed_(std::move(changed)), mode_(std::move(stack.back())) {
    stack_.pop_back();
    changed_();
  }
  ~TopModeOff() {
    stack_.push_back(mode_);
    changed_();
  }
  TopModeOff(const TopModeOff&) = delete;
  TopModeOff& operator=(const TopModeOff&) = delete;
  PyObject* mode() const { return mode_.get(); }

 private:
  std::vector<Ref>& stack_;
  Changed changed_;
  Ref mode_;
};

}  // namespace tessera::python
