#include "jit/block_runs.h"

#include <algorithm>
#include <string_view>

#include "jit/operator.h"
#include "tensor/dispatch/op.h"

namespace tessera::jit {
namespace {

constexpr size_t kMostInputs = 16, kMostOutputs = 4, kMostCalls = 24;

const Value* constant_of(const Val* v) {
  return v->node && v->node->kind == N::kConstant ? &v->node->constant : nullptr;
}

// What an operator of tensors and constants is to the elementwise engine. `tensors`: which inputs are tensors.
std::optional<compile::PointwiseCall> call_of(const Node& n, std::vector<Val*>* tensors) {
  if (n.kind != N::kOp || !n.op->info || !n.op->pure || n.out.size() != 1 || !n.out[0]->type->is(K::kTensor)) return {};
  const std::string_view rule = n.op->info->rule();
  if (!rule.starts_with("POINTWISE") && !rule.starts_with("SCALAR_OVERLOAD")) return {};
  for (Val* v : n.in) {
    if (v->type->is(K::kTensor))
      tensors->push_back(v);
    else if (!constant_of(v) || object_of(*constant_of(v)))
      return {};
  }
  if (tensors->size() > 4) return {};
  return compile::observe(
      [&](std::span<const Tensor> given) {
        std::vector<Value> args;
        size_t k = 0;
        for (const Val* v : n.in) args.push_back(v->type->is(K::kTensor) ? Value::of(given[k++]) : *constant_of(v));
        Value result;
        call_operator(*n.op, args.data(), &result);
        return result.tensor();
      },
      tensors->size());
}

class Collector {
 public:
  explicit Collector(const Block& b) : b_(b) {}

  std::vector<std::unique_ptr<BlockRun>> all() {
    for (at_ = 0; at_ < b_.nodes.size(); ++at_) {
      const Node& n = *b_.nodes[at_];
      if (take(n)) continue;
      if (!passes(n)) close();
    }
    close();
    return std::move(runs_);
  }

 private:
  // A value of the program: a tensor from outside or a part of one, or the result of a call.
  struct Operand {
    int input = -1, part = 0, parts = 1, call = -1;
  };
  struct Call {
    compile::PointwiseCall what;
    std::vector<Operand> operands;
    std::vector<const OpHeader*> ops;
    Val* result;  // null: a part of one
  };

  bool take(const Node& n) {
    if (n.kind == N::kListUnpack) return unpack(n);
    std::vector<Val*> tensors;
    auto what = call_of(n, &tensors);
    if (!what) return n.kind == N::kOp && n.op->name == "aten::chunk" && part(n);
    if (calls_.size() == kMostCalls) close();
    const size_t inputs = inputs_.size();
    Call c{std::move(*what), {}, {n.op->info->op}, n.out[0]};
    if (std::string_view(n.op->info->rule()).starts_with("SCALAR"))  // which calls the one of tensors
      if (const Operator* o = find_operator(n.op->name + ".Tensor"); o && o->info) c.ops.push_back(o->info->op);
    for (Val* v : tensors) {
      c.operands.push_back(operand(v));
      if (inputs_.size() > kMostInputs) {  // the next run begins here
        inputs_.resize(inputs);
        close();
        return take(n);
      }
    }
    begin();
    for (Val* v : tensors) ++used_[v];
    known_[n.out[0]].call = static_cast<int>(calls_.size());
    calls_.push_back(std::move(c));
    belongs();
    return true;
  }
  Operand operand(Val* v) {
    if (const auto it = known_.find(v); it != known_.end()) return it->second;
    const auto at = std::ranges::find(inputs_, v);
    Operand o;
    o.input = static_cast<int>(at - inputs_.begin());
    if (at == inputs_.end()) inputs_.push_back(v);
    return o;
  }

