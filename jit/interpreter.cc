#include "jit/interpreter.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <span>
#include <unordered_map>

#include "jit/block_runs.h"
#include "jit/builtins/builtins.h"
#include "jit/operator.h"
#include "jit/passes.h"
#include "jit/print.h"
#include "jit/tasks.h"

namespace tessera::jit {
namespace {

enum class I : uint8_t {
  kOp,      // any operator: operands to results
  kKernel,  // one of the registry that takes its values as they are
  kIntAdd,
  kIntSub,
  kIntMul,
  kIntLt,
  kIntGt,
  kIntLe,
  kIntGe,
  kIntEq,
  kIntNe,
  kNot,
  kAnd,
  kMove,  // dst = src
  kTake,  // the same, src is not needed any more
  kDrop,
  kBlocks,  // runs[dst]; where it does what the instructions up to the target do, they are left out
  kJump,
  kJumpIfNot,
  kLoopTest,  // dst = trip < trips && condition; operands: trip, trips, condition
  kList,
  kTuple,
  kDict,
  kUnpack,
  kTupleIndex,
  kTupleSlice,
  kGetAttr,
  kSetAttr,
  kCall,
  kCallMethod,
  kCreate,
  kRaise,
  kIsInstance,
  kFork,
  kWait,
  kHostCall,
  kEnumName,
  kEnumValue,
  kPrint,
  kEnter,
  kExit,
  kReturn,
};

struct Instruction {
  I op;
  uint16_t n = 0;     // operands
  uint16_t rets = 0;  // results: dst, dst + 1 ...
  int32_t dst = -1;
  int32_t at = 0;      // first operand
  int32_t target = 0;  // of a jump; other numbers
  const Node* node = nullptr;
};

}  // namespace

// Operands are registers, or constants: ~index.
struct Code {
  struct Run {
    std::unique_ptr<BlockRun> run;
    std::vector<int32_t> inputs, outputs;
  };
  std::vector<Instruction> instructions;
  std::vector<int32_t> operands;
  std::vector<Value> constants;
  std::vector<Run> runs;
  std::unique_ptr<Graph> graph;  // what it was made of
  int registers = 0;
  int result = 0;
  size_t args = 0;
};

namespace {

class Generator {
 public:
  Generator(Code& code, Graph& g) : code_(code), g_(g) {}

  void run() {
    code_.constants.emplace_back();  // the first one's place, ~0, would be that of a value without
    count_uses(g_.top);
    find_fixed_lists(g_.top);
    for (Val* p : g_.top->params) p->reg = code_.registers++;
    code_.args = g_.top->params.size();
    block(g_.top, {});
    Instruction& r = emit(I::kReturn, nullptr);
    r.at = add_operands({g_.top->returns[0]});
    r.n = 1;
  }

 private:
  Instruction& emit(I op, const Node* n) {
    code_.instructions.push_back({});
    Instruction& i = code_.instructions.back();
    i.op = op, i.node = n;
    return i;
  }
  int32_t here() const { return static_cast<int32_t>(code_.instructions.size()); }
  int32_t operand(Val* v) {
    if (v->reg != -1) return v->reg;
    TESSERA_CHECK(
        v->node && (v->node->kind == N::kConstant || v->node->kind == N::kUninitialized || v->node->kind == N::kList),
        "the graph uses %", v->name.empty() ? std::to_string(v->id) : v->name, " before it is computed");
    code_.constants.push_back(v->node->kind == N::kConstant ? v->node->constant
                              : v->node->kind == N::kList   ? fixed_list(v)
                                                            : Value());
    v->reg = ~static_cast<int32_t>(code_.constants.size() - 1);
    return v->reg;
  }
  int32_t add_operands(const std::vector<Val*>& all) {
    std::vector<int32_t> found;
    for (Val* v : all) found.push_back(operand(v));
    const int32_t at = static_cast<int32_t>(code_.operands.size());
    code_.operands.insert(code_.operands.end(), found.begin(), found.end());
    return at;
  }
  int32_t new_register(Val* v) {
    v->reg = code_.registers++;
    return v->reg;
  }

