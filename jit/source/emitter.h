// From the source of one function to its graph.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "jit/operator.h"
#include "jit/source/sugar.h"

namespace tessera::jit {

struct Argument {
  Range range;
  std::string name;  // of a keyword
  Val* value;
};
// What a parameter of an operator or a function asks for.
// The dtype of a Tensor's method such as `float`; null for other names.
const char* dtype_of_cast(std::string_view method);

struct Formal {
  const std::string* name;
  TypePtr type;
  bool has_default, keyword_only;
  const Value* default_value;
  int64_t size;
  bool is_op;
};

class Emitter {
 public:
  Emitter(Function& function, Graph& graph, Resolver* resolver);
  // The whole function.
  void run(const Ast& def);
  // One expression as a value of a type (null: whatever it is): defaults.
  void run_expression(const Ast& e, TypePtr t, int64_t size = -1);

 private:
  // --- variables (emit_statements.cc) ---
  struct Frame {
    Frame* outer = nullptr;
    std::map<std::string, Sugar> variables;
    std::map<std::string, TypePtr> declared;
    std::set<std::string> assigned;  // not only refined
    bool rest = false;               // holds what follows an early exit: to the program it is the outer one
  };
  enum class Ends : uint8_t { kNever, kSometimes, kAlways };  // whether control leaves a list of statements early
  struct Exit {
    Ends ends = Ends::kNever;
    bool raises = false;    // only by exceptions
    bool dead = false;      // only by exceptions and returns: no variable is needed behind it
    bool consumed = false;  // the rest of the list was emitted inside
    Val* flag = nullptr;    // of kSometimes: whether it did
  };
  struct Refinement {
    std::string name;
    std::vector<TypePtr> types;
    bool is_one;  // of these types, or of none
  };
  struct Condition {
    Val* value = nullptr;  // null where it is known
    std::optional<bool> known;
    std::vector<Refinement> if_true, if_false;
  };

  const Sugar* find(const std::string& name, const Frame** where = nullptr) const;
  Sugar lookup(const std::string& name, const Range& where);
  void set(const std::string& name, Sugar s, const Range& where, bool refined = false);
  TypePtr declared_type(const std::string& name) const;
  TypePtr settled_type(const std::string& name) const;
  void refine(const std::vector<Refinement>& all, const Range& where);
  Exit merge(Node* node, Frame& a, Frame& b, Exit ea, Exit eb, const Range& where);
  Val* branch_value(const std::string& name, const Frame& f, bool unneeded);

  // --- statements ---
  Exit statements(const std::vector<const Ast*>& list, size_t from);
  Exit rest_of(Exit e, const std::vector<const Ast*>& list, size_t from, const Range& where);
  Exit statement(const Ast& s, const std::vector<const Ast*>& list, size_t at);
  Exit if_statement(const Ast& s, const std::vector<const Ast*>& list, size_t at);
  template <class Bind>
  Exit loop(const Ast& s, const Ast& body, Val* trips, const Ast* condition, Bind bind);
  Exit for_loop(const Ast& s);
  Exit return_statement(const Ast& s);
  Exit with_statement(const Ast& s, const std::vector<const Ast*>& list, size_t at);
  Exit assertion(const Ast& s);
  Val* assertion_message(const Ast& s);
  void raise_statement(const Ast& s);
  void emit_raise(const Range& where, Val* message, const std::string& cls);
  void assign(const Ast& target, Sugar value, const Range& where);
  void unpack(const Ast& target, const Sugar& value, const Range& where);
  void annotated(const Ast& s);
  void augmented(const Ast& s);
  void delete_statement(const Ast& s);
  void attribute_assign(const Ast& target, Val* value, const Range& where);
  void subscript_assign(const Ast& target, Val* value, const Range& where);
  void finish_function(Exit e, const Range& where);

  // --- expressions (emit_expressions.cc) ---
  Val* expr(const Ast& e, TypePtr hint = nullptr);
  Sugar sugar(const Ast& e, TypePtr hint = nullptr);
  Val* value_of(const Sugar& s, const Range& where);
  Condition condition(const Ast& e);
  Val* condition_value(const Condition& c, const Range& where);
  Condition and_or(const Ast& e);
  std::optional<Condition> identity_test(const Ast& e);
  Condition isinstance_test(const Ast& call, const std::vector<TypePtr>& types, const Ast& object);
  Val* to_bool(Val* v, const Range& where);
  Val* binary(const Ast& e);
  Val* arithmetic(const std::string& op, Val* left, Val* right, const Range& where);
  Val* compare(const Ast& e);
  Val* ternary(const Ast& e, TypePtr hint);
  Val* list_literal(const Ast& e, TypePtr hint);
  Val* dict_literal(const Ast& e, TypePtr hint);
  Val* comprehension(const Ast& e, TypePtr hint);
  Val* formatted(const Ast& e);
  Sugar subscript(const Ast& e, TypePtr hint = nullptr);
  Val* module_at(const Sugar& all, Val* index, TypePtr type, const Range& where);
  bool has_own(Val* object, const char* method, const Range& where);
  Val* index_tensor(Val* base, const Ast& e);
  Val* tensor_indices(Val* base, const Ast& e, std::vector<Val*>* indices);
  Sugar tuple_subscript(Val* base, const Ast& e);
  Sugar attribute(const Sugar& object, const std::string& name, const Range& where);
  Sugar value_attribute(Val* v, const std::string& name, const Range& where);
  Sugar type_attribute(TypePtr t, const std::string& name, const Range& where);
  bool contains(const Ast& e, Val** out);
  // A subscript in which slice(b, e, s), and names of such, are b:e:s.
  const Ast& with_slices(const Ast& subscript);
  const Ast* slice_of(const Ast& e);
  Sugar make_slice(const Ast& call);

