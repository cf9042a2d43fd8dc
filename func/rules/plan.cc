#include "func/rules/plan.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "func/rules/rules.h"
#include "tensor/dispatch/runtime.h"

namespace tessera::func {
namespace {

bool starts_with(std::string_view s, std::string_view prefix) { return s.substr(0, prefix.size()) == prefix; }

bool ends_with(std::string_view s, std::string_view suffix) {
  return s.size() >= suffix.size() && s.substr(s.size() - suffix.size()) == suffix;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (std::string_view n : names)
    if (n == name) return true;
  return false;
}

Role role_of(const SchemaArgument& a) {
  const SchemaType& type = a.type.without_optional();
  const bool is_int = type.is(TypeKind::kInt) || type.is(TypeKind::kSymInt);
  if (type.is(TypeKind::kTensor)) return Role::kTensor;
  if (type.is(TypeKind::kGenerator)) return Role::kGenerator;
  if (type.is_list()) {
    const SchemaType& e = type.elements[0].without_optional();
    if (e.is(TypeKind::kTensor)) return Role::kTensorList;
    if (!e.is(TypeKind::kInt) && !e.is(TypeKind::kSymInt)) return Role::kOther;
    if (is_one_of(a.name, {"dim", "dims"})) return Role::kDims;
    if (is_one_of(a.name, {"input_size", "input_sizes"})) return Role::kInputSizes;
    if (is_one_of(a.name, {"size", "sizes"})) return Role::kSizes;
    return Role::kOther;
  }
  if (is_int && is_one_of(a.name, {"dim", "dim0", "dim1", "dim2", "dimension", "axis"})) return Role::kDim;
  return Role::kOther;
}

bool has_role(const Plan& p, Role r) {
  for (Role x : p.roles)
    if (x == r) return true;
  return false;
}
int num_tensors(const Plan& p) {
  int n = 0;
  for (Role r : p.roles) n += r == Role::kTensor || r == Role::kTensorList;
  return n;
}

// "add_" -> "add"; "__iand__" and names that only begin with underscores stay.
std::string_view functional_name(std::string_view base) {
  if (base.size() > 2 && base.back() == '_' && base[base.size() - 2] != '_') base.remove_suffix(1);
  return base;
}

// A rule for this overload ("sum." is the one without a name) goes before one for all of them.
const WrittenRule* find_written(std::string_view name, std::string_view overload) {
  const std::string exact = str_cat(name, ".", overload);
  const WrittenRule* found = nullptr;
  for (const WrittenRule& r : written_rules()) {
    if (r.name == exact) return &r;
    if (r.name == name) found = &r;
  }
  return found;
}

Family derived_family(const Plan& p, const OpInfo& info) {
  const std::string_view rule = info.rule(), module = info.python_module();
  if (starts_with(rule, "POINTWISE")) return Family::kPointwise;
  if (starts_with(rule, "COMPOSITE") || starts_with(rule, "SCALAR_OVERLOAD"))
    return has_role(p, Role::kGenerator) ? Family::kRandom : Family::kDecompose;
  if (std::strstr(info.table(), "/random.textproto") || has_role(p, Role::kGenerator)) return Family::kRandom;
  if (num_tensors(p) == 0) return Family::kFactory;
  const std::string_view name = p.schema.base_name();
  if (ends_with(name, "_like") || starts_with(name, "new_")) return Family::kLike;
  for (const SchemaArgument& r : p.schema.returns)
    if (!r.type.has_tensor()) return Family::kForbidden;
  if (has_role(p, Role::kDim) || has_role(p, Role::kDims)) return Family::kShift;
  if (starts_with(rule, "VIEW") || module == "linalg" || starts_with(p.schema.base_name(), "_linalg_"))
    return Family::kFront;
  return Family::kLoop;
}

std::atomic<FindOperator> g_find{nullptr};

// NAME without, or with, something at its end; of the same overload and with as many arguments.
const OpHeader* related(const OpHeader& op, const Plan& p, const std::string& name) {
  const FindOperator find = g_find.load();
  if (!find) return nullptr;
  const OpHeader* found = find(op.overload[0] ? str_cat(name, ".", op.overload) : name);
  if (!found || !found->info || found->mutable_args) return nullptr;
  return parse_schema(found->info->schema()).arguments.size() == p.schema.arguments.size() ? found : nullptr;
}

// Of an out= form: the form with the same arguments that makes its results. The part of its overload's name before
// "out" is the form's, or the form is the first of several.
const OpHeader* without_out(const OpHeader& op, const Plan& p) {
  const FindOperator find = g_find.load();
  std::string_view overload = op.overload;
  if (!find || !ends_with(overload, "out")) return nullptr;
  overload.remove_suffix(overload.size() > 3 && overload[overload.size() - 4] == '_' ? 4 : 3);
  size_t outs = 0;
  for (const SchemaArgument& a : p.schema.arguments) outs += a.is_write();
  for (const std::string_view form : {overload, std::string_view("Tensor"), std::string_view("self"),
                                      std::string_view("dim"), std::string_view("int")}) {
    const OpHeader* found = find(form.empty() ? std::string(op.name) : str_cat(op.name, ".", form));
    if (!found || !found->info || found->mutable_args) continue;
    const FunctionSchema schema = parse_schema(found->info->schema());
    bool same = schema.returns.size() == outs && schema.arguments.size() + outs == p.schema.arguments.size();
    for (size_t i = 0; same && i < schema.arguments.size(); ++i)
      same = schema.arguments[i].name == p.schema.arguments[i].name;
    if (same) return found;
  }
  return nullptr;
}

void find_relatives(const OpHeader& op, Plan& p) {
  if (op.flags & kIsOut) p.functional = without_out(op, p);
  struct Pair {
    std::string_view written, functional;
  };
  static constexpr Pair kUnlike[] = {{"aten::bernoulli_.float", "aten::bernoulli.p"},
                                     {"aten::normal_", "aten::normal_functional"},
                                     {"aten::transpose_", "aten::transpose.int"},
                                     {"aten::_batch_norm", "aten::_native_batch_norm_legit_functional"}};
  for (const Pair& pair : kUnlike)
    if (const FindOperator find = g_find.load(); find && p.schema.qualified_name() == pair.written)
      p.functional = find(pair.functional);
  const std::string name = op.name;
  if (p.is_view) p.copying = related(op, p, name + "_copy");
  if (!p.functional && op.flags & kIsInplace && ends_with(name, "_"))
    p.functional = related(op, p, name.substr(0, name.size() - 1));
}

Plan make_plan(const OpHeader& op) {
  TESSERA_CHECK(op.info, "'", op.name,
                "' has no schema here: link the registry of its library to use it in transforms");
  Plan p;
  p.schema = parse_schema(op.info->schema());
  for (const SchemaArgument& a : p.schema.arguments) p.roles.push_back(role_of(a));
  p.is_view = op.flags & kIsView;
  p.shares_memory =
      p.is_view || (!op.mutable_args && !p.schema.arguments.empty() && !p.schema.returns.empty() &&
                    p.schema.arguments[0].type.alias_anywhere() && p.schema.returns[0].type.alias_anywhere());
  p.writes = op.mutable_args;
  // Its schema can't say so: a statistic that is updated would be an out= argument.
  if (p.schema.name == "aten::_batch_norm") p.writes = 1u << 5 | 1u << 6;
  find_relatives(op, p);
  p.foreign = p.schema.name_space() != "aten";
  const AnyKernel* slots = op.slots();
  const auto filled = [&](Slot s) { return slots[static_cast<int>(s)] != nullptr; };
  p.composite = !filled(Slot::kCPU) && !filled(Slot::kCUDA) && !filled(Slot::kAutograd) &&
                !filled(Slot::kCompositeExplicit) &&
                (filled(Slot::kCompositeImplicit) ||
                 (has_kernel(op, DispatchKey::kCompositeImplicitAutograd) && !has_kernel(op, DispatchKey::kCPU) &&
                  !has_kernel(op, DispatchKey::kCompositeExplicitAutograd)));
  if (op.flags & kIsOut) {
    p.family = Family::kForbidden;
    return p;
  }
  p.family = derived_family(p, *op.info);
  const std::string_view base = p.schema.base_name(), overload = p.schema.overload;
  const WrittenRule* w = find_written(base, overload);
  if (!w) w = find_written(functional_name(base), overload);
  if (w) {
    p.derived = false;
    p.family = w->family;
    p.rule = w->rule;
    p.inside = w->inside;
    p.fold_rank = w->fold_rank;
  } else if (p.family == Family::kRandom) {
    p.inside = p.composite;
    p.rule = p.composite ? random_composite : random_operator;
  } else if (p.composite) {
    p.family = Family::kDecompose;
  }
  return p;
}

}  // namespace

void set_operator_finder(FindOperator find) { g_find = find; }

const char* family_name(Family f) {
  switch (f) {
    case Family::kDecompose:
      return "decompose";
    case Family::kPointwise:
      return "pointwise";
    case Family::kFront:
      return "front";
    case Family::kShift:
      return "shift";
    case Family::kFold:
      return "fold";
    case Family::kLike:
      return "like";
    case Family::kFactory:
      return "factory";
    case Family::kRandom:
      return "random";
    case Family::kWritten:
      return "written";
    case Family::kLoop:
      return "loop";
    case Family::kForbidden:
      return "forbidden";
  }
  return "";
}

// Op objects live as long as the program, those of torch.library as long as their library: the plan of one that is gone
// is found by nobody, and a new one at its place has another schema text.
const Plan& plan_of(const OpHeader& op) {
  struct Known {
    const OpInfo* info;
    const char* schema;
    const Plan* plan;
  };
  static std::shared_mutex mutex;
  static auto* known = new std::unordered_map<const OpHeader*, Known>;
  {
    std::shared_lock lock(mutex);
    const auto at = known->find(&op);
    if (at != known->end() && at->second.info == op.info && (!op.info || at->second.schema == op.info->schema()))
      return *at->second.plan;
  }
  const Plan* made = new Plan(make_plan(op));
  std::unique_lock lock(mutex);
  (*known)[&op] = {op.info, op.info->schema(), made};
  return *made;
}

}  // namespace tessera::func