  // Lists of constants that only kernels read are made once.
  void find_fixed_lists(Block* b) {
    std::unordered_map<const Val*, bool> ok;
    const auto look = [&](auto& self, Block* block) -> void {
      for (Node* n : block->nodes) {
        if (n->kind == N::kList && n->out[0]->type->is(K::kList)) {
          bool fixed = n->out[0]->type->elem()->is(K::kInt) || n->out[0]->type->elem()->is(K::kFloat) ||
                       n->out[0]->type->elem()->is(K::kBool);
          for (const Val* v : n->in) fixed = fixed && v->node && v->node->kind == N::kConstant;
          ok[n->out[0]] = fixed;
        }
        const bool reads = n->kind == N::kOp && n->op->info && !n->op->writes;
        for (const Val* v : n->in)
          if (!reads)
            if (const auto it = ok.find(v); it != ok.end()) it->second = false;
        for (Block* inner : n->blocks) self(self, inner);
      }
      for (const Val* v : block->returns)
        if (const auto it = ok.find(v); it != ok.end()) it->second = false;
    };
    look(look, b);
    for (const auto& [v, fixed] : ok)
      if (fixed) fixed_.emplace(v, true);
  }
  static Value fixed_list(const Val* v) {
    std::vector<Value> items;
    for (const Val* x : v->node->in) items.push_back(x->node->constant);
    return make_value<List>(v->type->elem(), std::move(items));
  }

  static bool holds_memory(TypePtr t) {
    return !(t->is_number() || t->is(K::kBool) || t->is(K::kNone) || t->is(K::kDevice));
  }
  // Values of a block whose last use is a node of it, or of a block inside.
  static void uses_in(const Node* n, std::unordered_map<Val*, const Node*>& last, const Node* top) {
    for (Val* v : n->in) last[v] = top;
    for (const Block* b : n->blocks) {
      for (const Node* inner : b->nodes) uses_in(inner, last, top);
      for (Val* v : b->returns) last[v] = top;
    }
  }

  void block(Block* b, const std::vector<Val*>& keep) {
    std::unordered_map<Val*, const Node*> last;
    for (Node* n : b->nodes) uses_in(n, last, n);
    for (Val* v : b->returns) last.erase(v);
    for (Val* v : keep) last.erase(v);
    std::unordered_map<const Node*, std::vector<Val*>> ends;
    for (Node* n : b->nodes)
      for (Val* v : n->out)
        if (holds_memory(v->type))
          if (const auto it = last.find(v); it != last.end()) ends[it->second].push_back(v);
    if (!b->owner)
      for (Val* v : b->params)
        if (holds_memory(v->type))
          if (const auto it = last.find(v); it != last.end()) ends[it->second].push_back(v);
    // `which`: of the values that end here, those that it says
    const auto drop = [&](const Node* n, auto&& which) {
      if (const auto it = ends.find(n); it != ends.end())
        for (Val* v : it->second)
          if (v->reg >= 0 && which(v)) emit(I::kDrop, n).dst = v->reg;
      if (n->kind == N::kOp)  // results that nobody reads
        for (Val* v : n->out)
          if (!v->uses && v->reg >= 0 && holds_memory(v->type)) emit(I::kDrop, n).dst = v->reg;
    };
    std::vector<std::unique_ptr<BlockRun>> runs = find_runs(*b);
    size_t next = 0;
    for (size_t i = 0; i < b->nodes.size(); ++i) {
      if (next < runs.size() && runs[next]->first == i) {
        i = runs[next]->last - 1;
        blocks(b, std::move(runs[next++]), drop);
        continue;
      }
      node(*b->nodes[i]);
      drop(b->nodes[i], [](const Val*) { return true; });
    }
  }

  // A run: what does not belong to it, its program, and its operators for tensors that the program does not take.
  template <class Drop>
  void blocks(Block* b, std::unique_ptr<BlockRun> run, const Drop& drop) {
    const std::span<Node* const> nodes(b->nodes.data() + run->first, run->last - run->first);
    for (size_t k = 0; k < nodes.size(); ++k)
      if (!run->member[k]) node(*nodes[k]);
    Code::Run made;
    for (Val* v : run->inputs) made.inputs.push_back(operand(v));
    const size_t at = code_.instructions.size();
    emit(I::kBlocks, nodes[0]).dst = static_cast<int32_t>(code_.runs.size());
    const auto inside = [&](const Val* v) {
      const auto found = std::ranges::find(nodes, v->node);
      return found != nodes.end() && run->member[static_cast<size_t>(found - nodes.begin())];
    };
    for (size_t k = 0; k < nodes.size(); ++k)
      if (run->member[k]) node(*nodes[k]), drop(nodes[k], inside);
    code_.instructions[at].target = here();
    for (const Node* n : nodes) drop(n, [&](const Val* v) { return !inside(v); });
    for (const Val* v : run->outputs) made.outputs.push_back(v->reg);
    made.run = std::move(run);
    code_.runs.push_back(std::move(made));
  }