  // --- calls (emit_calls.cc) ---
  Sugar call(const Ast& e, TypePtr hint);
  Sugar call_sugar(const Sugar& callee, const Ast& e, TypePtr hint);
  Sugar call_with(const Sugar& callee, std::vector<Argument> args, const Range& where);
  std::optional<Sugar> special(const std::string& id, const Ast& e, TypePtr hint);
  std::vector<Argument> arguments(const Ast& e, size_t from = 1);
  Val* to_list(Val* tensor, TypePtr wanted, const Range& where);
  Sugar construct(TypePtr t, const Ast& e, TypePtr hint);
  Sugar convert_to(TypePtr t, const Ast& e);
  Val* call_function(Function& f, std::vector<Argument> args, const Range& where, Val* self = nullptr,
                     bool allow = true);
  Val* call_method(Val* object, const std::string& name, std::vector<Argument> args, const Range& where);
  Val* call_module(Val* module, std::vector<Argument> args, const Range& where);
  bool fits_flags(Function& f, const std::vector<Function*>& all, const std::vector<Argument>& args);
  Val* call_overloads(const std::vector<Function*>& all, std::vector<Argument> args, const Range& where, Val* self);
  Val* op(const std::string& name, std::vector<Argument> args, const Range& where);
  Val* op(const std::string& name, std::initializer_list<Val*> args, const Range& where);
  Val* try_op(const std::string& name, const std::vector<Argument>& args, const Range& where, std::string* why);
  bool match(const std::vector<Formal>& formals, bool vararg, const std::vector<Argument>& args, bool convert,
             const Range& where, std::vector<Val*>* out, TypeVars* vars, std::string* why);
  bool spreads_ = true;      // whether match() takes several arguments for one list
  bool of_library_ = false;  // matching a function of the library: its lists may be spread, too
  Val* convert(Val* v, const Formal& f, TypePtr concrete, bool allow, const Range& where);
  Val* packed(Node* n, const std::vector<TypePtr>& rets, const std::vector<std::string>* names = nullptr);
  Val* isinstance_call(const Ast& e);
  std::vector<TypePtr> types_of_argument(const Ast& e);
  Sugar fork_call(const Ast& e);
  Val* cast_to(Val* v, TypePtr t, const Range& where, const char* what, int64_t size = -1, bool allow = false);

  // --- iteration ---
  // What a loop goes over, as a number of steps and what each binds; or a list to unroll.
  struct Iteration {
    std::vector<Sugar> unrolled;
    bool is_unrolled = false;
    Val* trips = nullptr;          // null: unbounded
    std::vector<Iteration> parts;  // zip, enumerate
    enum Kind : uint8_t { kIndexed, kRange, kTuple } kind = kIndexed;
    Val *base = nullptr, *start = nullptr, *step = nullptr;
    bool plain_range = false;
  };
  Iteration iterate(const Sugar& s, const Range& where);
  Iteration iterate_ast(const Ast& e);
  Sugar element(const Iteration& it, Val* index, const Range& where);

  // --- nodes ---
  Node* node(N kind, std::vector<Val*> in, const Range& where);
  Val* node_value(N kind, std::vector<Val*> in, TypePtr type, const Range& where);
  Val* constant(const Value& v, TypePtr t, const Range& where);
  Val* integer(int64_t i, const Range& where) { return constant(Value::of(i), int_type(), where); }
  Val* none(const Range& where) { return constant(Value(), none_type(), where); }
  Val* truth(bool b, const Range& where) { return constant(Value::of(b), bool_type(), where); }
  Val* text(const std::string& s, const Range& where) { return constant(Value::of(s), str_type(), where); }
  Val* uninitialized(TypePtr t, const Range& where);
  Val* tuple(std::vector<Val*> items, const Range& where, TypePtr type = nullptr);
  Val* tuple_item(Val* t, size_t i, const Range& where);
  Val* cast(Val* v, TypePtr t, const Range& where);
  std::vector<Val*> unpacked(Val* v, size_t n, const Range& where, bool exact = true);
  TypePtr annotation(const Ast& a) { return type_of_annotation(a, resolver_, *function_.unit); }
  // A value that is known while compiling.
  static const Value* known(const Val* v) {
    return v->node && v->node->kind == N::kConstant ? &v->node->constant : nullptr;
  }
  static std::string dotted(const Ast& e);

  Function& function_;
  Graph& graph_;
  Resolver* resolver_;
  Block* block_;
  Frame* frame_ = nullptr;
  int loop_depth_ = 0;
  std::string stop_;  // the flag of the innermost loop: "$stop1"
  TypePtr returned_ = nullptr;
  int depth_ = 0;
  std::deque<Ast> made_;  // what stands for values in trees
};

}  // namespace tessera::jit