  // chunk(x, n, -1), whose list is unpacked by the next node and used by nobody else.
  bool part(const Node& n) {
    const Val* list = n.out[0];
    const Value *count = constant_of(n.in[1]), *dim = n.in.size() > 2 ? constant_of(n.in[2]) : nullptr;
    size_t next = at_ + 1;
    while (next < b_.nodes.size() && b_.nodes[next]->kind == N::kConstant) ++next;
    if (!count || !dim || dim->integer() != -1 || list->uses != 1 || next == b_.nodes.size() ||
        b_.nodes[next]->kind != N::kListUnpack || b_.nodes[next]->in[0] != list ||
        static_cast<int64_t>(b_.nodes[next]->out.size()) != count->integer() || count->integer() < 2 ||
        count->integer() > 4)
      return false;
    Val* whole = n.in[0];
    if (const auto it = known_.find(whole); it != known_.end() && (it->second.call < 0 || !divisible(whole))) close();
    begin();
    ++used_[whole];
    parted_ = whole;
    list_ = list;
    belongs();
    return true;
  }
  // Whether all calls serve this value alone, and are of whole tensors.
  bool divisible(const Val* whole) {
    for (const Call& c : calls_) {
      if (!c.result || (c.result == whole ? c.result->uses != 1 : used_[c.result] != c.result->uses)) return false;
      for (const Operand& o : c.operands)
        if (o.parts > 1) return false;
    }
    return calls_.size() <= 6;
  }
  bool unpack(const Node& n) {
    if (!list_ || n.in[0] != list_) return false;
    const int parts = static_cast<int>(n.out.size());
    list_ = nullptr;
    belongs();
    if (const auto it = known_.find(parted_); it == known_.end()) {
      Operand o = operand(parted_);
      o.parts = parts;
      for (Val* v : n.out) known_[v] = o, ++o.part;
      return true;
    }
    // what was computed of whole tensors is computed of their parts
    const std::vector<Call> old = std::move(calls_);
    calls_.clear();
    for (int k = 0; k < parts; ++k) {
      const int base = static_cast<int>(calls_.size());
      for (const Call& c : old) {
        Call p = c;
        p.result = nullptr;
        for (Operand& o : p.operands) {
          if (o.call >= 0)
            o.call += base;
          else
            o.part = k, o.parts = parts;
        }
        if (c.result == parted_) known_[n.out[static_cast<size_t>(k)]].call = static_cast<int>(calls_.size());
        calls_.push_back(std::move(p));
      }
    }
    return true;
  }

  // A node between calls that may as well be before them: it changes nothing and depends on none of them.
  bool passes(const Node& n) {
    if (n.kind == N::kConstant) return true;
    const bool plain = n.kind == N::kGetAttr || n.kind == N::kTupleIndex || n.kind == N::kTupleUnpack ||
                       (n.kind == N::kOp && n.op->builtin && n.op->pure);
    return plain &&
           std::ranges::none_of(n.in, [&](const Val* v) { return v == list_ || known_.contains(const_cast<Val*>(v)); });
  }

  void begin() {
    if (open_) return;
    open_ = true, first_ = at_;
  }
  void belongs() {
    member_.resize(at_ - first_ + 1);
    member_[at_ - first_] = true;
    last_ = at_ + 1;
  }
  void close() {
    if (open_ && calls_.size() >= 2 && !list_) finish();
    open_ = false, list_ = nullptr, parted_ = nullptr;
    calls_.clear(), inputs_.clear(), known_.clear(), used_.clear(), member_.clear();
  }
  void finish() {
    auto run = std::make_unique<BlockRun>();
    run->first = first_, run->last = last_;
    run->inputs = inputs_;
    run->member = member_;
    std::vector<int> results;
    std::unordered_map<int, int> loaded;
    for (const Call& c : calls_) {
      std::vector<int> in;
      for (const Operand& o : c.operands) {
        if (o.call >= 0) {
          in.push_back(results[static_cast<size_t>(o.call)]);
          continue;
        }
        const auto [it, is_new] = loaded.try_emplace((o.input * 8 + o.part) * 8 + o.parts, 0);
        if (is_new) it->second = run->program.input(o.input, o.part, o.parts);
        in.push_back(it->second);
      }
      results.push_back(run->program.call(c.what, in));
      run->ops.insert(run->ops.end(), c.ops.begin(), c.ops.end());
    }
    for (const auto& [v, o] : known_) {
      const int inside = used_.contains(v) ? used_[v] : 0;
      if (v->uses <= inside) continue;
      if (o.call < 0) return;  // a part itself is needed
      run->outputs.push_back(v);
      run->program.output(results[static_cast<size_t>(o.call)]);
    }
    if (run->outputs.empty() || run->outputs.size() > kMostOutputs) return;
    run->program.finish();
    runs_.push_back(std::move(run));
  }

  const Block& b_;
  size_t at_ = 0, first_ = 0, last_ = 0;
  bool open_ = false;
  const Val* list_ = nullptr;  // of a chunk that is not unpacked yet
  Val* parted_ = nullptr;
  std::vector<Call> calls_;
  std::vector<Val*> inputs_;
  std::unordered_map<Val*, Operand> known_;
  std::unordered_map<const Val*, int> used_;
  std::vector<bool> member_;
  std::vector<std::unique_ptr<BlockRun>> runs_;
};

}  // namespace

bool BlockRun::is_current() const {
  for (const OpHeader* op : ops)
    if (op->ext || op->forced_keys) return false;
  return true;
}

std::vector<std::unique_ptr<BlockRun>> find_runs(const Block& b) { return Collector(b).all(); }

}  // namespace tessera::jit