  // Values into registers, all at once: a source that is also a target is saved first.
  void moves(const std::vector<int32_t>& to, const std::vector<Val*>& from, const Block* owner) {
    std::vector<int32_t> source;
    for (Val* v : from) source.push_back(operand(v));
    std::vector<int32_t> saved = source;
    for (size_t i = 0; i < to.size(); ++i)
      for (size_t k = 0; k < i; ++k)
        if (source[i] == to[k] && saved[i] == source[i]) {
          const int32_t t = code_.registers++;
          saved[i] = t;
        }
    for (size_t i = 0; i < to.size(); ++i)
      if (saved[i] != source[i]) move(saved[i], source[i], false);
    for (size_t i = 0; i < to.size(); ++i) {
      if (saved[i] == to[i]) continue;
      size_t again = 0;
      for (size_t k = 0; k < saved.size(); ++k) again += saved[k] == saved[i];
      const bool own = saved[i] != source[i] ||
                       (from[i]->node && from[i]->node->owner == owner && saved[i] >= 0 && from[i]->uses == 1);
      move(to[i], saved[i], own && again == 1);
    }
  }
  void move(int32_t to, int32_t from, bool take) {
    Instruction& i = emit(take ? I::kTake : I::kMove, nullptr);
    i.dst = to;
    i.at = static_cast<int32_t>(code_.operands.size());
    i.n = 1;
    code_.operands.push_back(from);
  }

  void simple(I op, Node& n, int32_t extra = 0) {
    const int32_t at = add_operands(n.in);
    const int32_t first = code_.registers;
    for (Val* v : n.out) new_register(v);
    Instruction& i = emit(op, &n);
    i.at = at, i.n = static_cast<uint16_t>(n.in.size());
    i.dst = n.out.empty() ? -1 : first;
    i.rets = static_cast<uint16_t>(n.out.size());
    i.target = extra;
  }

