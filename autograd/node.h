// A node of the graph that backward walks: the derivative of one operator call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/core/tensor.h"

namespace tessera::autograd {

class Node;
class SavedVisitor;
using variable_list = std::vector<Tensor>;

// To input `input_nr` of a node's backward, that is to output input_nr of the operator that made it.
struct Edge {
  IntrusivePtr<Node> node;
  uint32_t input_nr = 0;
  explicit operator bool() const { return static_cast<bool>(node); }
};

// What an output of the forward call looked like: gradients are brought to this form.
struct OutputMeta {
  Shape shape;
  DType dtype;
  Device device;
  bool is_known = false;  // false: an output without history
};

// A function on one gradient (a tensor's hook): returns the gradient to go on with, or an undefined tensor for
// "unchanged".
struct TensorHook : public RefCounted {
  virtual Tensor call(const Tensor& grad) = 0;
};
// Functions on all gradients of a node.
struct NodePreHook : public RefCounted {
  virtual variable_list call(variable_list&& grads) = 0;
};
struct NodePostHook : public RefCounted {
  virtual variable_list call(variable_list&& outputs, const variable_list& inputs) = 0;
};
struct PostAccumulateHook : public RefCounted {
  virtual void call(const Tensor& leaf) = 0;
};

// Hooks of tensors, with the ids that handles remove them by.
template <class Hook>
struct HookList {
  struct Entry {
    uint64_t id;
    uint32_t output_nr;
    IntrusivePtr<Hook> hook;
  };
  std::vector<Entry> entries;
  void remove(uint64_t id) {
    std::erase_if(entries, [&](const Entry& e) { return e.id == id; });
  }
};
// What a leaf keeps (AutogradMeta::hooks).
struct LeafHooks : public RefCounted {
  HookList<TensorHook> pre;
  HookList<PostAccumulateHook> post_accumulate;
};
uint64_t next_hook_id();

struct NodeHooks {
  HookList<TensorHook> tensor;       // on the gradient of one output, before everything else
  HookList<TensorHook> retain_grad;  // after those
  HookList<NodePreHook> pre;
  HookList<NodePostHook> post;
};

// The stream of a device that a node's work goes to; none for nodes on devices without streams.
struct NodeStream {
  Device device;  // with its index; the CPU: none
  void* handle = nullptr;
  bool known() const { return !device.is_cpu(); }
  friend bool operator==(const NodeStream&, const NodeStream&) = default;
};

class Node : public RefCounted {
 public:
  Node() : sequence_nr_(next_sequence_nr()) {}
  explicit Node(uint64_t sequence_nr) : sequence_nr_(sequence_nr) {}

  // grads[k]: gradient of output k, undefined where none arrived. Returns one gradient per edge (fewer: the rest
  // undefined).
  virtual variable_list apply(variable_list&& grads) = 0;
  virtual const char* name() const = 0;  // "MulBackward0"
  virtual void release_variables() {}    // after the last use of the graph
  virtual void visit_saved(SavedVisitor&) {}
  // The same, or those of the write inside a CopySlices.
  virtual void visit_saved_of_write(SavedVisitor& v) { visit_saved(v); }
  // True for functions that want to be called although no gradient arrived.
  virtual bool runs_without_gradients() const { return false; }
  // A Python-defined node is its own Python object.
  virtual void* python_object() { return nullptr; }

  const std::vector<Edge>& edges() const { return edges_; }
  void add_edge(Edge e) { edges_.push_back(std::move(e)); }
  // Whether input i of the operator wants a gradient.
  bool should_compute(size_t i) const { return i < edges_.size() && edges_[i].node; }

  const std::vector<OutputMeta>& outputs() const { return outputs_; }
  uint32_t add_output(const Tensor& t);  // returns its number
  uint32_t add_output_without_history();

  // The one that was current when the node's first output was made: its derivative runs there, too.
  const NodeStream& stream() const { return stream_; }

  uint64_t sequence_nr() const { return sequence_nr_; }
  // Several passes may be at one node at a time, each on a thread of its own. What it saved stays until the last of
  // them has left; who comes once it is to be freed finds released() set and touches nothing.
  bool released() const { return use_.load(std::memory_order_acquire) & kReleased; }
  void begin_use() {
    if (frees_something_) use_.fetch_add(1, std::memory_order_acq_rel);
  }
  void end_use(bool release) {
    if (frees_something_) count_out(release);
  }
  // At once, for a node that only its owner uses. Not "release": that is the reference count's.
  void free_saved() {
    use_.fetch_or(kReleased | kFreed, std::memory_order_acq_rel);
    release_variables();
  }

  NodeHooks& hooks() {
    if (!hooks_) hooks_ = std::make_unique<NodeHooks>();
    return *hooks_;
  }
  NodeHooks* hooks_or_null() const { return hooks_.get(); }
  // The Python wrapper (weak), and its metadata dictionary (in anomaly mode with the place of the forward call).
  std::atomic<void*> pyobject{nullptr};
  IntrusivePtr<RefCounted> metadata;

 protected:
  void dispose() override;  // one after the other: a chain of a million nodes needs no deep stack
  static uint64_t next_sequence_nr();
  // Of a node without anything that goes with the graph: nobody counts who uses it. For constructors.
  void frees_nothing() { frees_something_ = false; }
  void keep_stream_of(const Tensor& t);

 private:
  void count_out(bool release);

  std::vector<Edge> edges_;
  std::vector<OutputMeta> outputs_;
  std::unique_ptr<NodeHooks> hooks_;
  uint64_t sequence_nr_;
  NodeStream stream_;
  // How many passes are inside apply; kReleased: what was saved is to go; kFreed: somebody has seen to it.
  static constexpr uint32_t kReleased = 1u << 31, kFreed = 1u << 30, kUsers = kFreed - 1;
  std::atomic<uint32_t> use_{0};
  bool frees_something_ = true;
};

}  // namespace tessera::autograd
