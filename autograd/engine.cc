#include "autograd/engine.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <span>
#include <thread>

#include "autograd/accumulate_grad.h"
#include "autograd/observer.h"
#include "autograd/devices/streams.h"
#include "autograd/variable.h"
#include "tensor/core/restore.h"
#include "tensor/core/transforms.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {
namespace {

// What one backward knows of a node.
struct NodeState {
  Node* node;     // the roots' owner keeps all of them alive: edges don't change
  uint32_t slot;  // in the table
  int32_t dependencies = 0;
  bool needed = true;
  bool counted = false;
  bool visited = false;
  variable_list grads;
  std::vector<std::pair<uint32_t, uint32_t>> captures;  // (input_nr, index into the result)
};

// Node -> state, in insertion order; a linear probe table, since backward meets each node a handful of times. States
// are used again by the next pass.
class StateTable {
 public:
  StateTable() : table_(kSmall, -1) {}
  NodeState& get(Node* n) {
    size_t i = slot(n);
    if (table_[i] < 0) {
      if ((used_ + 1) * 2 > table_.size()) {
        grow();
        i = slot(n);
      }
      table_[i] = static_cast<int32_t>(used_);
      if (used_ == states_.size()) states_.push_back(std::make_unique<NodeState>());
      NodeState& fresh = *states_[used_++];
      fresh.node = n;
      fresh.slot = static_cast<uint32_t>(i);
    }
    return *states_[static_cast<size_t>(table_[i])];
  }
  NodeState* find(Node* n) {
    const size_t i = slot(n);
    return table_[i] < 0 ? nullptr : states_[static_cast<size_t>(table_[i])].get();
  }
  std::span<std::unique_ptr<NodeState>> all() { return {states_.data(), used_}; }
  // Ready for another pass; what a large graph needed is given back.
  void clear() {
    for (auto& s : all()) {
      s->dependencies = 0;
      s->needed = true;
      s->counted = false;
      s->visited = false;
      s->grads.clear();
      s->captures.clear();
      table_[s->slot] = -1;
    }
    used_ = 0;
    if (states_.size() <= kKept) return;
    states_.resize(kKept);
    table_.assign(4 * kKept, -1);
    table_.shrink_to_fit();
  }

 private:
  size_t slot(Node* n) const {
    size_t i = (reinterpret_cast<uintptr_t>(n) >> 4) * 0x9e3779b97f4a7c15ull >> 20 & (table_.size() - 1);
    while (table_[i] >= 0 && states_[static_cast<size_t>(table_[i])]->node != n) i = (i + 1) & (table_.size() - 1);
    return i;
  }
  void grow() {
    table_.assign(table_.size() * 2, -1);
    for (size_t k = 0; k < used_; ++k) {
      states_[k]->slot = static_cast<uint32_t>(slot(states_[k]->node));
      table_[states_[k]->slot] = static_cast<int32_t>(k);
    }
  }
  static constexpr size_t kSmall = 64, kKept = 2048;
  std::vector<std::unique_ptr<NodeState>> states_;
  size_t used_ = 0;
  std::vector<int32_t> table_;
};

struct Task {
  int64_t id = next_id();
  BackwardOptions options;
  bool whole = true;  // pass_is_whole
  StateTable states;
  std::vector<NodeState*> ready;  // a heap: highest sequence number first
  variable_list captured;
  std::vector<std::function<void()>> callbacks;
  PassStreams streams;

  static int64_t next_id() {
    static std::atomic<int64_t> n{0};
    return n++;
  }
};
// A pass that has ended leaves its task to the next one of its thread (passes nest, so there may be several).
thread_local std::vector<std::unique_ptr<Task>> t_idle_tasks;
class TaskLease {
 public:
  TaskLease() {
    if (t_idle_tasks.empty()) {
      task_ = std::make_unique<Task>();
      return;
    }
    task_ = std::move(t_idle_tasks.back());
    t_idle_tasks.pop_back();
    task_->id = Task::next_id();
  }
  ~TaskLease() {
    task_->states.clear();
    task_->ready.clear();
    task_->captured.clear();
    task_->callbacks.clear();
    task_->streams.clear();
    if (t_idle_tasks.size() < 4) t_idle_tasks.push_back(std::move(task_));
  }
  Task& operator*() { return *task_; }

