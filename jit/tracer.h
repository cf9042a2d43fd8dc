// Recording what operators a program calls, as a graph.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "jit/function.h"
#include "tensor/core/tensor.h"
#include "tensor/dispatch/op.h"

namespace tessera::jit {

// How many recordings are under way, on all threads.
extern constinit std::atomic<int> traces_under_way;

// A number among the arguments of a call that was read from a tensor: element of a list, or -1 for the argument itself.
struct NumberSource {
  int argument, element;
  Tensor tensor;
};

// One recording; operators that this thread calls while it is active are nodes of its graph.
class Tracer {
 public:
  Tracer();
  ~Tracer();
  Tracer(const Tracer&) = delete;
  static Tracer* active();
  void start();
  void stop();

  // The module whose method is recorded, and where its tensors and children are: "layer.0.weight".
  void set_module(const Value& module, TypePtr type);
  void add_path(const Value& what, const std::string& path);
  // A parameter of the graph; tensors inside of the value stand for its parts.
  void input(const std::string& name, const Value& v, TypePtr t);
  void output(const Value& v);
  std::unique_ptr<Graph> take();
  // Calls of submodules, of what is at a path; the result is a tensor, a tuple of tensors, or None. take_nested() makes
  // methods of them, for the classes of the submodules.
  void enter(const std::string& path, const std::vector<std::pair<std::string, Value>>& inputs);
  void leave(const Value& result);
  std::unique_ptr<Graph> flat() const;
  std::unique_ptr<Graph> take_nested(std::vector<std::unique_ptr<Function>>* methods);

  // The value in the graph of something that was computed, or a constant.
  Val* value_of(const Value& v);
  // What a call gave.
  void bind(const Value& v, Val* val);
  // A call of a compiled function.
  Val* call(Function& f, const std::vector<Value>& args, bool method, const std::vector<NumberSource>& sources);
  // Sizes as int64 tensors without dimensions, so that what is computed with them is recorded.
  Tensor number_tensor(int64_t n, Val* val);  // of an int in the graph
  bool knows(const Tensor& t) const;          // it was computed, is an input, or the module's
  Tensor size(const Tensor& t, int64_t dim);
  Tensor numel(const Tensor& t);
  // Where numbers of the next call of an operator come from.
  void expect(const OpHeader& op, std::vector<NumberSource> sources);
  void record(const OpHeader& op, DispatchKeySet keys, const Value* args, size_t n, Value* rets, size_t num_rets);
  std::string scope;

  // While it lives, nothing is recorded on this thread.
  struct Pause {
    Pause();
    ~Pause();
    Tracer* tracer;
  };

 private:
  struct Call {
    std::string path;
    std::vector<std::pair<std::string, Val*>> inputs;
    std::vector<Val*> outputs;
    bool tuple = false, usable = true;
    size_t begin = 0, end = 0;  // its nodes
  };
  bool below(const Val* v, const std::string& path, std::string* rest) const;
  static Val* read(Graph& g, Val* object, std::string_view path, std::vector<Node*>* made);
  int64_t nest(const Call& c, std::vector<std::unique_ptr<Function>>* methods);
  Val* constant(const Value& v, TypePtr t);
  Val* at_path(const std::string& path);
  Val* operand(const Value& v, TypePtr t, int argument);
  Val* number(const Tensor& source, TypePtr t);
  Val* number_list(const std::vector<Value>& items, TypePtr t, int argument);
  Val* op(const Operator* o, std::vector<Val*> in);
  const Tensor* source(int argument, int element) const;

  std::unique_ptr<Graph> graph_;
  Val* self_ = nullptr;
  TypePtr module_type_ = nullptr;
  std::unordered_map<const void*, Val*> known_;  // tensors and instances
  std::unordered_map<const void*, std::string> paths_;
  std::unordered_map<std::string, Val*> attributes_;
  std::unordered_map<const void*, std::vector<std::string>> all_paths_;
  std::unordered_map<std::string, const void*> identities_;
  std::unordered_map<const Val*, std::string> val_paths_;
  std::vector<Call> open_, calls_;
  std::vector<Value> alive_;  // so that no address is used again
  const OpHeader* expected_ = nullptr;
  std::vector<NumberSource> awaited_, sources_;  // of the call that is expected, of the one that is recorded
};

// The recording of this thread, or null; costs a load where nobody records.
inline Tracer* current_trace() { return traces_under_way.load(std::memory_order_relaxed) ? Tracer::active() : nullptr; }

}  // namespace tessera::jit
