// The documented C++ names: functions of at::, methods of at::Tensor, torch::linalg::solve and so on, in the types of
// the front end (//frontend). Each is an inline call of the op object.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tools/opgen/cpp_types.h"
#include "tools/opgen/generate.h"

namespace tessera::opgen {
namespace {

const char* plain_type(TypeKind kind) {
  switch (kind) {
    case TypeKind::kInt:
    case TypeKind::kSymInt:
      return "int64_t";
    case TypeKind::kFloat:
      return "double";
    case TypeKind::kBool:
      return "bool";
    case TypeKind::kScalar:
      return "Scalar";
    case TypeKind::kScalarType:
      return "ScalarType";
    case TypeKind::kLayout:
      return "Layout";
    case TypeKind::kMemoryFormat:
      return "MemoryFormat";
    case TypeKind::kDevice:
      return "Device";
    case TypeKind::kStr:
      return "std::string_view";
    case TypeKind::kDimname:
      return "Dimname";
    case TypeKind::kGenerator:
      return "Generator";
    case TypeKind::kStorage:
      return "Storage";
    default:
      return "Tensor";
  }
}

std::string type_of(const SchemaType& type, bool written) {
  if (written && is_tensor(type)) return "Tensor&";
  const SchemaType& t = type.without_optional();
  if (!t.is_list()) {
    const std::string plain = plain_type(t.kind);
    const bool large = t.is(TypeKind::kTensor) || t.is(TypeKind::kScalar);
    if (!type.is_optional()) return large ? absl::StrCat("const ", plain, "&") : plain;
    return absl::StrCat(large ? "const " : "", "std::optional<", plain, ">", large ? "&" : "");
  }
  const SchemaType& e = t.elements[0];
  if (e.is_optional()) return "const c10::List<std::optional<Tensor>>&";
  const bool ints = e.is(TypeKind::kInt) || e.is(TypeKind::kSymInt);
  if (ints) return type.is_optional() ? "OptionalIntArrayRef" : "IntArrayRef";
  const std::string list = e.is(TypeKind::kTensor) ? "TensorList" : absl::StrCat("ArrayRef<", plain_type(e.kind), ">");
  return type.is_optional() ? absl::StrCat("std::optional<", list, ">") : list;
}

// Whether an argument goes to the op object as it is.
bool passes(const SchemaType& type) {
  const SchemaType& t = type.without_optional();
  if (t.is_list()) return false;
  switch (t.kind) {
    case TypeKind::kScalarType:
    case TypeKind::kLayout:
    case TypeKind::kMemoryFormat:
    case TypeKind::kGenerator:
    case TypeKind::kStorage:
      return false;
    case TypeKind::kTensor:
    case TypeKind::kDimname:
      return !type.is_optional();
    default:
      return true;
  }
}

std::string constant(const SchemaType& t, const SchemaValue& v) {
  if (t.is(TypeKind::kMemoryFormat)) {
    const std::string name = v.s.substr(0, v.s.find("_format"));
    if (name == "contiguous") return "MemoryFormat::Contiguous";
    return name == "preserve" ? "MemoryFormat::Preserve" : "MemoryFormat::ChannelsLast";
  }
  if (t.is(TypeKind::kLayout)) return "Layout::Strided";
  std::string name = "k" + v.s;
  name[1] = static_cast<char>(std::toupper(name[1]));
  return name;
}

std::string default_of(const SchemaType& type, const SchemaValue& v) {
  const SchemaType& t = type.without_optional();
  if (v.kind == SchemaValue::Kind::kNone) return is_tensor(type) ? "{}" : "std::nullopt";
  if (v.kind == SchemaValue::Kind::kEnum) return constant(t, v);
  if (v.kind == SchemaValue::Kind::kDevice) return absl::StrCat("Device(\"", v.s, "\")");
  if (v.kind == SchemaValue::Kind::kList) {
    std::vector<std::string> parts;
    for (const SchemaValue& e : v.list) parts.push_back(default_of(t.elements[0], e));
    return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
  }
  return cpp_default(type, v).value_or("{}");
}

// One C++ function of a form; there are more than one where options can be given together or one by one.
class Writer {
 public:
  explicit Writer(const OpForm& f) : f_(f), order_(f.api_order()) {
    for (size_t i = 0; i + 4 <= order_.size(); ++i)
      if (order_[i]->name == "dtype" && order_[i + 1]->name == "layout" && order_[i + 2]->name == "device" &&
          order_[i + 3]->name == "pin_memory" && order_[i]->type.is_optional())
        options_ = static_cast<int>(i);
    const int self = f.schema.find_argument("self");
    self_ = &f.schema.arguments[self >= 0 ? static_cast<size_t>(self) : 0];
  }

