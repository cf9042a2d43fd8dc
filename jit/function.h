// A function or method of a program: declared with its source, compiled when it is first needed.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "jit/ir.h"

namespace tessera::jit {

struct Sugar;
struct Code;

// Held while anything is compiled. A host with a lock of its own lets go of that one before it waits for this one.
std::recursive_mutex& compile_lock();

// What the names in a source mean.
struct Resolver : RefCounted {
  // False: nothing of that name.
  virtual bool resolve(const std::string& name, const Range& where, Sugar* out) = 0;
  // A method or attribute that a class does not have yet: the host may add it (then `out` stays as it is) or say what
  // it means. False: there is none.
  virtual bool add_member(ClassDef&, const std::string&, const Range&, Sugar*) { return false; }
};

struct Param {
  std::string name;
  TypePtr type;
  const Ast* default_source = nullptr;
  bool has_default = false;
  bool keyword_only = false;
  int64_t size = -1;  // of BroadcastingList2: one number stands for both
  Value default_value;
};

struct Function {
  std::string name, qualified;  // "forward", "__torch__.mod.Net.forward"
  ClassDef* owner = nullptr;
  Unit* unit = nullptr;
  const Ast* source = nullptr;
  IntrusivePtr<Resolver> resolver;
  bool is_static = false;
  bool is_declaration = false;  // of an interface: without a body
  bool is_init = false;
  std::string refused;            // what calling it raises: an unused one
  IntrusivePtr<HostObject> host;  // stays with the host: an ignored one
  bool is_native = false;         // `host` is C++ that is registered wherever the program runs
  std::string doc;
  std::vector<Param> args;
  TypePtr ret = nullptr;  // null: found by compiling
  bool ret_annotated = false;
  std::unique_ptr<Graph> graph;
  std::vector<Function*> specials;  // of a function that takes functions: unused

  Function();
  ~Function();
  Function(const Function&) = delete;
  // Types of the arguments, and of the result.
  void ensure_schema();
  Graph& ensure_graph();
  // "f(Tensor x, int n=3) -> Tensor"
  std::string schema() const;
  const Code& code();  // compiled at the first run
  void drop_code();
  bool has_graph() const { return graph != nullptr; }
  const std::string& display_name() const { return name; }

  void set_graph(std::unique_ptr<Graph> g);  // of a trace: the arguments follow from it

 private:
  void read_signature();
  bool signature_read_ = false, compiling_ = false;
  std::unique_ptr<Code> code_;
  std::atomic<const Code*> ready_{nullptr};  // code_, for threads that run it without the lock
};

// A function or method of a source.
Function* define(Unit& unit, const Ast& def, const std::string& qualified, IntrusivePtr<Resolver> resolver,
                 ClassDef* owner = nullptr);
// The class of a source: attributes from __init__ or from annotations.
ClassDef* define_class(Unit& unit, const Ast& source, const std::string& qualified, IntrusivePtr<Resolver> resolver);
// The name of the method that a call of a module runs: forward, or one made here that runs it between its hooks.
std::string called_method(ClassDef& def);

}  // namespace tessera::jit