 private:
  std::unique_ptr<Task> task_;
};
thread_local constinit Task* t_task = nullptr;
thread_local constinit Node* t_node = nullptr;
thread_local constinit int t_depth = 0;  // passes under way on this stack
constexpr int kMaxDepth = 60;

bool runs_later(NodeState* a, NodeState* b) { return a->node->sequence_nr() < b->node->sequence_nr(); }

// Counts how many gradients each node waits for.
void count_dependencies(Task& task, const std::vector<Edge>& roots) {
  std::vector<Node*> stack;
  for (const Edge& r : roots) {
    NodeState& s = task.states.get(r.node.get());
    if (!std::exchange(s.counted, true)) { stack.push_back(r.node.get()); }
  }
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    for (const Edge& e : n->edges()) {
      if (!e) continue;
      NodeState& s = task.states.get(e.node.get());
      ++s.dependencies;
      if (!std::exchange(s.counted, true)) stack.push_back(e.node.get());
    }
  }
}

// Of a backward restricted to `inputs`: a node runs if something it leads to is wanted.
void mark_needed(Task& task, const std::vector<Edge>& roots, const std::vector<Edge>& inputs) {
  for (auto& s : task.states.all()) s->needed = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    NodeState* s = task.states.find(inputs[i].node.get());
    if (!s) continue;
    if (task.options.accumulate)
      s->needed = true;
    else
      s->captures.push_back({inputs[i].input_nr, static_cast<uint32_t>(i)});
  }
  struct Frame {
    Node* node;
    size_t next;
  };
  std::vector<Frame> stack;
  for (const Edge& r : roots) {
    NodeState* rs = task.states.find(r.node.get());
    if (rs->visited) continue;
    rs->visited = true;
    stack.push_back({r.node.get(), 0});
    while (!stack.empty()) {
      Frame& f = stack.back();
      if (f.next < f.node->edges().size()) {
        Node* child = f.node->edges()[f.next++].node.get();
        if (!child) continue;
        NodeState* cs = task.states.find(child);
        if (!cs->visited) {
          cs->visited = true;
          stack.push_back({child, 0});
        }
        continue;
      }
      NodeState* s = task.states.find(f.node);
      for (const Edge& e : f.node->edges()) {
        if (!e) continue;
        NodeState* cs = task.states.find(e.node.get());
        s->needed = s->needed || cs->needed || !cs->captures.empty();
      }
      stack.pop_back();
    }
  }
}

void push_ready(Task& task, NodeState* s) {
  task.ready.push_back(s);
  std::push_heap(task.ready.begin(), task.ready.end(), runs_later);
}

void add_to_buffer(NodeState& s, uint32_t nr, Tensor&& grad) {
  if (s.grads.size() <= nr) s.grads.resize(std::max<size_t>(nr + 1, s.node->outputs().size()));
  Tensor& slot = s.grads[nr];
  if (!slot.defined()) {
    slot = std::move(grad);
    return;
  }
  // Nor may a tensor of function transforms be written to: another part of the sum may be batched where it is not.
  const bool ours = !grad_mode_enabled() && !is_transformed(slot.keys() | grad.keys()) &&
                    slot.impl()->use_count() == 1 && slot.layout() == Layout::kStrided && slot.storage() &&
                    slot.storage()->use_count() == 1 && slot.is_non_overlapping_and_dense() && !slot.is_view() &&
                    std::ranges::equal(slot.sizes(), grad.sizes()) && slot.dtype() == grad.dtype();
  if (ours)
    tessera::add_(slot, grad);
  else
    slot = add_gradients(slot, grad);
}

