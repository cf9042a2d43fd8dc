// Recording what operators a program calls, as a graph.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/function.h"
#include "tensor/dispatch/op.h"

namespace tessera::jit {

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

  // The value in the graph of something that was computed, or a constant.
  Val* value_of(const Value& v);
  // What a call gave.
  void bind(const Value& v, Val* val);
  // A call of a compiled function.
  Val* call(Function& f, const std::vector<Value>& args, bool method);
  void record(const OpHeader& op, DispatchKeySet keys, const Value* args, size_t n, Value* rets, size_t num_rets);
  std::string scope;

  // While it lives, nothing is recorded on this thread.
  struct Pause {
    Pause();
    ~Pause();
    Tracer* tracer;
  };

 private:
  Val* constant(const Value& v, TypePtr t);
  Val* at_path(const std::string& path);
  Val* operand(const Value& v, TypePtr t);

  std::unique_ptr<Graph> graph_;
  Val* self_ = nullptr;
  TypePtr module_type_ = nullptr;
  std::unordered_map<const void*, Val*> known_;  // tensors and instances
  std::unordered_map<const void*, std::string> paths_;
  std::unordered_map<std::string, Val*> attributes_;
  std::vector<Value> alive_;  // so that no address is used again
};

// What happens when a traced program turns a tensor into a number of the host.
using TraceWarning = void (*)(const char* what);
void set_trace_warning(TraceWarning f);

}  // namespace tessera::jit
