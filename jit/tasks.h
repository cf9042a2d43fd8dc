// Calls that other threads may make: what fork begins and wait asks for.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

#include "jit/object.h"

namespace tessera::jit {

// A call with its result. It is made once: by a thread of the pool, or by the first that waits before one of these has
// begun; so a task may wait for others however few threads there are.
class Task : public RefCounted {
 public:
  explicit Task(std::function<Value()> work) : work_(std::move(work)) {}
  // The result; raises what the call raised, each time.
  Value wait();
  bool done();
  // Makes the call, unless somebody else did.
  void run();

 private:
  enum class State { kQueued, kRunning, kDone };
  std::function<Value()> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kQueued;
  Value result_;
  std::exception_ptr error_;
};

// A task in the queue of the pool. It has the modes of this thread (gradients ...); under modes that belong to a thread
// alone (traces, function transforms, autocast) it is run at once.
IntrusivePtr<Task> launch(std::function<Value()> work);

// How many threads run tasks; they start with the first task, and later numbers change nothing.
void set_task_threads(int n);
int task_threads();

}  // namespace tessera::jit
