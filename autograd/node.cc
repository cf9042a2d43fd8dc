#include "autograd/node.h"

#include "autograd/observer.h"
#include "autograd/devices/streams.h"

namespace tessera::autograd {
namespace {
// Higher numbers were recorded later and run earlier in backward.
thread_local constinit uint64_t t_sequence = 0;
std::atomic<uint64_t> g_hook_id{1};
struct Graveyard {
  std::vector<Node*> waiting;
  bool busy = false;
};
thread_local Graveyard t_graveyard;
}  // namespace

uint64_t next_hook_id() { return g_hook_id++; }
uint64_t Node::next_sequence_nr() { return t_sequence++; }
uint64_t coming_sequence_nr() { return t_sequence; }

void Node::count_out(bool release) {
  uint32_t now = use_.load(std::memory_order_relaxed), next;
  bool frees;
  do {
    next = (now - 1) | (release ? kReleased : 0);
    frees = (next & kReleased) && !(next & kFreed) && !(next & kUsers);
    if (frees) next |= kFreed;
  } while (!use_.compare_exchange_weak(now, next, std::memory_order_acq_rel, std::memory_order_relaxed));
  if (frees) release_variables();
}

void Node::dispose() {
  Graveyard& g = t_graveyard;
  g.waiting.push_back(this);
  if (g.busy) return;
  g.busy = true;
  while (!g.waiting.empty()) {
    Node* n = g.waiting.back();
    g.waiting.pop_back();
    delete n;
  }
  g.busy = false;
}

uint32_t Node::add_output(const Tensor& t) {
  OutputMeta& m = outputs_.emplace_back();  // filled in place: a shape has no cheaper move than a copy
  m.shape = t.impl()->shape();
  m.dtype = t.dtype();
  m.device = t.device();
  m.is_known = true;
  if (!m.device.is_cpu()) keep_stream_of(t);
  return static_cast<uint32_t>(outputs_.size() - 1);
}
void Node::keep_stream_of(const Tensor& t) {
  if (!stream_.known()) stream_ = current_stream_of(t.device());
}
uint32_t Node::add_output_without_history() {
  outputs_.emplace_back();
  return static_cast<uint32_t>(outputs_.size() - 1);
}

}  // namespace tessera::autograd
