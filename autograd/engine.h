// Backward: runs the nodes of a graph, latest first.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "autograd/node.h"

namespace tessera::autograd {

struct BackwardOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool accumulate = true;     // into the leaves' grad; false: only capture
  bool allow_unused = false;  // for captures: undefined instead of an Error
};

// Runs backward from `roots` with their gradients. inputs: if not empty, only what leads to these edges runs; their
// gradients are returned, in order, (accumulate off) or added to the leaves' grad (accumulate on).
variable_list run_backward(const std::vector<Edge>& roots, variable_list&& gradients, const std::vector<Edge>& inputs,
                           const BackwardOptions& options);

// f runs once when the backward that is under way ends. Error outside of one.
void queue_callback(std::function<void()> f);
bool backward_is_running();
int64_t current_task_id();   // a number for each backward; -1 outside of one
bool will_execute(Node* n);  // the backward that is under way runs n, or captures its gradient
Node* current_node();        // the node whose apply (or hook) runs on this thread

// The pass that is under way, and those around it, go through the whole graph and add to the leaves: nobody asked for
// the gradients of certain inputs. True outside of a pass.
bool pass_is_whole();

// Of all threads. The functions are set once, before there are passes.
struct AnomalyMode {
  std::atomic<bool> enabled{false};
  std::atomic<bool> check_nan{true};
  void (*on_record)(Node&) = nullptr;       // the binding notes the Python stack of the forward call
  void (*on_error)(const Node&) = nullptr;  // ... and prints it
};
extern constinit AnomalyMode g_anomaly_mode;
inline AnomalyMode& anomaly_mode() { return g_anomaly_mode; }

// The lock of an interpreter that calls backward. release gives null if this thread doesn't have it. A pass gives it
// back around what takes long and now and then between nodes, and nobody waits for another thread while it has it:
// nodes that are written in Python find it taken. Set once.
struct HostLock {
  void* (*release)() = nullptr;
  void (*acquire)(void* state) = nullptr;
};
extern constinit HostLock g_host_lock;
class WithoutHostLock {
 public:
  explicit WithoutHostLock(bool on = true) {
    if (on && g_host_lock.release) state_ = g_host_lock.release();
  }
  ~WithoutHostLock() {
    if (state_) g_host_lock.acquire(state_);
  }
  WithoutHostLock(const WithoutHostLock&) = delete;

 private:
  void* state_ = nullptr;
};
// Waits without the interpreter's lock: whoever has the mutex may want it.
inline std::unique_lock<std::mutex> lock_without_host(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) {
    WithoutHostLock waiting;
    lock.lock();
  }
  return lock;
}

}  // namespace tessera::autograd
