// Running: calls over registers, the checks before them, and what is written back after.
#include <algorithm>

#include "export/plan.h"
#include "tensor/ops/api.h"

namespace tessera::exported {
namespace {

const Tensor& tensor_at(const Argument& a, const std::vector<Value>& frame, const Call& call) {
  const Value& v = a.kind == Argument::Kind::kConstant ? a.constant : frame[a.place];
  if (a.is_needed && !v.tensor().defined())
    throw Error(str_cat(call.name, ": an operator gave no tensor that it needs"));
  return v.tensor();
}

// A call's value for an argument; lists are made for it.
Value argument(const Argument& a, const std::vector<Value>& frame, const Call& call) {
  switch (a.kind) {
    case Argument::Kind::kConstant:
      return lend(a.constant);
    case Argument::Kind::kRegister:
      if (a.is_needed) return Value::borrow(tensor_at(a, frame, call).impl());
      return lend(frame[a.place]);
    case Argument::Kind::kWrapped:
      return Value::of(wrapped_number(frame[a.place].scalar()));
    case Argument::Kind::kTensors: {
      std::vector<Tensor> list;
      for (const Argument& item : a.items) list.push_back(tensor_at(item, frame, call));
      return Value::of(std::move(list));
    }
    case Argument::Kind::kInts: {
      IntVector list;
      for (const Argument& item : a.items) list.push_back(given(item, frame).integer());
      return Value::of(std::move(list));
    }
    case Argument::Kind::kDoubles: {
      std::vector<double> list;
      for (const Argument& item : a.items) list.push_back(given(item, frame).number());
      return Value::doubles(std::move(list));
    }
    case Argument::Kind::kScalars: {
      std::vector<Scalar> list;
      for (const Argument& item : a.items) list.push_back(given(item, frame).scalar());
      return Value::scalars(std::move(list));
    }
  }
  return Value();
}

}  // namespace

void call_operator(const OpInfo& op, const Value* args, std::vector<Value>& rets) {
  op.adapter->call(*op.op, nullptr, args, rets.data());
}

namespace {

void run_operator(const Call& call, std::vector<Value>& frame) {
  std::vector<Value> args;
  args.reserve(call.args.size());
  for (const Argument& a : call.args) args.push_back(argument(a, frame, call));
  std::vector<Value> rets(std::max<size_t>(call.num_returns, 1));
  call_operator(*call.op, args.data(), rets);
  if (call.returns_list) {
    const TensorList list = rets[0].tensor_list();
    TESSERA_CHECK(list.size() == call.results.size(), call.name, ": the operator gave ", list.size(),
                  " tensors, the program expects ", call.results.size());
    for (size_t i = 0; i < list.size(); ++i)
      if (call.results[i] != kNoRegister) frame[call.results[i]] = Value::of(Tensor(list[i]));
    return;
  }
  for (size_t i = 0; i < call.results.size(); ++i)
    if (call.results[i] != kNoRegister) frame[call.results[i]] = std::move(rets[i]);
}

void run_function(const Call& call, std::vector<Value>& frame) {
  std::vector<Number> args;
  for (const Argument& a : call.args) args.push_back(Number::of(given(a, frame)));
  const Number result = call.function->call(args.data(), args.size());
  if (!call.results.empty() && call.results[0] != kNoRegister) frame[call.results[0]] = result.value();
}

void give(const Call& call, std::vector<Value>& frame, Value v) {
  if (!call.results.empty() && call.results[0] != kNoRegister) frame[call.results[0]] = std::move(v);
}
const Tensor& first_tensor(const Call& call, const std::vector<Value>& frame) {
  const Tensor& t = frame[call.args.at(0).place].tensor();
  TESSERA_CHECK(t.defined(), call.name, ": the size of no tensor");
  return t;
}
int64_t dimension(const Call& call, const std::vector<Value>& frame) {
  return wrap_dim(given(call.args.at(1), frame).integer(), first_tensor(call, frame).dim());
}
void size_of(const Call& c, std::vector<Value>& f) { give(c, f, Value::of(first_tensor(c, f).size(dimension(c, f)))); }
void stride_of(const Call& c, std::vector<Value>& f) {
  give(c, f, Value::of(first_tensor(c, f).stride(dimension(c, f))));
}
void numel_of(const Call& c, std::vector<Value>& f) { give(c, f, Value::of(first_tensor(c, f).numel())); }
void offset_of(const Call& c, std::vector<Value>& f) { give(c, f, Value::of(first_tensor(c, f).storage_offset())); }
void assert_number(const Call& c, std::vector<Value>& f) {
  if (!Number::of(given(c.args.at(0), f)).truth()) throw Error(std::string(c.args.at(1).constant.string()));
}
void check_range(const Call& c, std::vector<Value>& f) {
  const Number n = Number::of(given(c.args.at(0), f));
  for (size_t i : {size_t{1}, size_t{2}}) {
    if (i >= c.args.size()) break;
    const Value bound = given(c.args[i], f);
    if (bound.is_none()) continue;
    TESSERA_CHECK(i == 1 ? n.i >= bound.integer() : n.i <= bound.integer(), "Invalid value range for ", n.i,
                  i == 1 ? ": at least " : ": at most ", bound.integer(), " is expected");
  }
}

// --- control flow ---

std::vector<Value> operands(const Call& call, size_t list, const std::vector<Value>& frame) {
  std::vector<Value> found;
  for (const Argument& a : call.lists[list]) found.push_back(given(a, frame));
  return found;
}
void append(std::vector<Value>* to, const std::vector<Value>& more) { to->insert(to->end(), more.begin(), more.end()); }
void put(const Call& call, std::vector<Value>& frame, std::vector<Value> results) {
  TESSERA_CHECK(results.size() == call.results.size(), call.name, ": ", results.size(),
                " results, the program expects ", call.results.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (call.results[i] != kNoRegister) frame[call.results[i]] = std::move(results[i]);
}

void run_cond(const Call& call, std::vector<Value>& frame) {
  const bool taken = Number::of(given(call.args[0], frame)).truth();
  put(call, frame, call.graphs[taken ? 0 : 1]->run(operands(call, 0, frame)));
}
void run_while(const Call& call, std::vector<Value>& frame) {
  std::vector<Value> carried = operands(call, 0, frame);
  const size_t count = carried.size();
  const std::vector<Value> additional = call.lists.size() > 1 ? operands(call, 1, frame) : std::vector<Value>();
  while (true) {
    std::vector<Value> all = carried;
    append(&all, additional);
    const std::vector<Value> go_on = call.graphs[0]->run(all);
    if (!Number::of(go_on.at(0)).truth()) break;
    carried = call.graphs[1]->run(std::move(all));
    TESSERA_CHECK(carried.size() == count, call.name, ": a step gave ", carried.size(), " values, ", count,
                  " are carried");
  }
  put(call, frame, std::move(carried));
}
Value select_row(const Call& call, const Value& v, int64_t row) {
  const Value args[] = {lend(v), Value::of(int64_t{0}), Value::of(row)};
  std::vector<Value> ret(1);
  call_operator(*call.select, args, ret);
  return std::move(ret[0]);
}
// map_impl(f, xs, args) and scan(f, init, xs, additional): a step for each row, whose results are stacked.
void run_rows(const Call& call, std::vector<Value>& frame, std::vector<Value> carried, const std::vector<Value>& xs,
              const std::vector<Value>& additional) {
  const auto is_row_source = [](const Value& x) {
    return x.is_tensor() && x.tensor().defined() && x.tensor().dim() > 0;
  };
  TESSERA_CHECK(!xs.empty() && std::all_of(xs.begin(), xs.end(), is_row_source), call.name, ": no rows to go through");
  const int64_t rows = xs[0].tensor().size(0);
  TESSERA_CHECK(rows > 0, call.name, ": a dimension without rows");
  const size_t count = carried.size();
  std::vector<std::vector<Tensor>> columns;
  for (int64_t i = 0; i < rows; ++i) {
    std::vector<Value> all = std::move(carried);
    for (const Value& x : xs) all.push_back(select_row(call, x, i));
    append(&all, additional);
    std::vector<Value> made = call.graphs[0]->run(std::move(all));
    TESSERA_CHECK(made.size() >= count, call.name, ": a step gave ", made.size(), " values, ", count, " are carried");
    columns.resize(made.size() - count);
    for (size_t k = count; k < made.size(); ++k) {
      TESSERA_CHECK(made[k].is_tensor() && made[k].tensor().defined(), call.name, ": a step gave no tensor");
      columns[k - count].push_back(made[k].tensor());
    }
    made.resize(count);
    carried = std::move(made);
  }
  for (const std::vector<Tensor>& column : columns) {
    const Value args[] = {Value::borrow(TensorList(column.data(), column.size())), Value::of(int64_t{0})};
    std::vector<Value> ret(1);
    call_operator(*call.stack, args, ret);
    carried.push_back(std::move(ret[0]));
  }
  put(call, frame, std::move(carried));
}
void run_map(const Call& call, std::vector<Value>& frame) {
  run_rows(call, frame, {}, operands(call, 0, frame), operands(call, 1, frame));
}
void run_scan(const Call& call, std::vector<Value>& frame) {
  run_rows(call, frame, operands(call, 0, frame), operands(call, 1, frame), operands(call, 2, frame));
}

// --- arguments ---

[[noreturn]] void refuse(const std::string& condition) { throw Error("Guard failed: " + condition); }

bool same_constant(const Value& a, const Value& b) {
  using Tag = Value::Tag;
  if (a.tag() != b.tag()) return false;
  switch (a.tag()) {
    case Tag::kNone:
      return true;
    case Tag::kBool:
    case Tag::kInt:
      return a.integer() == b.integer();
    case Tag::kDouble:
      return a.number() == b.number() || (a.number() != a.number() && b.number() != b.number());
    case Tag::kString:
      return a.string() == b.string();
    default:
      return true;  // dtypes, devices ...: what the program was exported with counts
  }
}

// Binds the symbol of a size, solves for the only unknown one, or compares.
void bind(const Expression& e, int64_t size, const std::string& shown, SymbolValues* v) {
  if (!e.is_known(*v)) {
    std::vector<size_t> unknown = e.symbols();
    std::erase_if(unknown, [&](size_t place) { return v->known[place]; });
    if (unknown.size() > 1) return;
    const size_t place = unknown[0];
    Number& symbol = v->values[place];
    if (e.is_symbol()) {
      symbol = Number::of(size);
    } else {
      symbol = Number::of(int64_t{0});
      const int64_t offset = e.evaluate(*v).i;
      symbol = Number::of(int64_t{1});
      const int64_t factor = e.evaluate(*v).i - offset;
      if (factor == 0 || (size - offset) % factor != 0)
        refuse(str_cat("(", shown, " - ", offset, ") % ", factor, " == 0"));
      symbol = Number::of((size - offset) / factor);
    }
    v->known[place] = true;
  }
  if (!equal(e.evaluate(*v), Number::of(size))) refuse(str_cat(shown, " == ", e.text()));
}

}  // namespace

Value lend(const Value& v) {
  using Tag = Value::Tag;
  switch (v.tag()) {
    case Tag::kTensor:
      return Value::borrow(v.tensor().impl());
    case Tag::kTensorList:
      return Value::borrow(v.tensor_list());
    case Tag::kIntList:
      return Value::borrow(v.int_list());
    case Tag::kDoubleList:
      return Value::borrow(v.double_list());
    case Tag::kBoolList:
      return Value::borrow(v.bool_list());
    case Tag::kScalarList:
      return Value::borrow(v.scalar_list());
    case Tag::kString:
      return Value::borrow(v.string());
    default:
      return v;
  }
}
Value given(const Argument& a, const std::vector<Value>& frame) {
  return a.kind == Argument::Kind::kConstant ? a.constant : frame[a.place];
}

Own own_function(std::string_view target) {
  if (function_of_target(target)) return run_function;
  constexpr std::pair<std::string_view, Own> kOwn[] = {
      {"sym_size.int", size_of},
      {"sym_stride.int", stride_of},
      {"sym_numel.default", numel_of},
      {"sym_storage_offset.default", offset_of},
      {"_assert_scalar.default", assert_number},
      {"sym_constrain_range.default", check_range},
      {"sym_constrain_range_for_size.default", check_range},
  };
  constexpr std::string_view kAten = "torch.ops.aten.";
  if (target.starts_with(kAten))
    for (const auto& [name, own] : kOwn)
      if (target.substr(kAten.size()) == name) return own;
  return nullptr;
}
Own control_flow(std::string_view target) {
  constexpr std::pair<std::string_view, Own> kFlow[] = {
      {"cond", run_cond}, {"while_loop", run_while}, {"map_impl", run_map}, {"scan", run_scan}};
  for (const auto& [name, own] : kFlow)
    if (target == str_cat("torch.ops.higher_order.", name)) return own;
  return nullptr;
}

std::vector<Value> Graph::run(std::vector<Value> inputs) const {
  TESSERA_CHECK(inputs.size() == num_inputs, "a graph takes ", num_inputs, " values, got ", inputs.size());
  std::vector<Value> frame = std::move(inputs);
  frame.resize(num_registers);
  for (const Call& call : calls) {
    if (call.op)
      run_operator(call, frame);
    else
      call.own(call, frame);
    for (const uint32_t place : call.last) frame[place] = Value();
  }
  std::vector<Value> results;
  for (const Argument& a : outputs) results.push_back(given(a, frame));
  return results;
}

void Plan::check(const std::vector<Value>& leaves) const {
  SymbolValues v(symbols.size());
  struct Dynamic {
    const Expression* expression;
    int64_t size;
    std::string shown;
  };
  std::vector<Dynamic> dynamic;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    const Value& leaf = leaves[i];
    if (input.kind == Input::Kind::kConstant) {
      if (!same_constant(leaf, input.constant)) refuse(str_cat(input.name, " == the value of the exported call"));
    } else if (input.kind == Input::Kind::kNumber) {
      if (leaf.tag() != Value::Tag::kInt) refuse(str_cat("isinstance(", input.name, ", int)"));
      if (const Size& s = input.sizes[0]; s.expression) dynamic.push_back({&*s.expression, leaf.integer(), input.name});
    } else {
      if (!leaf.is_tensor() || !leaf.tensor().defined()) refuse(str_cat("isinstance(", input.name, ", Tensor)"));
      const Tensor& t = leaf.tensor();
      if (static_cast<size_t>(t.dim()) != input.sizes.size())
        refuse(str_cat("len(", input.name, ".size()) == ", input.sizes.size()));
      for (size_t d = 0; d < input.sizes.size(); ++d) {
        const Size& s = input.sizes[d];
        const int64_t size = t.size(static_cast<int64_t>(d));
        if (s.expression)
          dynamic.push_back({&*s.expression, size, str_cat(input.name, ".size()[", d, "]")});
        else if (size != s.fixed)
          refuse(str_cat(input.name, ".size()[", d, "] == ", s.fixed));
      }
    }
  }
  // Symbols that are sizes of their own first, so that expressions of them are compared.
  std::stable_partition(dynamic.begin(), dynamic.end(), [](const Dynamic& d) { return d.expression->is_symbol(); });
  for (const Dynamic& d : dynamic) bind(*d.expression, d.size, d.shown, &v);
  for (const Range& r : ranges) {
    if (!r.expression.is_known(v)) continue;  // of a number that the program itself finds
    const Number n = r.expression.evaluate(v);
    if (r.least && *r.least > 0 && n.real() < static_cast<double>(*r.least))
      refuse(str_cat(r.expression.text(), " >= ", *r.least));
    if (r.most && n.real() > static_cast<double>(*r.most)) refuse(str_cat(r.expression.text(), " <= ", *r.most));
  }
  for (const Expression& g : guards)
    if (g.is_known(v) && !g.evaluate(v).truth()) refuse(g.text());
}

std::vector<Value> Plan::run(std::vector<Value> leaves) const {
  TESSERA_CHECK_VALUE(leaves.size() == inputs.size(), "the program takes ", inputs.size(), " values, got ",
                      leaves.size());
  check(leaves);
  std::vector<Value> all;
  all.reserve(graph.num_registers);
  for (const Tensor& t : held) all.push_back(Value::of(Tensor(t)));
  append(&all, leaves);
  const std::vector<Value> made = graph.run(std::move(all));
  for (const Write& w : writes) {
    const Tensor& target = w.held.defined() ? w.held : leaves[w.input].tensor();
    if (made[w.output].tensor().impl() != target.impl()) target.copy_(made[w.output].tensor());
  }
  std::vector<Value> found;
  for (const size_t place : results) found.push_back(made[place]);
  return found;
}

}  // namespace tessera::exported
