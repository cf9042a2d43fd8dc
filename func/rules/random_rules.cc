// Random operators, by the level's mode: an error, the same numbers for the whole batch, or different ones.
#include <algorithm>

#include "func/rules/rules.h"
#include "tensor/ops/api.h"

namespace tessera::func {
namespace {

void check_allowed(const BatchCall& c) {
  TESSERA_CHECK(c.randomness != Randomness::kError,
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap (it was ",
                c.op.name, ")");
}
bool any_batched(const BatchCall& c) {
  return std::any_of(c.args.begin(), c.args.end(), [&](const Value& v) { return has_batch(v, c.level); });
}
bool takes_tensors(const BatchCall& c) {
  return std::any_of(c.plan.roles.begin(), c.plan.roles.end(), [](Role r) { return r == Role::kTensor; });
}
bool is_like(const BatchCall& c) {
  const std::string_view name = c.plan.schema.base_name();
  return name.size() > 5 && name.substr(name.size() - 5) == "_like";
}
void call_plain(const BatchCall& c, const std::vector<Value>& args) { call_outside(c, args, c.rets); }

// One element of what is batched: for numbers that are to be the same in all of them.
std::vector<Value> first_elements(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  for (size_t i = 0; i < args.size(); ++i) {
    if (!has_batch(args[i], c.level) || !args[i].is_tensor()) continue;
    const Part p = part(c, i);
    args[i] = Value::of(select(p.value, p.batch_dim, 0));
  }
  return args;
}

void in_place(const BatchCall& c) {
  const Part self = part(c, 0);
  if (c.randomness == Randomness::kSame) {
    TESSERA_CHECK(c.args.size() < 2 || !has_batch(c.args[1], c.level), "vmap: ", c.op.name,
                  " with an argument that is being vmapped over can't draw the same numbers for the whole batch; use "
                  "randomness='different'");
    if (!self.batched()) {
      call_plain(c, copy_args(c));
    } else {
      std::vector<Value> args = copy_args(c);
      const Tensor one = empty_like(select(self.value, self.batch_dim, 0));
      args[0] = Value::of(one);
      Value r;
      call_outside(c, args, &r);
      copy_(in_front(self, c.batch), one);
    }
  } else {
    TESSERA_CHECK(self.batched(),
                  "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will "
                  "appear like same randomness. Make the tensor from one that is being vmapped over, for example by "
                  "x.new_empty(...), or use an operator that returns a new tensor.");
    std::vector<Value> args = copy_args(c);
    args[0] = Value::of(in_front(self, c.batch));
    if (args.size() > 1 && args[1].is_tensor() && args[1].tensor().defined())
      args[1] = Value::of(in_front_padded(part(c, 1), self.rank()));
    Value r;
    call_outside(c, args, &r);
  }
  return_written(c);
}

// rand(size), randint(high, size), normal(0, 1, size); randperm(n) one by one.
void new_numbers(const BatchCall& c) {
  if (c.randomness == Randomness::kSame) return call_plain(c, copy_args(c));
  std::vector<Value> args = copy_args(c);
  bool sized = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (c.plan.roles[i] != Role::kSizes) continue;
    IntVector size{c.batch};
    size.insert(size.end(), args[i].int_list().begin(), args[i].int_list().end());
    args[i] = Value::of(std::move(size));
    sized = true;
  }
  if (!sized) return run_loop(c);
  call_plain(c, args);
  wrap_results(c);
}

void from_tensors(const BatchCall& c) {
  if (c.randomness == Randomness::kSame) {
    if (!any_batched(c)) return call_plain(c, copy_args(c));
    TESSERA_CHECK(is_like(c), "vmap: ", c.op.name,
                  " of a tensor that is being vmapped over can't draw the same numbers "
                  "for the whole batch; use randomness='different'");
    return call_plain(c, first_elements(c));
  }
  std::vector<Value> args = copy_args(c);
  int64_t rank = 0;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].is_tensor() && args[i].tensor().defined()) rank = std::max(rank, part(c, i).rank());
  bool rows = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].tag() == Value::Tag::kMemoryFormat && args[i].memory_format() != MemoryFormat::kPreserve)
      args[i] = Value::of(MemoryFormat::kContiguous);
    if (!args[i].is_tensor() || !args[i].tensor().defined()) continue;
    const Tensor t = in_front(part(c, i), c.batch);
    args[i] = Value::of(in_front_padded({t, 0}, rank));
    if (c.plan.schema.base_name() == "multinomial" && rank == 2) {
      args[i] = Value::of(folded({t, 0}, c.batch));
      rows = true;
    }
  }
  call_plain(c, args);
  if (rows) c.rets[0] = Value::of(unfolded(c.rets[0].tensor(), c.batch));
  wrap_results(c);
}