// The same on the stream of the node that gets it. from: who made the gradient, null: the caller of backward.
void pass_on(Task& task, const Node* from, NodeState& to, uint32_t nr, Tensor&& grad) {
  if (grad.defined() && !grad.is_cpu()) [[unlikely]] {
    const NodeStream s = task.streams.wanted(*to.node, grad.device());
    task.streams.hand_over(grad, from, s);
    const OnStream on(s);
    return add_to_buffer(to, nr, std::move(grad));
  }
  add_to_buffer(to, nr, std::move(grad));
}

// A gradient in the form of the tensor that it is for.
Tensor validated(const Node& to, uint32_t output, Tensor grad, const Node& from, size_t index) {
  const OutputMeta& meta = to.outputs()[output];
  if (!meta.is_known) return grad;
  if (!std::ranges::equal(grad.sizes(), meta.shape.sizes())) {
    bool expandable = grad.dim() >= meta.shape.dim();
    const int64_t lead = grad.dim() - meta.shape.dim();
    for (int64_t i = 0; expandable && i < meta.shape.dim(); ++i) {
      const int64_t want = meta.shape.sizes()[i], have = grad.sizes()[i + lead];
      expandable = want == have || want == 1;
    }
    TESSERA_CHECK(expandable, "Function ", from.name(), " returned an invalid gradient at index ", index, " - got ",
                  shape_string(grad.sizes()), " but expected shape compatible with ", shape_string(meta.shape.sizes()));
    grad = tessera::sum_to_size(grad, meta.shape.sizes());
  }
  const DType wanted = wanted_grad_dtype(to, meta.dtype, grad.dtype());
  if (grad.dtype() != wanted) {
    if (grad.is_complex() && !is_complex(wanted)) grad = tessera::real(grad);
    if (grad.dtype() != wanted) grad = tessera::to(grad, wanted);
  }
  TESSERA_CHECK(grad.device() == meta.device || grad.dim() == 0, "Function ", from.name(),
                " returned an invalid gradient at index ", index, " - expected device ", meta.device.str(), " but got ",
                grad.device().str());
  return grad;
}

void run_tensor_hooks(const std::vector<HookList<TensorHook>::Entry>& entries, variable_list& grads) {
  const auto copy = entries;  // a hook may remove itself
  for (const auto& e : copy) {
    if (e.output_nr >= grads.size() || !grads[e.output_nr].defined()) continue;
    const Tensor r = e.hook->call(grads[e.output_nr]);
    if (r.defined()) grads[e.output_nr] = r;
  }
}

void run_hooks_before(NodeState& s, Task& task) {
  if (NodeHooks* h = s.node->hooks_or_null()) {
    if (!h->tensor.entries.empty()) run_tensor_hooks(h->tensor.entries, s.grads);
    if (!h->retain_grad.entries.empty()) run_tensor_hooks(h->retain_grad.entries, s.grads);
  }
  if (s.node->sequence_nr() == UINT64_MAX) {
    if (auto* acc = dynamic_cast<AccumulateGrad*>(s.node)) {
      AutogradMeta* m = acc->variable().impl()->autograd_meta();
      if (auto* hooks = m ? dynamic_cast<LeafHooks*>(m->hooks.get()) : nullptr)
        run_tensor_hooks(hooks->pre.entries, s.grads);
    }
  }
  for (const auto& [nr, index] : s.captures)
    if (nr < s.grads.size()) task.captured[index] = s.grads[nr];
}

void check_nan(const Node& node, const variable_list& grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined() || !(grads[i].is_floating_point() || grads[i].is_complex())) continue;
    NoGradGuard no_grad;
    const Tensor& held = tensor_with_memory(grads[i]);  // of a batch, all of its elements
    if (values_unknown(held) || !tessera::any(tessera::isnan(held)).item<bool>()) continue;
    if (anomaly_mode().on_error) anomaly_mode().on_error(node);
    throw Error(str_cat("Function '", node.name(), "' returned nan values in its ", i, "th output."));
  }
}

bool is_large(const variable_list& grads) {
  return std::ranges::any_of(grads, [](const Tensor& g) { return g.defined() && g.numel() > 4096; });
}

