#include "func/tape.h"

#include <algorithm>

#include "func/arguments.h"
#include "func/levels.h"
#include "func/wrapper.h"
#include "tensor/dispatch/registry.h"

namespace tessera::func {
namespace {

uint32_t version_of(const Tensor& t) { return t.impl()->has_version() ? t.version() : 0; }

Tensor wrapped(const Tensor& value, const IntrusivePtr<Tape>& tape, int64_t level, std::vector<int64_t>& numbers) {
  numbers.push_back(value.defined() ? tape->new_tensor() : -1);
  if (!value.defined()) return value;
  Tensor t = make_tracked(value, level);
  wrapper_of(t)->set_number(numbers.back());
  return t;
}

// What was written is the argument itself.
void return_written(const OpHeader& op, const Value* args, size_t n, Value* rets, size_t num_rets, int64_t level) {
  bool first = true;
  each_tensor(args, n, [&](const Tensor& t, size_t i, size_t) {
    if (!(op.mutable_args >> i & 1)) return;
    WrapperImpl* w = wrapper_at(t, level);
    w->refresh();
    w->bump_version();
    if (first && num_rets > 0 && args[i].is_tensor()) rets[0] = Value::of(Tensor(t));
    first = false;
  });
}

}  // namespace

void Tape::keep_constant(const Tensor& t) { constants_.push_back({t, version_of(t)}); }

bool Tape::is_stale() const {
  return std::ranges::any_of(constants_, [](const Constant& c) { return version_of(c.tensor) != c.version; });
}

std::vector<Tensor> Tape::replay(std::vector<Tensor> inputs, const std::vector<int64_t>& wanted) const {
  TESSERA_CHECK(!is_stale(),
                "linearize: a tensor that the linear function computes with has been modified by an inplace operation "
                "since. Linearize again, or leave the primals and what the function captures as they were.");
  std::vector<Tensor> tensors = std::move(inputs);
  tensors.resize(static_cast<size_t>(num_tensors_));
  std::vector<size_t> last_use(tensors.size(), calls_.size());
  std::vector<bool> kept(tensors.size());
  for (int64_t w : wanted)
    if (w >= 0) kept[static_cast<size_t>(w)] = true;
  for (size_t c = 0; c < calls_.size(); ++c)
    for (const Place& p : calls_[c].places) last_use[static_cast<size_t>(p.tensor)] = c;
  for (size_t c = 0; c < calls_.size(); ++c) {
    const Call& call = calls_[c];
    std::vector<Value> args = call.args, rets(call.results.size());
    for (const Place& p : call.places) put_tensor(args[p.argument], p.element, tensors[static_cast<size_t>(p.tensor)]);
    call.op->info->adapter->call(*call.op, nullptr, args.data(), rets.data());
    for (size_t r = 0; r < rets.size(); ++r)
      for (size_t k = 0; k < call.results[r].size(); ++k) {
        const int64_t number = call.results[r][k];
        if (number >= 0) tensors[static_cast<size_t>(number)] = tensor_at(rets[r], k);
      }
    for (const Place& p : call.places) {
      const auto t = static_cast<size_t>(p.tensor);
      if (last_use[t] == c && !kept[t]) tensors[t] = Tensor();
    }
  }
  std::vector<Tensor> result;
  for (int64_t w : wanted) result.push_back(w < 0 ? Tensor() : tensors[static_cast<size_t>(w)]);
  return result;
}

Tensor on_tape(const Tensor& value, int64_t level) {
  const Level* l = find_level(level);
  TESSERA_CHECK(l && l->tape, "this level has no tape: it has ended, or is none of linearize()");
  std::vector<int64_t> numbers;
  return wrapped(value, l->tape, level, numbers);
}

void run_on_tape(const OpHeader& op, const Value* args, size_t n, Value* rets, size_t num_rets) {
  const int64_t id = top_level()->id;
  const IntrusivePtr<Tape> tape = top_level()->tape;
  Tape::Call call{&op, {args, args + n}, {}, {}};
  std::vector<Value> values = call.args;
  std::vector<Tensor> constants;
  bool writes_constant = false;
  each_tensor(args, n, [&](const Tensor& t, size_t i, size_t k) {
    if (WrapperImpl* w = wrapper_at(t, id)) {
      call.places.push_back({i, k, w->number()});
      put_tensor(values[i], k, w->value());
      put_tensor(call.args[i], k, Tensor());
    } else {
      constants.push_back(t);
      writes_constant = writes_constant || (op.mutable_args >> i & 1);
    }
  });
  TESSERA_CHECK(call.places.empty() || !writes_constant, "linearize: '", op.name,
                "' would write a tangent to a tensor that has none");
  {
    Hidden hidden;
    op.info->adapter->call(op, nullptr, values.data(), rets);
  }
  if (call.places.empty()) return;
  for (const Tensor& t : constants) tape->keep_constant(t);
  call.results.resize(num_rets);
  if (op.mutable_args) {
    return_written(op, args, n, rets, num_rets, id);
  } else {
    for (size_t i = 0; i < num_rets; ++i) {
      if (rets[i].is_tensor_list()) {
        std::vector<Tensor> list;
        for (const Tensor& t : rets[i].tensor_list()) list.push_back(wrapped(t, tape, id, call.results[i]));
        rets[i] = Value::of(std::move(list));
        continue;
      }
      TESSERA_CHECK(rets[i].is_tensor() || rets[i].is_none(), "linearize: the value of a tangent was asked for ('",
                    op.name, "'), but the derivative has to be linear in it");
      rets[i] = Value::of(wrapped(rets[i].tensor(), tape, id, call.results[i]));
    }
  }
  tape->note(std::move(call));
}

}  // namespace tessera::func
