#include "jit/tasks.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "tensor/core/dispatch_key.h"

namespace tessera::jit {

FutureObject::FutureObject(TypePtr e) : Object(ObjectKind::kFuture), elem(e) {}
FutureObject::~FutureObject() = default;
Value FutureObject::wait() const { return task ? task->wait() : value; }

void Task::run() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kQueued) return;
    state_ = State::kRunning;
  }
  Value result;
  std::exception_ptr error;
  try {
    result = work_();
  } catch (...) { error = std::current_exception(); }
  work_ = nullptr;
  const std::lock_guard lock(mutex_);
  result_ = std::move(result), error_ = error, state_ = State::kDone;
  changed_.notify_all();
}

Value Task::wait() {
  run();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ == State::kDone; });
  if (error_) std::rethrow_exception(error_);
  return result_;
}

bool Task::done() {
  const std::lock_guard lock(mutex_);
  return state_ == State::kDone;
}

namespace {

std::atomic<int> wanted_threads{0};

// Never destroyed: its threads wait until the process ends.
class Pool {
 public:
  Pool() {
    for (int k = 0; k < task_threads(); ++k) std::thread([this] { work(); }).detach();
  }
  void add(IntrusivePtr<Task> task) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(task));
    }
    more_.notify_one();
  }
  const pid_t process = getpid();

 private:
  void work() {
    while (true) {
      IntrusivePtr<Task> task;
      {
        std::unique_lock lock(mutex_);
        more_.wait(lock, [&] { return !queue_.empty(); });
        task = std::move(queue_.front());
        queue_.pop_front();
      }
      task->run();
    }
  }
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<IntrusivePtr<Task>> queue_;
};

// A child of fork(2) has none of its parent's threads: it starts its own.
Pool& pool() {
  static std::atomic<Pool*> pools{nullptr};
  Pool* p = pools.load(std::memory_order_acquire);
  if (p && p->process == getpid()) return *p;
  Pool* made = new Pool;
  if (pools.compare_exchange_strong(p, made, std::memory_order_acq_rel)) return *made;
  return *p;  // another thread was faster; the threads of this one wait for nothing
}

}  // namespace

void set_task_threads(int n) { wanted_threads.store(n); }
int task_threads() {
  const int n = wanted_threads.load();
  return n ? n : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

IntrusivePtr<Task> launch(std::function<Value()> work) {
  const ThreadState state = thread_state;
  auto task = make_intrusive<Task>([state, work = std::move(work)] {
    const ThreadState own = thread_state;
    struct Restore {
      const ThreadState& own;
      ~Restore() { thread_state = own; }
    } restore{own};
    thread_state = state;
    return work();
  });
  if (state.included || state.excluded)
    task->run();
  else
    pool().add(task);
  return task;
}

}  // namespace tessera::jit