  static bool supported(const OpForm& f) {
    for (const SchemaArgument& a : f.schema.arguments)
      if (!cpp_arg_type(a.type)) return false;
    return f.schema.arguments.size() > 0 && cpp_return_type(f.schema).has_value();
  }

  bool takes_options() const { return options_ >= 0 && f_.form != Form::kOut; }

  std::string function(const std::string& name) const {
    return all(absl::StrCat("inline ", result(), " ", name), false);
  }
  std::string method(const std::string& name) const { return all(absl::StrCat("  ", result(), " ", name), true); }

 private:
  bool written(const SchemaArgument& a) const { return a.is_write() && is_tensor(a.type); }
  bool returns_written() const {
    for (const SchemaArgument& r : f_.schema.returns)
      if (!r.is_write() || !r.type.is(TypeKind::kTensor)) return false;
    return !f_.schema.returns.empty();
  }

  std::string result() const {
    const auto& returns = f_.schema.returns;
    if (returns.empty()) return "void";
    if (returns.size() == 1) return returns_written() ? "Tensor&" : one_result(returns[0]);
    std::vector<std::string> parts;
    for (const SchemaArgument& r : returns) parts.push_back(returns_written() ? "Tensor&" : one_result(r));
    return absl::StrCat("std::tuple<", absl::StrJoin(parts, ", "), ">");
  }
  static std::string one_result(const SchemaArgument& r) {
    const SchemaType& t = r.type;
    if (t.is_list()) return absl::StrCat("std::vector<", plain_type(t.elements[0].kind), ">");
    return t.is(TypeKind::kStr) || t.is(TypeKind::kDimname) ? "std::string" : plain_type(t.kind);
  }

  // Options come together after any number of the arguments that have defaults (hann_window(n, options) and
  // hann_window(n, periodic, options)), or one by one.
  std::string all(const std::string& head, bool method) const {
    const char* end = method ? ") const" : ")";
    if (!takes_options()) return absl::StrCat(head, "(", params(method, false, 0), end, body(method, false, 0));
    std::string text;
    const size_t options = static_cast<size_t>(options_);
    for (size_t given = std::min(f_.cpp_required, options); given <= options; ++given)
      absl::StrAppend(&text, head, "(", params(method, true, given), end, body(method, true, given));
    return absl::StrCat(text, head, "(", params(method, false, 0), end, body(method, false, 0));
  }

  // together: options, after the first `given` arguments.
  std::string params(bool method, bool together, size_t given) const {
    std::vector<std::string> parts;
    const bool defaults = !takes_options();
    for (size_t i = 0; i < order_.size(); ++i) {
      const SchemaArgument& a = *order_[i];
      if (method && &a == self_) continue;
      if (together && i >= given && static_cast<int>(i) < options_) continue;
      if (takes_options() && together && static_cast<int>(i) == options_) {
        const bool given = a.default_value->kind != SchemaValue::Kind::kNone;
        parts.push_back(
            absl::StrCat("TensorOptions options = ", given ? constant(a.type.elements[0], *a.default_value) : "{}"));
        i += 3;
        continue;
      }
      std::string part = absl::StrCat(type_of(a.type, written(a)), " ", cpp_identifier(a.name));
      if ((defaults || (together && static_cast<int>(i) > options_)) && i >= f_.cpp_required)
        absl::StrAppend(&part, " = ", default_of(a.type, *a.default_value));
      parts.push_back(std::move(part));
    }
    return absl::StrJoin(parts, ", ");
  }

