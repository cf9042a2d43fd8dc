// Python stubs (.pyi) and the reference page.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/opgen/cpp_types.h"
#include "tools/opgen/generate.h"

namespace tessera::opgen {
namespace {

std::string python_type(const SchemaType& type, bool argument) {
  if (type.is_optional()) return absl::StrCat("Optional[", python_type(type.elements[0], argument), "]");
  switch (type.kind) {
    case TypeKind::kTensor:
      return "Tensor";
    case TypeKind::kInt:
      return "_int";
    case TypeKind::kSymInt:
      return argument ? "Union[_int, SymInt]" : "_int";
    case TypeKind::kFloat:
      return "_float";
    case TypeKind::kBool:
      return "_bool";
    case TypeKind::kScalar:
      return "Number";
    case TypeKind::kStr:
    case TypeKind::kDimname:
      return "str";
    case TypeKind::kScalarType:
      return "_dtype";
    case TypeKind::kLayout:
      return "_layout";
    case TypeKind::kMemoryFormat:
      return "memory_format";
    case TypeKind::kDevice:
      return argument ? "DeviceLike" : "_device";
    case TypeKind::kGenerator:
      return "Generator";
    case TypeKind::kStorage:
      return "Storage";
    case TypeKind::kList: {
      const std::string element = python_type(type.elements[0], argument);
      if (!argument) return absl::StrCat("Tuple[", element, ", ...]");
      const std::string list = type.elements[0].is(TypeKind::kTensor) ? "Union[Tuple[Tensor, ...], List[Tensor]]"
                                                                      : absl::StrCat("Sequence[", element, "]");
      return type.size >= 0 ? absl::StrCat("Union[", element, ", ", list, "]") : list;
    }
    default:
      return "Any";
  }
}

std::string python_default(const SchemaValue& v) {
  switch (v.kind) {
    case SchemaValue::Kind::kEnum:
      return "...";
    case SchemaValue::Kind::kDevice:
      return cpp_string(v.s);
    case SchemaValue::Kind::kList: {
      std::vector<std::string> parts;
      for (const SchemaValue& e : v.list) parts.push_back(python_default(e));
      return absl::StrCat("(", absl::StrJoin(parts, ", "), parts.size() == 1 ? ",)" : ")");
    }
    case SchemaValue::Kind::kFloat: {
      const std::optional<std::string> text = cpp_default(parse_schema_type("float"), v);
      return text->find("std::") == std::string::npos ? *text : "...";
    }
    default:
      return v.str();
  }
}

std::string python_return(const FunctionSchema& s) {
  if (s.returns.empty()) return "None";
  if (s.returns.size() == 1) return python_type(s.returns[0].type, false);
  std::vector<std::string> parts;
  for (const SchemaArgument& r : s.returns) parts.push_back(python_type(r.type, false));
  return absl::StrCat("Tuple[", absl::StrJoin(parts, ", "), "]");
}

bool python_keyword(const std::string& name) {
  static const std::set<std::string> kWords = {"from", "lambda", "is",    "in",     "not",    "and",  "or",
                                               "if",   "else",   "def",   "class",  "global", "pass", "return",
                                               "None", "True",   "False", "import", "as",     "with", "yield"};
  return kWords.count(name) > 0;
}

// The name that the documents give an argument (Op::documented); empty: the schema's.
std::string documented_name(const OpForm& f, const std::string& name, bool method) {
  const std::string from = absl::StrCat(method ? "." : "", name, "=");
  for (const std::string& entry : f.entry->op.documented())
    if (absl::StartsWith(entry, from)) return entry.substr(from.size());
  return "";
}
std::string shown_argument(const OpForm& f, const std::string& name, bool method) {
  if (const std::string documented = documented_name(f, name, method); !documented.empty()) return documented;
  return python_keyword(name) ? name + "_" : name == "self" ? "input" : name;
}

// One stub. The out= form is a function whose `out` is a keyword; a method has self first.
// `out` among the keyword arguments of a function that also has a plain form: the out= form itself gets no stub then.
std::string out_parameter(const OpForm& f) {
  const OpForm* out = f.form == Form::kFunctional ? f.entry->find(Form::kOut) : nullptr;
  return out && !f.entry->op.has_out_schema() ? absl::StrCat("out: Optional[", python_return(f.schema), "] = None")
                                              : "";
}
bool covered_by_functional(const OpForm& f) {
  return f.form == Form::kOut && f.derived && !f.entry->op.has_out_schema();
}

// The int list that may be given as several ints, zeros(2, 3): the only positional argument besides self. -1: none.
int spread_argument(const OpForm& f, bool method) {
  int found = -1, positional = 0;
  for (size_t i = 0; i < f.schema.arguments.size(); ++i) {
    const SchemaArgument& a = f.schema.arguments[i];
    if (a.kwarg_only || (a.name == "self" && method)) continue;
    ++positional;
    const SchemaType& t = a.type.is_optional() ? a.type.elements[0] : a.type;
    if (t.is_list() && (t.elements[0].is(TypeKind::kInt) || t.elements[0].is(TypeKind::kSymInt)))
      found = static_cast<int>(i);
  }
  return positional == 1 ? found : -1;
}

std::string stub(const OpForm& f, bool method, bool overloaded, bool spread, const std::string& indent) {
  std::vector<std::string> parts;
  const int self = f.schema.find_argument("self");
  if (method) parts.push_back("self");
  bool star = false;
  const size_t outs = f.form == Form::kOut ? f.outs().size() : 0;
  for (size_t i = 0; i < f.schema.arguments.size(); ++i) {
    const SchemaArgument& a = f.schema.arguments[i];
    if (outs > 1 && a.is_write()) continue;  // Python passes them as one tuple, `out`
    if (method && static_cast<int>(i) == std::max(self, 0)) continue;
    if (a.kwarg_only && !star && documented_name(f, a.name, method) != a.name) parts.push_back("*"), star = true;
    const std::string name = shown_argument(f, a.name, method);
    if (spread && static_cast<int>(i) == spread_argument(f, method)) {
      parts.push_back(absl::StrCat("*", name, ": _int"));
      star = true;  // what follows is named
      continue;
    }
    parts.push_back(absl::StrCat(name, ": ", python_type(a.type, true),
                                 a.default_value ? absl::StrCat(" = ", python_default(*a.default_value)) : ""));
  }
  if (const std::string out = method ? "" : out_parameter(f); !out.empty()) {
    if (!star) parts.push_back("*");
    parts.push_back(out);
  }
  if (f.schema.find_argument("pin_memory") >= 0) parts.push_back("requires_grad: _bool = False");
  if (outs > 1) {
    if (!star) parts.push_back("*");
    parts.push_back(absl::StrCat("out: ", python_return(f.schema)));
  }
  return absl::StrCat(overloaded ? indent + "@overload\n" : "", indent, "def ", f.python_name, "(",
                      absl::StrJoin(parts, ", "), ") -> ", python_return(f.schema), ": ...\n");
}

std::string stubs_of(const std::map<std::string, std::vector<const OpForm*>>& by_name, bool method,
                     const std::string& indent) {
  std::string out;
  for (const auto& [name, forms] : by_name) {
    if (python_keyword(name)) continue;  // reachable with getattr only
    const bool overloaded = forms.size() > 1 || std::any_of(forms.begin(), forms.end(), [&](const OpForm* f) {
                              return spread_argument(*f, method) >= 0;
                            });
    for (const OpForm* f : forms) {
      out += stub(*f, method, overloaded, false, indent);
      if (spread_argument(*f, method) >= 0) out += stub(*f, method, overloaded, true, indent);
    }
  }
  return out;
}

}  // namespace

std::string generate_stubs(const std::vector<Family>& families) {
  std::map<std::string, std::map<std::string, std::vector<const OpForm*>>> functions;  // by module
  std::map<std::string, std::vector<const OpForm*>> methods;
  for (const Family& family : families)
    for (const auto& e : family.entries)
      for (const OpForm& f : e->forms) {
        if (f.python_function && !covered_by_functional(f))
          functions[e->op.python_module()][f.python_name].push_back(&f);
        if (f.python_method) methods[f.python_name].push_back(&f);
      }
  std::string out =
      "# Generated by opgen from the op tables. Do not edit.\n"
      "from typing import Any, List, Optional, Sequence, Tuple, Union, overload\n\n"
      "from tessera import Generator, SymInt, Tensor, device as _device, dtype as _dtype, layout as _layout, "
      "memory_format\n"
      "from tessera.types import Device as DeviceLike, Number, Storage, _bool, _float, _int\n\n";
  out += "class _TensorBase:\n" + (methods.empty() ? std::string("    ...\n") : stubs_of(methods, true, "    "));
  for (const auto& [module, names] : functions) {
    if (module.empty())
      out += "\n" + stubs_of(names, false, "");
    else
      absl::StrAppend(
          &out, "\nclass _", module, ":\n",
          absl::StrReplaceAll(stubs_of(names, false, "    "), {{"    def ", "    @staticmethod\n    def "}}));
  }
  return out;
}

std::string generate_reference(const std::vector<Family>& families) {
  std::string out =
      "# Operators\n\nGenerated by opgen from the op tables. Rule: how the operator's kernels come about "
      "(tools/opgen/README.md).\n";
  for (const Family& family : families) {
    absl::StrAppend(&out, "\n## ", family.name, "\n\nTable: `", family.path, "`\n");
    for (const auto& e : family.entries) {
      absl::StrAppend(&out, "\n### ", e->qualified, "\n\n");
      if (!e->op.doc().empty()) absl::StrAppend(&out, e->op.doc(), "\n\n");
      for (const OpForm& f : e->forms) absl::StrAppend(&out, "    ", f.schema.str(), "\n");
      absl::StrAppend(&out, "\n- rule: ", Op::Rule_Name(e->op.rule()), "; source: `", e->path, ":", e->line, "`\n");
      std::vector<std::string> where;
      const std::string module =
          e->op.python_module().empty() ? "tessera" : absl::StrCat("tessera._C._", e->op.python_module());
      if (e->forms[0].python_function) where.push_back(absl::StrCat("`", module, ".", e->forms[0].python_name, "`"));
      for (const OpForm& f : e->forms)
        if (f.python_method) where.push_back(absl::StrCat("`Tensor.", f.python_name, "`"));
      if (!where.empty()) absl::StrAppend(&out, "- Python: ", absl::StrJoin(where, ", "), "\n");
      if (e->op.tags_size()) absl::StrAppend(&out, "- tags: ", absl::StrJoin(e->op.tags(), ", "), "\n");
      for (const Derivative& d : e->op.derivative())
        absl::StrAppend(&out, "- derivative of ", absl::StrJoin(d.input(), ", "), ": `", d.formula(), "`\n");
      if (const std::string rule = forward_text(*e); !rule.empty())
        absl::StrAppend(&out, "- forward mode: ", rule, "\n");
      if (e->has_derivatives()) absl::StrAppend(&out, "- node: `", e->node, "`\n");
      if (e->op.not_differentiable()) out += "- not differentiable\n";
      if (e->op.numbers() != Op::BOTH)
        absl::StrAppend(&out, "- floating arguments: ", e->op.numbers() == Op::REAL ? "real" : "complex", "\n");
    }
  }
  return out;
}

}  // namespace tessera::opgen