// Tells the observer, if there is one, of a node's beginning and end.
class Observed {
 public:
  Observed(const Node& n, bool apply)
      : observer_(g_node_observer.load(std::memory_order_acquire)), node_(n), apply_(apply) {
    if (observer_) [[unlikely]]
      (apply ? observer_->apply_begins : observer_->evaluate_begins)(n);
  }
  ~Observed() {
    if (observer_) [[unlikely]]
      observer_->ends(node_, apply_);
  }
  Observed(const Observed&) = delete;

 private:
  const NodeObserver* observer_;
  const Node& node_;
  bool apply_;
};

variable_list apply_node(Node& n, variable_list&& grads, bool retain) {
  struct Use {
    Node& node;
    bool release = false;
    explicit Use(Node& n) : node(n) { node.begin_use(); }
    ~Use() { node.end_use(release); }
  } use(n);
  variable_list out;
  {
    const Observed observed(n, true);
    WithoutHostLock others_may_run(is_large(grads));
    out = n.apply(std::move(grads));
  }
  use.release = !retain;
  return out;
}

variable_list call_node(NodeState& s, const BackwardOptions& options) {
  Node& n = *s.node;
  NodeHooks* h = n.hooks_or_null();
  if (h && !h->pre.entries.empty()) {
    const auto pre = h->pre.entries;
    for (const auto& e : pre) s.grads = e.hook->call(std::move(s.grads));
  }
  const bool wants_inputs = h && !h->post.entries.empty();
  variable_list inputs;
  if (wants_inputs) inputs = s.grads;
  variable_list out = apply_node(n, std::move(s.grads), options.retain_graph);
  for (size_t i = 0; i < out.size() && i < n.edges().size(); ++i) {
    const Edge& e = n.edges()[i];
    if (!out[i].defined() || !e || e.input_nr >= e.node->outputs().size()) continue;
    out[i] = validated(*e.node, e.input_nr, std::move(out[i]), n, i);
  }
  if (wants_inputs) {
    const auto post = h->post.entries;
    for (const auto& e : post) out = e.hook->call(std::move(out), inputs);
  }
  if (anomaly_mode().enabled && anomaly_mode().check_nan) check_nan(n, out);
  return out;
}

// The node's hooks and the node. Returns what goes on to others.
variable_list evaluate(Task& task, NodeState& s) {
  Node& n = *s.node;
  const OnStream on(n.stream());
  if (s.needed || !s.captures.empty()) run_hooks_before(s, task);  // a gradient may arrive that nobody asked for
  variable_list out;
  const bool any = std::any_of(s.grads.begin(), s.grads.end(), [](const Tensor& t) { return t.defined(); });
  if (s.needed && (any || n.runs_without_gradients())) {
    try {
      out = call_node(s, task.options);
    } catch (const Error&) {
      if (anomaly_mode().enabled && anomaly_mode().on_error) anomaly_mode().on_error(n);
      throw;
    }
  }
  s.grads.clear();
  return out;
}

// What a node on a stream of its own leaves behind: results of the pass, and gradients of leaves.
void leave_to_caller(Task& task, const NodeState& s) {
  for (const auto& [nr, index] : s.captures) task.streams.give_to_caller(task.captured[index], s.node->stream());
  if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(s.node))
    task.streams.give_to_caller(leaf->variable().grad(), s.node->stream());
}

void run_node(Task& task, NodeState& s) {
  Node& n = *s.node;
  const Observed observed(n, false);
  if (s.grads.size() < n.outputs().size()) s.grads.resize(n.outputs().size());
  t_node = &n;
  variable_list out = evaluate(task, s);
  if (n.stream().known()) [[unlikely]]
    leave_to_caller(task, s);
  for (size_t i = 0; i < n.edges().size(); ++i) {
    const Edge& e = n.edges()[i];
    if (!e) continue;
    NodeState& next = *task.states.find(e.node.get());
    if (i < out.size() && out[i].defined()) pass_on(task, &n, next, e.input_nr, std::move(out[i]));
    if (--next.dependencies == 0) push_ready(task, &next);
  }
}

