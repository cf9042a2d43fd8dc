// A value that comes later.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

#include "ATen/core/function_schema.h"

namespace c10::ivalue {

// Completed once, with a value or an error, by any thread; callbacks run in the thread that completes it, or at once.
class Future final : public intrusive_ptr_target {
 public:
  explicit Future(TypePtr type) : type_(std::move(type)) {}

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }
  // Raises the error that it was completed with.
  void waitAndThrow() {
    wait();
    if (error_) std::rethrow_exception(error_);
  }
  // Error if it is completed already.
  void markCompleted(IValue value = {}) { complete(std::move(value), nullptr); }
  void setError(std::exception_ptr error) { complete({}, std::move(error)); }
  // The value of a completed one; its error is raised.
  IValue value() const {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(done_, "value() of a future that is not completed: wait() for it");
    if (error_) std::rethrow_exception(error_);
    return value_;
  }
  void addCallback(std::function<void(Future&)> callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!done_) {
        callbacks_.push_back(std::move(callback));
        return;
      }
    }
    callback(*this);
  }
  // A future of what the function makes of this one, completed.
  intrusive_ptr<Future> then(std::function<IValue(Future&)> make, TypePtr type) {
    auto next = c10::make_intrusive<Future>(std::move(type));
    addCallback([next, make = std::move(make)](Future& f) {
      IValue made;
      std::exception_ptr error;
      try {
        made = make(f);
      } catch (...) { error = std::current_exception(); }
      next->complete(std::move(made), error);
    });
    return next;
  }
  bool completed() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  bool hasError() const {
    const std::lock_guard lock(mutex_);
    return error_ != nullptr;
  }
  bool hasValue() const {
    const std::lock_guard lock(mutex_);
    return done_ && !error_;
  }
  std::exception_ptr exception_ptr() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  TypePtr elementType() const { return type_; }

 private:
  void complete(IValue value, std::exception_ptr error) {
    std::vector<std::function<void(Future&)>> callbacks;
    {
      const std::lock_guard lock(mutex_);
      TORCH_CHECK(!done_, "Attempting to mark a completed Future as complete again.");
      value_ = std::move(value), error_ = std::move(error), done_ = true;
      callbacks.swap(callbacks_);
    }
    changed_.notify_all();
    for (const auto& f : callbacks) f(*this);
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  IValue value_;
  std::exception_ptr error_;
  std::vector<std::function<void(Future&)>> callbacks_;
  TypePtr type_;
};

}  // namespace c10::ivalue