  std::string body(bool method, bool together, size_t given) const {
    std::vector<std::string> args;
    const bool expand = takes_options() && together;
    const auto options = static_cast<size_t>(std::max(options_, 0));
    const bool is_conversion = method && f_.schema.name == "to";  // takes no options with requires_grad
    for (const SchemaArgument& a : f_.schema.arguments) {
      const std::string name = cpp_identifier(a.name);
      if (method && &a == self_)
        args.push_back("*this");
      else if (expand && is_option(a))
        args.push_back(absl::StrCat("fe::", a.name,
                                    is_conversion && &a == order_[options] ? "(fe::plain(options))" : "(options)"));
      else if (expand && left_out(a, given))
        args.push_back(passes(a.type) ? default_of(a.type, *a.default_value) : "{}");
      else
        args.push_back(passes(a.type) ? name : absl::StrCat("fe::in(", name, ")"));
    }
    const std::string call = absl::StrCat("op::", f_.id, ".call(", absl::StrJoin(args, ", "), ")");
    if (f_.schema.returns.empty()) return absl::StrCat(" { ", call, "; }\n");
    if (returns_written()) return absl::StrCat(" { ", call, "; return ", written_tensors(method), "; }\n");
    if (expand && !method && f_.schema.returns[0].type.is(TypeKind::kTensor))
      return absl::StrCat(" { return fe::made(", call, ", options); }\n");
    const SchemaType& r = f_.schema.returns[0].type;
    const bool direct = f_.schema.returns.size() > 1 || passes(r);
    return absl::StrCat(" { return ", direct ? call : absl::StrCat("fe::out(", call, ")"), "; }\n");
  }
  bool is_option(const SchemaArgument& a) const {
    for (size_t i = 0; i < 4; ++i)
      if (order_[static_cast<size_t>(options_) + i] == &a) return true;
    return false;
  }
  bool left_out(const SchemaArgument& a, size_t given) const {
    for (size_t i = given; static_cast<int>(i) < options_; ++i)
      if (order_[i] == &a) return true;
    return false;
  }
  std::string written_tensors(bool method) const {
    std::vector<std::string> names;
    for (int i : f_.outs()) {
      const SchemaArgument& a = f_.schema.arguments[static_cast<size_t>(i)];
      names.push_back(method && &a == self_ ? "const_cast<Tensor&>(*this)" : cpp_identifier(a.name));
    }
    if (f_.schema.returns.size() == 1) return names.back();
    return absl::StrCat(result(), "(", absl::StrJoin(names, ", "), ")");
  }

