// A variable that has another value for a while.
#pragma once

#include <utility>

namespace tessera {

// Sets a variable, a thread's as a rule, and puts its old value back at the end of the scope, whatever happens there.
template <class T>
class ScopedValue {
 public:
  ScopedValue(T& variable, T value) : variable_(variable), before_(std::exchange(variable, std::move(value))) {}
  ~ScopedValue() { variable_ = std::move(before_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  T& variable_;
  T before_;
};

}  // namespace tessera
