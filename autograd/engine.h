// Backward: runs the nodes of a graph, latest first.
#pragma once

#include <functional>
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

struct AnomalyMode {
  bool enabled = false;
  bool check_nan = true;
  void (*on_record)(Node&) = nullptr;       // the binding notes the Python stack of the forward call
  void (*on_error)(const Node&) = nullptr;  // ... and prints it
};
AnomalyMode& anomaly_mode();

}  // namespace tessera::autograd