  void node(Node& n) {
    switch (n.kind) {
      case N::kConstant:
      case N::kUninitialized:
        return;
      case N::kEnter:
        return simple(I::kEnter, n);
      case N::kExit:
        return simple(I::kExit, n);
      case N::kCast:
        n.out[0]->reg = operand(n.in[0]);
        // the value lives as long as both names
        if (n.out[0]->reg >= 0) {
          const int32_t from = n.out[0]->reg;
          move(new_register(n.out[0]), from, false);
        }
        return;
      case N::kList:
        if (fixed_.contains(n.out[0])) return;
        return simple(I::kList, n);
      case N::kTuple:
        return simple(I::kTuple, n);
      case N::kDict:
        return simple(I::kDict, n);
      case N::kTupleUnpack:
      case N::kListUnpack:
        return simple(I::kUnpack, n, n.kind == N::kListUnpack);
      case N::kTupleIndex:
        return simple(I::kTupleIndex, n);
      case N::kTupleSlice:
        return simple(I::kTupleSlice, n);
      case N::kGetAttr:
      case N::kSetAttr: {
        const ClassDef* def = n.in[0]->type->def;
        const int slot = def ? def->slot(n.name) : -1;
        TESSERA_CHECK(slot >= 0, "there is no attribute '", n.name, "' in ", n.in[0]->type->annotation());
        return simple(n.kind == N::kGetAttr ? I::kGetAttr : I::kSetAttr, n, slot);
      }
      case N::kCallMethod:
        return simple(n.function ? I::kCall : I::kCallMethod, n);
      case N::kCallFunction:
        return simple(I::kCall, n);
      case N::kCreate:
        return simple(I::kCreate, n);
      case N::kRaise:
        return simple(I::kRaise, n);
      case N::kIsInstance:
        return simple(I::kIsInstance, n);
      case N::kFork:
        return simple(I::kFork, n);
      case N::kWait:
        return simple(I::kWait, n);
      case N::kHostCall:
        return simple(I::kHostCall, n);
      case N::kEnumName:
        return simple(I::kEnumName, n);
      case N::kEnumValue:
        return simple(I::kEnumValue, n);
      case N::kPrint:
        return simple(I::kPrint, n);
      case N::kOp:
        return op(n);
      case N::kIf:
        return condition(n);
      case N::kLoop:
        return loop(n);
      default:
        throw Error(str_cat("a node ", n.kind_name(), " cannot be run"));
    }
  }
  void op(Node& n) {
    const Operator& o = *n.op;
    if (o.builtin && n.in.size() == 2 && n.in[0]->type->is(K::kInt) && n.in[1]->type->is(K::kInt)) {
      constexpr std::pair<const char*, I> fast[] = {
          {"aten::add", I::kIntAdd}, {"aten::sub", I::kIntSub}, {"aten::mul", I::kIntMul},
          {"aten::lt", I::kIntLt},   {"aten::gt", I::kIntGt},   {"aten::le", I::kIntLe},
          {"aten::ge", I::kIntGe},   {"aten::eq", I::kIntEq},   {"aten::ne", I::kIntNe}};
      for (const auto& [name, i] : fast)
        if (o.name == name) return simple(i, n);
    }
    if (o.name == "aten::__not__") return simple(I::kNot, n);
    bool direct = o.info && o.rets.size() <= 3;
    for (const OpArg& a : o.args) direct = direct && !needs_conversion(a);
    for (TypePtr t : o.rets) direct = direct && (t->is(K::kTensor) || t->is(K::kBool));
    // arguments that are converted are fine where they are None
    if (o.info && !direct) {
      direct = true;
      for (TypePtr t : o.rets) direct = direct && (t->is(K::kTensor) || t->is(K::kBool));
      for (size_t i = 0; i < o.args.size(); ++i)
        if (needs_conversion(o.args[i])) {
          const Node* from = n.in[i]->node;
          direct = direct && from && from->kind == N::kConstant && from->constant.is_none();
        }
    }
    simple(direct ? I::kKernel : I::kOp, n);
  }
  void condition(Node& n) {
    const int32_t at = add_operands({n.in[0]});
    std::vector<int32_t> to;
    for (Val* v : n.out) to.push_back(new_register(v));
    const int32_t test = here();
    Instruction& t = emit(I::kJumpIfNot, &n);
    t.at = at, t.n = 1;
    int32_t over = 0;
    for (size_t i = 0; i < 2; ++i) {
      if (i) code_.instructions[static_cast<size_t>(test)].target = here();
      block(n.blocks[i], {});
      moves(to, n.blocks[i]->returns, n.blocks[i]);
      if (!i) {
        over = here();
        emit(I::kJump, &n);
      }
    }
    code_.instructions[static_cast<size_t>(over)].target = here();
  }
  void loop(Node& n) {
    Block* b = n.blocks[0];
    const int32_t trip = new_register(b->params[0]);
    const int32_t go = code_.registers++, one = constant_one();
    std::vector<int32_t> carried;
    for (size_t i = 1; i < b->params.size(); ++i) carried.push_back(new_register(b->params[i]));
    move(trip, constant(Value::of(int64_t{0})), false);
    const int32_t trips = operand(n.in[0]);
    int32_t start = operand(n.in[1]);
    move(go, start, false);
    for (size_t i = 0; i < carried.size(); ++i) move(carried[i], operand(n.in[2 + i]), false);
    const int32_t test = here();
    Instruction& t = emit(I::kLoopTest, &n);
    t.at = static_cast<int32_t>(code_.operands.size()), t.n = 3;
    for (int32_t o : {trip, trips, go}) code_.operands.push_back(o);
    block(b, {});
    const bool always =
        b->returns[0]->node && b->returns[0]->node->kind == N::kConstant && b->returns[0]->node->constant.boolean();
    std::vector<int32_t> to = carried;
    std::vector<Val*> from(b->returns.begin() + 1, b->returns.end());
    if (!always) to.push_back(go), from.push_back(b->returns[0]);
    moves(to, from, b);
    Instruction& next = emit(I::kIntAdd, &n);
    next.dst = trip, next.rets = 1;
    next.at = static_cast<int32_t>(code_.operands.size()), next.n = 2;
    code_.operands.push_back(trip);
    code_.operands.push_back(one);
    emit(I::kJump, &n).target = test;
    code_.instructions[static_cast<size_t>(test)].target = here();
    for (size_t i = 0; i < n.out.size(); ++i) {
      new_register(n.out[i]);
      move(n.out[i]->reg, carried[i], true);
    }
  }
  int32_t constant(Value v) {
    code_.constants.push_back(std::move(v));
    return ~static_cast<int32_t>(code_.constants.size() - 1);
  }
  int32_t constant_one() { return constant(Value::of(int64_t{1})); }