// The state of one backward on this thread, put back at its end whatever happens.
struct Scope {
  ScopedValue<Task*> task;
  ScopedValue<Node*> node{t_node, t_node};  // that of the pass around this one, while no node runs
  NoGradGuard grad_mode;
  explicit Scope(Task& t) : task(t_task, &t), grad_mode(t.options.create_graph) {}
};

// Nodes that call backward may do so thousands of times inside of each other, which no stack holds: the pass runs on
// that of another thread, for which this one waits.
variable_list run_on_new_stack(const std::vector<Edge>& roots, variable_list&& gradients,
                               const std::vector<Edge>& inputs, const BackwardOptions& options) {
  const ThreadState state = thread_state;
  variable_list result;
  std::exception_ptr error;
  WithoutHostLock waiting;
  std::thread([&, task = t_task, node = t_node] {
    thread_state = state;
    t_task = task;
    t_node = node;
    try {
      result = run_backward(roots, std::move(gradients), inputs, options);
    } catch (...) { error = std::current_exception(); }
  }).join();
  if (error) std::rethrow_exception(error);
  return result;
}

}  // namespace

variable_list run_backward(const std::vector<Edge>& roots, variable_list&& gradients, const std::vector<Edge>& inputs,
                           const BackwardOptions& options) {
  // Keys that a thread includes mean states of its own (of transforms, the profiler ...), which another one lacks.
  if (t_depth >= kMaxDepth && !thread_state.included)
    return run_on_new_stack(roots, std::move(gradients), inputs, options);
  ScopedValue<int> depth(t_depth, t_depth + 1);
  TaskLease lease;
  Task& task = *lease;
  const ExcludeKeys nameless{DispatchKeySet(DispatchKey::kNamed)};  // gradients have no names
  task.options = options;
  task.captured.resize(options.accumulate ? 0 : inputs.size());
  task.whole = options.accumulate && inputs.empty() && pass_is_whole();
  Scope scope(task);
  count_dependencies(task, roots);
  if (!inputs.empty()) mark_needed(task, roots, inputs);
  for (size_t i = 0; i < roots.size(); ++i) {
    const Edge& r = roots[i];
    Tensor g = std::move(gradients[i]);
    if (g.defined() && g.keys().has(DispatchKey::kNamed)) g = Tensor(g.impl()->shallow_copy(/*shares_version=*/true));
    if (r.input_nr < r.node->outputs().size()) g = validated(*r.node, r.input_nr, std::move(g), *r.node, i);
    pass_on(task, nullptr, task.states.get(r.node.get()), r.input_nr, std::move(g));
  }
  for (auto& s : task.states.all())
    if (s->dependencies == 0) push_ready(task, s.get());
  for (unsigned n = 1; !task.ready.empty(); ++n) {
    if (n % 64 == 0) WithoutHostLock others_may_run;
    std::pop_heap(task.ready.begin(), task.ready.end(), runs_later);
    NodeState* s = task.ready.back();
    task.ready.pop_back();
    run_node(task, *s);
  }
  t_node = nullptr;
  task.streams.join();
  for (size_t i = 0; i < task.callbacks.size(); ++i) task.callbacks[i]();
  for (size_t i = 0; i < task.captured.size(); ++i)
    TESSERA_CHECK(
        options.allow_unused || task.captured[i].defined(), "The differentiated Tensor at index ", i,
        " appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior.");
  return std::move(task.captured);
}

void queue_callback(std::function<void()> f) {
  TESSERA_CHECK(t_task, "Final callbacks can only be installed during backward pass.");
  t_task->callbacks.push_back(std::move(f));
}
bool backward_is_running() { return t_task != nullptr; }
int64_t current_task_id() { return t_task ? t_task->id : -1; }
bool will_execute(Node* n) {
  const NodeState* s = t_task ? t_task->states.find(n) : nullptr;
  return s && (s->needed || !s->captures.empty());
}
Node* current_node() { return t_node; }
bool pass_is_whole() { return !t_task || t_task->whole; }
constinit AnomalyMode g_anomaly_mode;
constinit HostLock g_host_lock;
constinit std::atomic<const NodeObserver*> g_node_observer{nullptr};

}  // namespace tessera::autograd
