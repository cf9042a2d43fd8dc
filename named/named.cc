#include "named/named.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "named/rules.h"
#include "tensor/dispatch/registry.h"
#include "tensor/dispatch/runtime.h"
#include "tensor/dispatch/schema.h"

namespace tessera::named {
namespace {

std::string quoted(std::span<const std::string> names) {
  std::string s = "[";
  for (const std::string& n : names) {
    if (s.size() > 1) s += ", ";
    s += n.empty() ? "None" : "'" + n + "'";
  }
  return s + "]";
}

bool is_identifier(std::string_view s) {
  auto letter = [](char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; };
  if (!letter(s[0]) && s[0] != '_') return false;
  return std::ranges::all_of(s, [&](char c) { return letter(c) || c == '_' || (c >= '0' && c <= '9'); });
}

// A list of names as long as the tensor's dimensions.
Names full_names(const Tensor& t) {
  const auto names = names_of(t);
  return names.empty() ? Names(static_cast<size_t>(t.dim())) : Names(names.begin(), names.end());
}

void check_unique(const Names& names, const char* what) {
  for (size_t i = 0; i < names.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      TESSERA_CHECK(names[i].empty() || names[i] != names[j], what, " with duplicate names. Got names: ", quoted(names),
                    ".");
}

// `name` stands where `other` has None: it must not stand elsewhere in `other`.
void check_aligned(const std::string& name, const Names& other, const Names& own) {
  TESSERA_CHECK(name.empty() || std::ranges::find(other, name) == other.end(),
                "Misaligned dims when attempting to broadcast dims ", quoted(own), " and dims ", quoted(other),
                ": dim '", name, "' appears in a different position from the right across both lists.");
}

Names unify(const Names& a, const Names& b, const char* action = "broadcast") {
  Names result(std::max(a.size(), b.size()));
  for (size_t i = 1; i <= result.size(); ++i) {
    const std::string x = i <= a.size() ? a[a.size() - i] : "", y = i <= b.size() ? b[b.size() - i] : "";
    TESSERA_CHECK(x.empty() || y.empty() || x == y, "Error when attempting to ", action, " dims ", quoted(a),
                  " and dims ", quoted(b), ": dim '", x, "' and dim '", y,
                  "' are at the same position from the right but do not match.");
    if (y.empty()) check_aligned(x, b, a);
    if (x.empty()) check_aligned(y, a, b);
    result[result.size() - i] = x.empty() ? y : x;
  }
  return result;
}

Names slice(const Names& names, size_t begin, size_t end) {
  return Names(names.begin() + static_cast<ptrdiff_t>(begin), names.begin() + static_cast<ptrdiff_t>(end));
}

// One call: the operator, its arguments, and what is known of them by name.
class Call {
 public:
  Call(const OpHeader& op, const FunctionSchema& schema, const Value* args) : op_(op), schema_(schema), args_(args) {
    for (size_t i = 0; i < schema.arguments.size(); ++i) {
      if (is_out(i)) continue;
      if (args[i].is_tensor() && args[i].tensor().defined()) tensors_.push_back(args[i].tensor());
      if (args[i].is_tensor_list())
        for (const Tensor& t : args[i].tensor_list())
          if (t.defined()) tensors_.push_back(t);
    }
  }

  bool names_differ() const { return full_names(tensors_[0]) != full_names(tensors_[1]); }
  bool is_out(size_t i) const { return (op_.flags & kIsOut) && op_.mutable_args >> i & 1; }
  bool any_named() const {
    bool any = std::ranges::any_of(tensors_, &has_names);
    for (size_t i = 0; i < schema_.arguments.size(); ++i)
      any = any || (is_out(i) && args_[i].is_tensor() && args_[i].tensor().defined() && has_names(args_[i].tensor()));
    return any;
  }
  Names result_names(Rule rule) const;
  void check_outs(const Names& names) const {
    for (size_t i = 0; i < schema_.arguments.size(); ++i)
      if (is_out(i) && args_[i].is_tensor() && args_[i].tensor().defined() && has_names(args_[i].tensor()))
        TESSERA_CHECK(full_names(args_[i].tensor()) == names, op_.name, ": the names of the result, ", quoted(names),
                      ", differ from the names of out=, ", quoted(names_of(args_[i].tensor())),
                      " (Name mismatch). Give an out= tensor without names, or rename it.");
  }

 private:
  const Value* argument(std::string_view name) const {
    const int i = schema_.find_argument(name);
    return i < 0 || args_[i].is_none() ? nullptr : args_ + i;
  }
  size_t wrapped(int64_t dim, int64_t extra = 0) const {
    const int64_t n = tensors_[0].dim() + extra;
    TESSERA_CHECK_INDEX(dim >= -std::max<int64_t>(n, 1) && dim < std::max<int64_t>(n, 1),
                        "Dimension out of range (expected to be in range of [", -n, ", ", n - 1, "], but got ", dim,
                        ")");
    return static_cast<size_t>(dim < 0 ? dim + n : dim);
  }
  // The dimensions that the argument `name` means; `all` without it.
  std::vector<bool> dims(std::string_view name, bool all) const {
    const Value* v = argument(name);
    const bool none = !v || (v->tag() == Value::Tag::kIntList && v->int_list().empty());
    std::vector<bool> r(static_cast<size_t>(tensors_[0].dim()), none && all);
    if (none || r.empty()) return r;
    if (v->tag() == Value::Tag::kIntList)
      for (int64_t d : v->int_list()) r[wrapped(d)] = true;
    else
      r[wrapped(v->integer())] = true;
    return r;
  }
  Names without(const std::vector<bool>& gone) const {
    Names r, names = full_names(tensors_[0]);
    for (size_t i = 0; i < names.size(); ++i)
      if (!gone[i]) r.push_back(names[i]);
    return r;
  }
  Names unified() const {
    Names r = full_names(tensors_[0]);
    for (size_t i = 1; i < tensors_.size(); ++i) r = unify(r, full_names(tensors_[i]));
    return r;
  }
  Names squeezed() const;
  Names swapped() const;
  Names permuted() const;
  Names product(const Tensor& a, const Tensor& b) const;
  Names concatenated() const;

  const OpHeader& op_;
  const FunctionSchema& schema_;
  const Value* args_;
  std::vector<Tensor> tensors_;
};

Names Call::squeezed() const {
  std::vector<bool> gone = dims("dim", true);
  for (size_t i = 0; i < gone.size(); ++i) {
    if (!gone[i]) continue;
    gone[i] = tensors_[0].sizes()[i] == 1;
    // Asked to remove what cannot be removed: no names are left.
    if (!gone[i] && argument("dim")) return Names(gone.size());
  }
  return without(gone);
}

Names Call::swapped() const {
  Names names = full_names(tensors_[0]);
  if (names.size() < 2) return names;
  const Value *a = argument("dim0"), *b = argument("dim1");
  if (!a) {
    if (std::string_view(op_.name) == "aten::numpy_T")
      std::ranges::reverse(names);
    else
      std::swap(names[names.size() - 2], names.back());
  } else {
    std::swap(names[wrapped(a->integer())], names[wrapped(b->integer())]);
  }
  return names;
}

Names Call::permuted() const {
  const Names names = full_names(tensors_[0]);
  Names r;
  for (int64_t d : argument("dims")->int_list()) r.push_back(names.empty() ? "" : names[wrapped(d)]);
  return r;
}

Names batch(const Names& x, const Names& y) { return unify(slice(x, 0, x.size() - 2), slice(y, 0, y.size() - 2)); }

// A batch dimension of `x` must not have the name of the dimension that the other tensor contracts.
void check_batch(const Names& x, const std::string& contracted) {
  TESSERA_CHECK(contracted.empty() || std::find(x.begin(), x.end() - 2, contracted) == x.end() - 2,
                "Misaligned dims when multiplying matrices: the batch dimension '", contracted, "' of ", quoted(x),
                " is misaligned with the dimension of that name which the other tensor contracts.");
}

// Of a @ b: the contracted dimensions are not looked at.
Names Call::product(const Tensor& a, const Tensor& b) const {
  const Names x = full_names(a), y = full_names(b);
  if (x.empty() || y.empty()) return {};
  Names r;
  if (x.size() > 1 && y.size() > 1) {
    r = batch(x, y);
    r.push_back(x[x.size() - 2]);
    r.push_back(y.back());
  } else if (y.size() == 1) {
    r = slice(x, 0, x.size() - 1);
  } else {
    r = slice(y, 0, y.size() - 2);
    r.push_back(y.back());
  }
  check_unique(
      r, str_cat("Matrix-multiplying Tensor", quoted(x), " and Tensor", quoted(y), " would produce an output tensor")
             .c_str());
  if (x.size() > 1 && y.size() > 1) {
    check_batch(x, y[y.size() - 2]);
    check_batch(y, x.back());
  }
  return r;
}

Names Call::concatenated() const {
  Names r;
  bool first = true;
  for (const Tensor& t : tensors_) {
    if (t.dim() == 1 && t.numel() == 0 && !has_names(t)) continue;  // fits tensors of any shape
    const Names names = full_names(t);
    r = first ? names : unify(r, names, "cat");
    first = false;
  }
  return r;
}

Names Call::result_names(Rule rule) const {
  if (tensors_.empty()) return {};
  switch (rule) {
    case Rule::kUnify:
      return unified();
    case Rule::kUnifyDrop:
      unified();
      return {};
    case Rule::kReduce: {
      const Value* keep = argument("keepdim");
      return keep && keep->boolean() ? full_names(tensors_[0]) : without(dims("dim", true));
    }
    case Rule::kRemove: {
      std::vector<bool> gone = dims("dim", false);
      if (!argument("dim") && !gone.empty()) gone[0] = true;
      return without(gone);
    }
    case Rule::kSqueeze:
      return squeezed();
    case Rule::kUnsqueeze: {
      Names r = full_names(tensors_[0]);
      r.insert(r.begin() + static_cast<ptrdiff_t>(wrapped(argument("dim")->integer(), 1)), "");
      return r;
    }
    case Rule::kTranspose:
      return swapped();
    case Rule::kPermute:
      return permuted();
    case Rule::kDiagonal: {
      std::vector<bool> gone = dims("dim1", false);
      gone[wrapped(argument("dim2")->integer())] = true;
      Names r = without(gone);
      r.push_back("");
      return r;
    }
    case Rule::kMatrix:
    case Rule::kVector:
    case Rule::kMatmul:
      return product(tensors_.at(0), tensors_.at(1));
    case Rule::kDistances: {
      const Names x = full_names(tensors_.at(0)), y = full_names(tensors_.at(1));
      if (x.size() < 2 || y.size() < 2) return {};
      Names r = batch(x, y);
      r.push_back(x[x.size() - 2]);
      r.push_back(y[y.size() - 2]);
      return r;
    }
    case Rule::kFusedMatrix:
    case Rule::kFusedVector:
      return unify(product(tensors_.at(1), tensors_.at(2)), full_names(tensors_[0]));
    case Rule::kConcat:
      return concatenated();
    case Rule::kSameShape: {
      const Value* size = argument("size");
      const Value* other = argument("the_template");
      if (other) {
        const Names wanted = full_names(other->tensor());
        TESSERA_CHECK(!has_names(tensors_[0]) || full_names(tensors_[0]) == wanted, op_.name, ": the names ",
                      quoted(full_names(tensors_[0])), " are not the same as the computed output names ",
                      quoted(wanted), ". Drop them with `tensor = tensor.rename(None)` first.");
        if (!has_names(tensors_[0])) return wanted;
      }
      const bool same = size    ? std::ranges::equal(size->int_list(), tensors_[0].sizes())
                        : other ? std::ranges::equal(other->tensor().sizes(), tensors_[0].sizes())
                                : false;
      TESSERA_CHECK(same, op_.name, ": Cannot resize named tensor, ", describe(tensors_[0]),
                    ", to other sizes. Drop its names with `tensor = tensor.rename(None)` first.");
      return full_names(tensors_[0]);
    }
    case Rule::kKeep:
    case Rule::kExpand:
      return full_names(tensors_[0]);
    default:
      return {};
  }
}

struct Plan {
  FunctionSchema schema;
  Rule rule;
};

const Plan& plan_of(const OpHeader& op) {
  static std::mutex mutex;
  static auto* plans = new std::unordered_map<const OpHeader*, std::unique_ptr<Plan>>;  // operators live for ever
  const std::lock_guard lock(mutex);
  auto& p = (*plans)[&op];
  if (!p) p.reset(new Plan{parse_schema(op.info->schema()), rule_of(op)});
  return *p;
}

// Drops what was there where the operator gives no names.
void name_result(const Tensor& t, Names names, Rule rule) {
  if (!t.defined()) return;
  const auto dim = static_cast<size_t>(t.dim());
  if (rule == Rule::kExpand && names.size() < dim) names.insert(names.begin(), dim - names.size(), "");
  if (names.size() == dim)
    set_names(t, std::move(names));
  else if (names.empty() && has_names(t))
    set_names(t, {});
}

void named_fallback(void*, const OpHeader& op, DispatchKeySet keys, const Value* args, size_t, Value* rets,
                    size_t num_rets) {
  const DispatchKeySet below = keys - DispatchKeySet(DispatchKey::kNamed);
  const Plan& plan = plan_of(op);
  if (plan.rule == Rule::kDecompose) {
    op.info->adapter->call(op, &below, args, rets);
    return;
  }
  const Call call(op, plan.schema, args);
  const bool any = call.any_named();
  TESSERA_CHECK(!any || plan.rule != Rule::kRefuse, op.name, op.overload[0] ? "." : "", op.overload,
                " is not yet supported with named tensors. Please drop names via `tensor = tensor.rename(None)`, call "
                "the op with an unnamed tensor, and set names on the result of the operation.");
  if (plan.rule == Rule::kEqual && call.names_differ()) {
    rets[0] = Value::of(false);
    return;
  }
  Names names;
  if (any && plan.rule != Rule::kPass && plan.rule != Rule::kEqual) {
    names = call.result_names(plan.rule);
    check_unique(names, "Cannot make a tensor");
    call.check_outs(names);
  }
  {
    const ExcludeKeys nameless{DispatchKeySet(DispatchKey::kNamed)};
    op.info->adapter->call(op, &below, args, rets);
  }
  if (!any || plan.rule == Rule::kPass || plan.rule == Rule::kEqual) return;
  for (size_t i = 0; i < num_rets; ++i) {
    if (rets[i].is_tensor()) name_result(rets[i].tensor(), names, plan.rule);
    if (rets[i].is_tensor_list())
      for (const Tensor& t : rets[i].tensor_list()) name_result(t, names, plan.rule);
  }
}

void install_fallback() {
  static const auto* kept = [] {
    auto entry = make_intrusive<BoxedEntry>();
    entry->kernel = &named_fallback;
    return new Registration(register_fallback(DispatchKey::kNamed, {nullptr, std::move(entry), false}));  // for ever
  }();
  (void)kept;
}

}  // namespace

std::span<const std::string> names_of(const Tensor& t) {
  const ExtraMeta* extra = t.impl()->extra();
  if (!t.keys().has(DispatchKey::kNamed) || extra->names.size() != static_cast<size_t>(t.dim())) return {};
  return extra->names;
}

bool has_names(const Tensor& t) { return !names_of(t).empty(); }

void set_names(const Tensor& t, Names names) {
  TensorImpl& impl = *t.impl();
  if (!names.empty()) {
    TESSERA_CHECK(names.size() == static_cast<size_t>(t.dim()), "Number of names (", names.size(),
                  ") and number of dimensions in tensor (", t.dim(),
                  ") do not match. Attempted to create a tensor with names ", quoted(names));
    for (const std::string& n : names)
      TESSERA_CHECK(n.empty() || is_identifier(n),
                    "Invalid name: a valid identifier contains only digits, alphabetical characters, and/or "
                    "underscore and starts with a non-digit. got: '",
                    n, "'.");
    check_unique(names, "Cannot construct a tensor");
  }
  if (std::ranges::all_of(names, &std::string::empty)) {
    if (impl.extra()) impl.materialize_extra().names.clear();
    impl.set_key(DispatchKey::kNamed, false);
    return;
  }
  install_fallback();
  impl.materialize_extra().names = std::move(names);
  impl.set_key(DispatchKey::kNamed, true);
}

int64_t dim_by_name(const Tensor& t, std::string_view name) {
  const auto names = names_of(t);
  const auto at = std::ranges::find(names, name);
  TESSERA_CHECK(!name.empty() && at != names.end(), "Name '", name, "' not found in ", describe(t), ".");
  return at - names.begin();
}

std::string describe(const Tensor& t) { return "Tensor" + quoted(full_names(t)); }

}  // namespace tessera::named