  Code& code_;
  Graph& g_;
  std::unordered_map<const Val*, bool> fixed_;
};

// --- running ---

struct Frame {
  const Code& code;
  Value* r;
  const Value& operand(const Instruction& i, size_t k) const {
    const int32_t o = code.operands[static_cast<size_t>(i.at) + k];
    return o >= 0 ? r[o] : code.constants[static_cast<size_t>(~o)];
  }
};

Value execute(const Code& code, const Value* args);

class Raised : public Error {
 public:
  Raised(const std::string& message, std::string cls) : Error(message), cls(std::move(cls)) {}
  std::string cls;
};

// What a thread runs as a task: its lines in messages have no other name, since the caller went on.
thread_local const Function* task_function = nullptr;

std::string name_of(const Function* f) { return !f ? "" : f == task_function ? "<forked function>" : f->name; }
std::string trace_of(const Node* n) {
  std::vector<const Node*> chain;
  for (; n; n = n->caller) chain.push_back(n);
  std::string s;
  for (size_t k = chain.size(); k-- > 0;)
    if (chain[k]->range.source) s += chain[k]->range.excerpt(name_of(chain[k]->function_of));
  return s;
}
constexpr const char* kHeading =
    "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most recent call "
    "last):\n";

[[noreturn]] void add_trace(const Instruction& at) {
  const std::string trace = trace_of(at.node);
  const auto whole = [&](const std::string& last) { return str_cat(kHeading, trace, last, "\n"); };
  try {
    throw;
  } catch (const RunError& e) {
    const std::string text = e.what();
    const std::string rest = text.starts_with(kHeading) ? text.substr(std::strlen(kHeading)) : text;
    throw RunError(str_cat(kHeading, trace, rest), e.plain(), e.raised());
  } catch (const Raised& e) {
    throw RunError(whole(str_cat(e.cls.empty() ? "RuntimeError" : e.cls, ": ", e.what())), e.what(), true);
  } catch (const NotImplementedError&) { throw; } catch (const std::exception& e) {
    throw RunError(whole(str_cat("RuntimeError: ", e.what())), e.what(), false);
  }
}

Value item_of(const Value& tuple, const Value& index) {
  const auto& items = as<Tuple>(tuple).items;
  return items[static_cast<size_t>(wrap_index(index.integer(), items.size(), "tuple"))];
}

void build(const Instruction& i, Frame& f) {
  Value& out = f.r[i.dst];
  TypePtr t = i.node->out[0]->type;
  if (t->is(K::kOptional)) t = t->elem();
  if (i.op == I::kDict) {
    auto d = make_intrusive<Dict>(t->elem(0), t->elem(1));
    for (size_t k = 0; k + 1 < i.n; k += 2) d->set(f.operand(i, k), f.operand(i, k + 1));
    out = wrap(std::move(d));
    return;
  }
  std::vector<Value> items;
  items.reserve(i.n);
  for (size_t k = 0; k < i.n; ++k) items.push_back(f.operand(i, k));
  out = i.op == I::kList ? make_value<List>(t->elem(), std::move(items)) : make_value<Tuple>(t, std::move(items));
}
void unpack(const Instruction& i, Frame& f) {
  const Value whole = f.operand(i, 0);
  const auto& items = i.target ? as<List>(whole).items : as<Tuple>(whole).items;
  TESSERA_CHECK(items.size() == i.rets, "Expected ", i.rets, " elements in a list but found ", items.size());
  for (size_t k = 0; k < i.rets; ++k) f.r[static_cast<size_t>(i.dst) + k] = items[k];
}
std::vector<Value> arguments_of(const Instruction& i, Frame& f) {
  std::vector<Value> args;
  args.reserve(i.n);
  for (size_t k = 0; k < i.n; ++k) args.push_back(f.operand(i, k));
  return args;
}
Value call_of(Function& fn, const Instruction& i, Frame& f) {
  const std::vector<Value> args = arguments_of(i, f);
  return run(fn, args.data(), args.size());
}

IntrusivePtr<Task> launch_call(Function& fn, const Instruction& i, Frame& f) {
  if (!fn.is_native) fn.code();  // compiled here: tasks need no lock for it
  return launch([&fn, args = arguments_of(i, f)] {
    struct Restore {
      const Function* outer = task_function;
      ~Restore() { task_function = outer; }
    } restore;
    task_function = &fn;
    return run(fn, args.data(), args.size());
  });
}
// The message of a task stands whole behind the line that waited for it.
Value wait_for(const FutureObject& future) {
  try {
    return future.wait();
  } catch (const RunError& e) { throw Error(e.what()); }
}

void rare(const Instruction& i, Frame& f) {
  switch (i.op) {
    case I::kList:
    case I::kTuple:
    case I::kDict:
      return build(i, f);
    case I::kUnpack:
      return unpack(i, f);
    case I::kTupleIndex:
      f.r[i.dst] = item_of(f.operand(i, 0), f.operand(i, 1));
      return;
    case I::kTupleSlice: {
      const auto& items = as<Tuple>(f.operand(i, 0)).items;
      f.r[i.dst] = make_value<Tuple>(
          i.node->out[0]->type, std::vector<Value>(items.begin() + i.node->ints[0], items.begin() + i.node->ints[1]));
      return;
    }
    case I::kSetAttr: {
      auto& o = as<Instance>(f.operand(i, 0));
      if (o.slots.size() <= static_cast<size_t>(i.target)) o.slots.resize(o.def->attributes.size());
      o.slots[static_cast<size_t>(i.target)] = f.operand(i, 1);
      return;
    }
    case I::kCall: {
      Value v = call_of(*i.node->function, i, f);
      f.r[i.dst] = std::move(v);
      return;
    }
    case I::kCallMethod: {
      Function* fn = as<Instance>(f.operand(i, 0)).def->method(i.node->name);
      TESSERA_CHECK(fn, "there is no method '", i.node->name, "'");
      f.r[i.dst] = call_of(*fn, i, f);
      return;
    }
    case I::kCreate:
      f.r[i.dst] = make_value<Instance>(i.node->out[0]->type->def);
      return;
    case I::kRaise:
      throw Raised(std::string(f.operand(i, 0).string()),
                   f.operand(i, 1).is_none() ? "" : std::string(f.operand(i, 1).string()));
    case I::kIsInstance: {
      bool is = false;
      for (TypePtr t : i.node->types) is = is || is_instance(f.operand(i, 0), t);
      f.r[i.dst] = Value::of(is);
      return;
    }
    case I::kFork: {
      TypePtr elem = i.node->out[0]->type->elem();
      auto future = make_intrusive<FutureObject>(elem);
      if (i.node->function)
        future->task = launch_call(*i.node->function, i, f);
      else
        future->value = f.operand(i, 0);
      f.r[i.dst] = wrap(std::move(future));
      return;
    }
    case I::kWait:
      f.r[i.dst] = wait_for(as<FutureObject>(f.operand(i, 0)));
      return;
    case I::kHostCall: {
      std::vector<Value> args;
      for (size_t k = 0; k < i.n; ++k) args.push_back(f.operand(i, k));
      f.r[i.dst] = i.node->host->call(args.data(), args.size(), i.node->out[0]->type);
      return;
    }
    case I::kEnumName:
      f.r[i.dst] = Value::of(as<EnumItem>(f.operand(i, 0)).item().name);
      return;
    case I::kEnumValue:
      f.r[i.dst] = as<EnumItem>(f.operand(i, 0)).item().value;
      return;
    case I::kPrint: {
      std::string s;
      for (size_t k = 0; k < i.n; ++k) s += (k ? " " : "") + shown(f.operand(i, k));
      print_line(s + "\n");
      return;
    }
    default:
      return;
  }
}

// The object of a with statement whose body raised; what leaving it raises is not told.
void leave(const Value& object) {
  try {
    const Value args[] = {object, Value(), Value(), Value()};
    run(*as<Instance>(object).def->method("__exit__"), args, 4);
  } catch (const std::exception&) {}
}

void call_op(const Instruction& i, Frame& f) {
  constexpr size_t kRoom = 24;
  const Operator& o = *i.node->op;
  alignas(Value) char room[sizeof(Value) * kRoom];
  std::unique_ptr<char[]> more;
  char* at = room;
  if (i.n > kRoom) more = std::make_unique<char[]>(sizeof(Value) * i.n), at = more.get();
  for (size_t k = 0; k < i.n; ++k)  // borrowed: never destroyed
    std::memcpy(at + k * sizeof(Value), static_cast<const void*>(&f.operand(i, k)), sizeof(Value));
  const Value* args = reinterpret_cast<const Value*>(at);
  Value* rets = i.dst >= 0 ? f.r + i.dst : nullptr;
  if (i.op == I::kKernel) return o.info->adapter->call(*o.info->op, nullptr, args, rets);
  if (o.builtin) {
    Value own[4];
    Value* to = o.rets.empty() ? nullptr : own;
    o.builtin(args, i.n, to, o);
    for (size_t k = 0; k < i.rets; ++k) rets[k] = std::move(own[k]);
    return;
  }
  call_operator(o, args, rets);
}

bool run_blocks(const Code::Run& r, Frame& f) {
  const Tensor* in[24];
  Tensor out[4];
  for (size_t k = 0; k < r.inputs.size(); ++k) {
    const int32_t o = r.inputs[k];
    in[k] = &(o >= 0 ? f.r[o] : f.code.constants[static_cast<size_t>(~o)]).tensor();
  }
  if (!r.run->is_current() || !r.run->program.run({in, r.inputs.size()}, out)) return false;
  for (size_t k = 0; k < r.outputs.size(); ++k) f.r[r.outputs[k]] = Value::of(std::move(out[k]));
  return true;
}

Value execute(const Code& code, const Value* args) {
  const auto registers = std::make_unique<Value[]>(static_cast<size_t>(code.registers) + 1);
  Frame f{code, registers.get()};
  for (size_t k = 0; k < code.args; ++k) f.r[k] = args[k];
  const Instruction* const first = code.instructions.data();
  const Instruction* pc = first;
  std::vector<Value> entered;  // by with statements
  try {
    while (true) {
      const Instruction& i = *pc++;
      const auto x = [&]() { return f.operand(i, 0).integer(); };
      const auto y = [&]() { return f.operand(i, 1).integer(); };
      switch (i.op) {
        case I::kOp:
        case I::kKernel:
          call_op(i, f);
          break;
        case I::kIntAdd:
          f.r[i.dst] = Value::of(static_cast<int64_t>(static_cast<uint64_t>(x()) + static_cast<uint64_t>(y())));
          break;
        case I::kIntSub:
          f.r[i.dst] = Value::of(static_cast<int64_t>(static_cast<uint64_t>(x()) - static_cast<uint64_t>(y())));
          break;
        case I::kIntMul:
          f.r[i.dst] = Value::of(static_cast<int64_t>(static_cast<uint64_t>(x()) * static_cast<uint64_t>(y())));
          break;
        case I::kIntLt:
          f.r[i.dst] = Value::of(x() < y());
          break;
        case I::kIntGt:
          f.r[i.dst] = Value::of(x() > y());
          break;
        case I::kIntLe:
          f.r[i.dst] = Value::of(x() <= y());
          break;
        case I::kIntGe:
          f.r[i.dst] = Value::of(x() >= y());
          break;
        case I::kIntEq:
          f.r[i.dst] = Value::of(x() == y());
          break;
        case I::kIntNe:
          f.r[i.dst] = Value::of(x() != y());
          break;
        case I::kNot:
          f.r[i.dst] = Value::of(!f.operand(i, 0).boolean());
          break;
        case I::kMove:
          f.r[i.dst] = f.operand(i, 0);
          break;
        case I::kTake:
          f.r[i.dst] = std::move(const_cast<Value&>(f.operand(i, 0)));
          break;
        case I::kDrop:
          f.r[i.dst] = Value();
          break;
        case I::kBlocks:
          if (run_blocks(code.runs[static_cast<size_t>(i.dst)], f)) pc = first + i.target;
          break;
        case I::kJump:
          pc = first + i.target;
          break;
        case I::kJumpIfNot:
          if (!f.operand(i, 0).boolean()) pc = first + i.target;
          break;
        case I::kLoopTest:
          if (!(x() < y() && f.operand(i, 2).boolean())) pc = first + i.target;
          break;
        case I::kGetAttr: {
          auto& o = as<Instance>(f.operand(i, 0));
          if (o.slots.size() <= static_cast<size_t>(i.target)) [[unlikely]]
            o.slots.resize(o.def->attributes.size());
          f.r[i.dst] = o.slots[static_cast<size_t>(i.target)];
          break;
        }
        case I::kEnter:
          entered.push_back(f.operand(i, 0));
          break;
        case I::kExit:
          entered.pop_back();
          break;
        case I::kReturn:
          return f.operand(i, 0);
        default:
          rare(i, f);
      }
    }
  } catch (...) {
    for (; !entered.empty(); entered.pop_back()) leave(entered.back());
    add_trace(pc[-1]);
  }
}

struct RestoreGrad {
  bool on = thread_state.grad_enabled;
  ~RestoreGrad() { thread_state.grad_enabled = on; }
};

std::unique_ptr<Code> generate(std::unique_ptr<Graph> g) {
  auto code = std::make_unique<Code>();
  optimize(*g);
  code->graph = std::move(g);
  Generator(*code, *code->graph).run();
  return code;
}

}  // namespace

std::unique_ptr<Code> compile_code(Function& f) { return generate(copy_graph(f.ensure_graph())); }

Value run(Function& f, const Value* args, size_t n) {
  if (f.is_native) {
    TESSERA_CHECK(f.args.size() == n, f.qualified, "() takes ", f.args.size(), " arguments, got ", n);
    return f.host->call(args, n, f.ret);
  }
  const Code& code = f.code();
  TESSERA_CHECK(code.args == n, f.name, "() takes ", code.args, " arguments, got ", n);
  return execute(code, args);
}

Value run_graph(const Graph& g, const Value* args, size_t) { return execute(*generate(copy_graph(g)), args); }

Function::Function() = default;
Function::~Function() = default;
const Code& Function::code() {
  if (const Code* c = ready_.load(std::memory_order_acquire)) return *c;
  const std::lock_guard lock(compile_lock());
  if (!code_) {
    ensure_graph();
    code_ = compile_code(*this);
    ready_.store(code_.get(), std::memory_order_release);
  }
  return *code_;
}
void Function::drop_code() {
  ready_.store(nullptr, std::memory_order_release);
  code_.reset();
}

Value call(Function& f, std::vector<Value> args) {
  f.ensure_schema();
  for (size_t k = args.size(); k < f.args.size(); ++k) {
    TESSERA_CHECK(f.args[k].has_default, f.name, "() is missing value for argument '", f.args[k].name,
                  "'. Declaration: ", f.schema());
    args.push_back(f.args[k].default_value);
  }
  const RestoreGrad restore;
  return run(f, args.data(), args.size());
}

Value call(Function& f, std::vector<Value> args, const std::vector<std::pair<std::string, Value>>& named) {
  f.ensure_schema();
  const size_t hidden = f.owner && !f.is_static ? 1 : 0;  // the instance, which nobody counts
  TESSERA_CHECK(args.size() <= f.args.size(), f.name, "() expected at most ", f.args.size() - hidden,
                " argument(s) but received ", args.size() - hidden, " argument(s). Declaration: ", f.schema());
  size_t used = 0;
  for (size_t k = args.size(); k < f.args.size() && used < named.size(); ++k) {
    const auto it = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == f.args[k].name; });
    TESSERA_CHECK(it != named.end() || f.args[k].has_default, f.name, "() is missing value for argument '",
                  f.args[k].name, "'. Declaration: ", f.schema());
    args.push_back(it != named.end() ? it->second : f.args[k].default_value);
    used += it != named.end();
  }
  for (const auto& [name, value] : named) {
    const bool known = std::any_of(f.args.begin(), f.args.end(), [&](const Param& p) { return p.name == name; });
    TESSERA_CHECK(known, "Unknown keyword argument '", name, "' for operator '", f.name, "'. Schema: ", f.schema());
  }
  TESSERA_CHECK(used == named.size(), f.name, "() got an argument by position and by name. Declaration: ", f.schema());
  for (size_t k = hidden; k < args.size(); ++k)
    TESSERA_CHECK(is_instance(args[k], f.args[k].type), f.name, "() Expected a value of type '",
                  f.args[k].type->annotation(), "' for argument '", f.args[k].name, "' but instead found type '",
                  type_of(args[k])->annotation(), "'.\nPosition: ", k, "\nDeclaration: ", f.schema());
  return call(f, std::move(args));
}

}  // namespace tessera::jit
