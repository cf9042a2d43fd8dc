// Watching backward: who is told when a node runs. Not part of autograd.h, so that what computes does not see it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tessera::autograd {

class Node;

// On the thread that runs the pass. `evaluate` is around all that is done for a node: hooks, its function, the sums
// that its results go into; `apply` is around the function alone.
struct NodeObserver {
  void (*evaluate_begins)(const Node&);
  void (*apply_begins)(const Node&);
  void (*ends)(const Node&, bool apply);  // after an error, too
};
// Null while nobody watches. The object that it points to must live for ever.
extern constinit std::atomic<const NodeObserver*> g_node_observer;

// The number that the next node of this thread will have.
uint64_t coming_sequence_nr();

}  // namespace tessera::autograd