  const OpForm& f_;
  std::vector<const SchemaArgument*> order_;
  int options_ = -1;
  const SchemaArgument* self_;
};

std::string documented_name(const OpForm& f) {
  return absl::StrCat(cpp_identifier(f.schema.name), f.form == Form::kOut ? "_out" : "");
}
bool is_method(const OpForm& f) { return f.cpp_method || f.python_method; }
// Whether there is a second name, for sizes that may be symbols: empty_symint.
bool has_symint_name(const OpForm& f) {
  if (f.form == Form::kOut || f.schema.name[0] == '_') return false;
  return std::any_of(f.schema.arguments.begin(), f.schema.arguments.end(), [](const SchemaArgument& a) {
    const SchemaType& t = a.type.without_optional();
    return (t.is_list() ? t.elements[0].without_optional() : t).is(TypeKind::kSymInt);
  });
}
// Names of out forms, with how many tensors are written: add_outf has them last.
std::map<std::string, std::set<size_t>> outf_names(const std::vector<Family>& families) {
  std::map<std::string, std::set<size_t>> names;
  for (const Family& family : families)
    for (const auto& e : family.entries)
      for (const OpForm& f : e->forms)
        if (f.form == Form::kOut && f.schema.name[0] != '_' && Writer::supported(f))
          names[cpp_identifier(f.schema.name)].insert(f.outs().size());
  return names;
}
// torch::nn::init has functions of these names, normal_ and uniform_, that a call in its namespace is to find alone.
bool is_method_alone(const OpForm& f) {
  return !f.python_function && absl::EndsWith(f.schema.name, "_") && f.schema.find_argument("generator") >= 0;
}
// Where one overload is a method, all are.
std::set<std::string> method_names(const std::vector<Family>& families) {
  std::set<std::string> names;
  for (const Family& family : families)
    for (const auto& e : family.entries)
      for (const OpForm& f : e->forms)
        if (is_method(f)) names.insert(documented_name(f));
  return names;
}

}  // namespace

std::string generate_frontend_objects(const std::vector<Family>& families) {
  std::string text = file_comment("all tables");
  absl::StrAppend(&text,
                  "// The operators themselves.\n#pragma once\n\n#include \"tensor/dispatch/op.h\"\n\nnamespace "
                  "tessera::op {\n");
  for (const Family& family : families)
    for (const auto& e : family.entries)
      for (const OpForm& f : e->forms)
        if (Writer::supported(f)) absl::StrAppend(&text, "extern constinit Op<", signature(f), "> ", f.id, ";\n");
  return text + "}  // namespace tessera::op\n";
}

std::string generate_frontend_methods(const std::vector<Family>& families) {
  const std::set<std::string> names = method_names(families);
  std::string text;
  for (const Family& family : families)
    for (const auto& e : family.entries)
      for (const OpForm& f : e->forms)
        if (Writer::supported(f) &&
            (is_method(f) || (f.schema.find_argument("self") >= 0 && f.schema.arguments[0].type.is(TypeKind::kTensor) &&
                              e->op.python_module().empty() && names.count(documented_name(f))))) {
          text += Writer(f).method(documented_name(f));
          if (has_symint_name(f)) text += Writer(f).method(documented_name(f) + "_symint");
        }
  return file_comment("all tables") + "// The operators among the methods of at::Tensor.\n" + text;
}

std::string generate_frontend_functions(const std::vector<Family>& families) {
  std::string text;
  std::map<std::string, std::string> modules;
  absl::StrAppend(&text, "namespace at {\n");
  for (const Family& family : families)
    for (const auto& e : family.entries)
      for (const OpForm& f : e->forms) {
        if (!Writer::supported(f)) continue;
        if (!is_method_alone(f)) text += Writer(f).function(documented_name(f));
        if (has_symint_name(f)) text += Writer(f).function(documented_name(f) + "_symint");
        const std::string& module = e->op.python_module();
        const std::string name = documented_name(f);
        absl::string_view rest = name;
        if ((module == "linalg" || module == "fft" || module == "special") && f.form != Form::kInplace &&
            absl::ConsumePrefix(&rest, module + "_"))
          modules[module] += Writer(f).function(std::string(rest));
      }
  for (const auto& [name, counts] : outf_names(families))
    absl::StrAppend(&text, "TESSERA_OUTF(", name, ", ", absl::StrJoin(counts, ", "), ")\n");
  absl::StrAppend(&text, "}  // namespace at\n");
  for (const auto& [module, functions] : modules)
    absl::StrAppend(&text, "namespace torch::", module, " {\n", functions, "}  // namespace torch::", module, "\n");
  return file_comment("all tables") + "// The operators as functions.\n#pragma once\n\n" + text;
}

}  // namespace tessera::opgen