// The noise of one element for all of them.
void native_dropout_rule(const BatchCall& c) {
  const bool train = c.args[2].is_none() || c.args[2].boolean();
  if (!train) {
    std::vector<Value> args = copy_args(c);
    args[0] = Value::of(in_front(part(c, 0), c.batch));
    call_plain(c, args);
    return wrap_results(c);
  }
  check_allowed(c);
  if (c.randomness == Randomness::kDifferent || !any_batched(c)) return from_tensors(c);
  const Part p = part(c, 0);
  std::vector<Value> args = copy_args(c);
  args[0] = Value::of(ones_like(select(p.value, p.batch_dim, 0)));
  Value r[2];
  call_outside(c, args, r);
  put(c, 0, mul(in_front(p, c.batch), r[0].tensor()), 0);
  c.rets[1] = r[1];
}

// dropout(x): what is drawn has x's form, so x has to differ across the batch for the numbers to do so.
void dropout_rule(const BatchCall& c) {
  const bool train = c.args[2].boolean();
  if (train) check_allowed(c);
  std::vector<Value> args = copy_args(c);
  if (train && c.randomness == Randomness::kDifferent && !any_batched(c) && !c.op.mutable_args) {
    const Tensor x = tensor_at(c, 0);
    Tensor spread;
    {
      Hidden hidden;
      spread = make_batched(in_front({x, -1}, c.batch), 0, c.level);
    }
    args[0] = Value::of(spread);
  }
  decompose(c, args);
}

// Its numbers depend on where a row is in the batch: one call after the other, each with numbers of its own.
void attention_dropout_rule(const BatchCall& c) {
  check_allowed(c);
  if (c.randomness == Randomness::kSame) {
    TESSERA_CHECK(!any_batched(c), "vmap: ", c.op.name,
                  " of a tensor that is being vmapped over can't draw the same numbers for the whole batch; use "
                  "randomness='different'");
    return call_plain(c, copy_args(c));
  }
  run_loop(c);
}

constexpr WrittenRule kRules[] = {
    {"_attention_dropout", Family::kRandom, attention_dropout_rule},
    {"_standard_gamma_grad", Family::kFront},
    {"native_dropout_backward", Family::kDecompose},
    {"native_dropout", Family::kRandom, native_dropout_rule},
    {"dropout", Family::kRandom, dropout_rule, true},
    {"feature_dropout", Family::kRandom, dropout_rule, true},
    {"alpha_dropout", Family::kRandom, dropout_rule, true},
    {"feature_alpha_dropout", Family::kRandom, dropout_rule, true},
};

}  // namespace

void random_operator(const BatchCall& c) {
  check_allowed(c);
  if (c.op.mutable_args) return in_place(c);
  if (!takes_tensors(c)) return new_numbers(c);
  from_tensors(c);
}

void random_composite(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  if (c.randomness == Randomness::kDifferent && !any_batched(c) && !c.op.mutable_args) {
    for (Value& v : args) {
      if (!v.is_tensor() || !v.tensor().defined()) continue;
      const Tensor x = v.tensor();
      Hidden hidden;
      v = Value::of(make_batched(in_front({x, -1}, c.batch), 0, c.level));
      break;
    }
  }
  decompose(c, args);
}

std::span<const WrittenRule> random_rules() { return kRules; }

}  // namespace tessera::func
