// Op objects, the C++ API, and the kernels that put hand-written functions behind an op's signature.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "tools/opgen/cpp_types.h"
#include "tools/opgen/formula.h"
#include "tools/opgen/generate.h"

namespace tessera::opgen {
namespace {

constexpr char kTarget[] = "@target";

std::string return_type(const OpForm& f) { return *cpp_return_type(f.schema); }

// Arguments without those that out= adds: what the hand-written functions of the functional form take.
std::string functional_args(const OpForm& f) {
  std::vector<std::string> names;
  for (const SchemaArgument& a : f.schema.arguments)
    if (!(f.form == Form::kOut && a.is_write())) names.push_back(cpp_identifier(a.name));
  return absl::StrJoin(names, ", ");
}

std::vector<std::string> out_names(const OpForm& f) {
  std::vector<std::string> names;
  for (int i : f.outs()) names.push_back(cpp_identifier(f.schema.arguments[static_cast<size_t>(i)].name));
  return names;
}

std::string comma(const std::string& a, const std::string& b) {
  return a.empty() ? b : b.empty() ? a : absl::StrCat(a, ", ", b);
}

// What the kernel of an in-place or out= form returns.
std::string return_written(const OpForm& f) {
  if (f.schema.returns.empty()) return "";
  const std::vector<std::string> outs = out_names(f);
  if (f.schema.returns.size() == 1) return absl::StrCat("  return ", outs[0], ";\n");
  return absl::StrCat("  return {", absl::StrJoin(outs, ", "), "};\n");
}

class Glue {
 public:
  explicit Glue(const OpForm& form) : f_(form), e_(*form.entry), op_(form.entry->op) {}

  // The function behind the op's slots.
  std::string kernel() const {
    std::string text;
    switch (op_.rule()) {
      case Op::POINTWISE:
        text = pointwise();
        break;
      case Op::STRUCTURED:
        text = structured();
        break;
      case Op::VIEW:
        text = view();
        break;
      case Op::COMPOSITE:
        text = composite();
        break;
      case Op::DIRECT:
        text = direct();
        break;
      case Op::SCALAR_OVERLOAD:
        text = scalar_overload();
        break;
    }
    std::string params = kernel_params(f_);
    params.replace(0, params.find(',') == std::string::npos ? params.size() : params.find(','),
                   op_.rule() == Op::STRUCTURED ? "CallContext ctx_" : "CallContext");
    return absl::StrCat(return_type(f_), " k_", f_.id, "(", params, ") {\n", with_options(text), "}\n");
  }

  // Whether the kernel calls tensor/ops/options.h.
  bool has_options() const { return find_argument(TypeKind::kLayout) != nullptr; }

  // The callee as written, or the default name; plain names are declared in <family>_kernels.h.
  std::string callee(const std::string& given, const char* suffix) const {
    return given.empty() ? absl::StrCat(e_.id(), suffix) : given;
  }

  // Declarations of the hand-written functions that this form needs.
  std::vector<std::string> declarations() const {
    std::vector<std::string> out;
    auto declare = [&](const std::string& result, const std::string& name, const std::string& params) {
      if (is_plain_identifier(name)) out.push_back(absl::StrCat(result, " ", name, "(", params, ");"));
    };
    const std::string params = param_list(f_, true);
    const bool base = !f_.derived;
    switch (op_.rule()) {
      case Op::POINTWISE:
        if (base && op_.has_check()) declare("void", op_.check(), params);
        break;
      case Op::STRUCTURED:
        if (!base) break;
        declare(spec_type(), callee(op_.meta(), "_meta"), params);
        declare("void", callee(op_.kernel(), "_kernel"), comma(params, kernel_outs()));
        break;
      case Op::VIEW:
        if (base) declare(return_type(f_), callee(op_.view(), "_view"), params);
        break;
      case Op::COMPOSITE:
        if (base && !op_.has_expr()) declare(return_type(f_), callee(op_.composite(), "_composite"), params);
        break;
      case Op::DIRECT:
        if (base) {
          declare(return_type(f_), callee(op_.kernel(), "_kernel"), params);
          if (op_.has_meta()) declare(return_type(f_), op_.meta(), params);
        } else if (own_kernel()) {
          declare(return_type(f_), f_.id + "_kernel", params);
        }
        break;
      case Op::SCALAR_OVERLOAD:
        break;
    }
    return out;
  }

  // The initialiser of the slots: cpu, cuda, meta, autograd, forward, autocast, composite explicit, composite implicit.
  std::string slots() const {
    const std::string k = absl::StrCat("&kernels::k_", f_.id);
    std::vector<std::string> s(8, "nullptr");
    if (f_.has_autograd) {
      s[3] = absl::StrCat("&op_autograd::", f_.id);
      s[4] = absl::StrCat("&op_forward::", f_.id);
    }
    switch (op_.rule()) {
      case Op::POINTWISE:
      case Op::STRUCTURED:
        s[0] = s[1] = s[2] = k;
        break;
      case Op::VIEW:
        s[6] = k;
        break;
      case Op::COMPOSITE:
        s[e_.has_derivatives() ? 6 : 7] = k;
        break;
      case Op::SCALAR_OVERLOAD:
        s[7] = k;
        break;
      case Op::DIRECT:
        if (!f_.derived || own_kernel()) {
          if (op_.backends() == Op::ALL) {
            s[6] = k;
          } else {
            s[0] = s[1] = k;
            if (op_.has_meta() && !f_.derived) s[2] = "&kernels::m_" + f_.id;
          }
        } else {
          s[6] = k;  // through other ops
        }
        break;
    }
    return absl::StrCat("{", absl::StrJoin(s, ", "), "}");
  }

  std::string meta_kernel() const {
    if (op_.rule() != Op::DIRECT || !op_.has_meta() || f_.derived || op_.backends() == Op::ALL) return "";
    const std::string call = absl::StrCat(op_.meta(), "(", arg_names(f_), ");");
    std::string body = absl::StrCat(" return ", call, " ");
    if (f_.form != Form::kFunctional) {
      body = absl::StrCat("\n  ", call, "\n");
      for (const std::string& out : out_names(f_)) absl::StrAppend(&body, "  structured::bump_version(", out, ");\n");
      body += return_written(f_);
    }
    return absl::StrCat(return_type(f_), " m_", f_.id, "(CallContext",
                        comma("", param_list(f_, true)).empty() ? "" : ", ", param_list(f_, true), ") {", body, "}\n");
  }

  std::string flags() const {
    std::vector<std::string> out;
    if (op_.handles_conj() || op_.rule() == Op::VIEW) out.push_back("kHandlesConj");
    if (op_.rule() == Op::VIEW) out.push_back("kIsView");
    if (f_.form == Form::kInplace) out.push_back("kIsInplace");
    if (f_.form == Form::kOut) out.push_back("kIsOut");
    const auto& args = f_.schema.arguments;
    if (std::none_of(args.begin(), args.end(),
                     [](const SchemaArgument& a) { return is_tensor(a.type) || is_tensor_list(a.type); }))
      out.push_back("kIsFactory");
    return out.empty() ? "0" : absl::StrJoin(out, " | ");
  }

 private:
  const SchemaArgument* find_argument(TypeKind kind, std::string_view name = {}) const {
    for (const SchemaArgument& a : f_.schema.arguments)
      if (a.type.without_optional().kind == kind && (name.empty() || a.name == name)) return &a;
    return nullptr;
  }

  // A kernel's text with what all makers of tensors share: layout and out= are checked first, the result is pinned if
  // that is wanted.
  std::string with_options(const std::string& text) const {
    const SchemaArgument* layout = find_argument(TypeKind::kLayout);
    if (!layout) return text;
    std::string check;
    if (!op_.checks_layout())
      check = absl::StrCat("  options::check_layout(", cpp_string(f_.schema.name), ", ", cpp_identifier(layout->name),
                           ");\n");
    if (f_.form == Form::kOut) {
      const SchemaArgument *dtype = find_argument(TypeKind::kScalarType), *device = find_argument(TypeKind::kDevice),
                           *format = find_argument(TypeKind::kMemoryFormat);
      if (dtype && device)
        absl::StrAppend(&check, "  options::check_out(", out_names(f_)[0], ", ", cpp_identifier(dtype->name), ", ",
                        cpp_identifier(device->name), format ? ", " + cpp_identifier(format->name) : "", ");\n");
    }
    const SchemaArgument* pin = find_argument(TypeKind::kBool, "pin_memory");
    if (!pin || f_.form != Form::kFunctional || return_type(f_) != "Tensor") return check + text;
    return absl::StrCat(check, "  const auto make_ = [&]() -> Tensor {\n", text,
                        "  };\n  return options::pinned(make_(), ", cpp_identifier(pin->name), ");\n");
  }

  // A derived form of a DIRECT op that has a hand-written kernel.
  bool own_kernel() const {
    if (!f_.derived) return true;
    return f_.form == Form::kInplace ? !op_.inplace_by_copy() && !op_.has_inplace_expr() : op_.out_native();
  }

  std::string spec_type() const {
    return e_.schema.returns.size() == 1 ? "OutputSpec"
                                         : absl::StrCat("std::array<OutputSpec, ", e_.schema.returns.size(), ">");
  }

  std::string kernel_outs() const {
    if (e_.schema.returns.size() == 1) return "const Tensor& out";
    std::vector<std::string> parts;
    for (size_t i = 0; i < e_.schema.returns.size(); ++i) parts.push_back(absl::StrCat("const Tensor& out", i));
    return absl::StrJoin(parts, ", ");
  }

  std::string pointwise() const {
    std::vector<std::string> inputs, params;
    for (const SchemaArgument& a : f_.schema.arguments) {
      if (f_.form == Form::kOut && a.is_write()) continue;
      const std::string name = cpp_identifier(a.name);
      if (is_tensor(a.type))
        inputs.push_back("&" + name);
      else if (a.type.is(TypeKind::kScalar) || a.type.is(TypeKind::kFloat) || a.type.is(TypeKind::kInt) ||
               a.type.is(TypeKind::kBool))
        params.push_back(name);
    }
    std::string notes, text;
    if (op_.param_size()) {
      params.assign(op_.param().begin(), op_.param().end());
      notes = line_note(e_, e_.line_of("param"));
    }
    if (op_.no_params()) params.clear();
    if (op_.has_check()) absl::StrAppend(&text, "  ", op_.check(), "(", functional_args(f_), ");\n");
    const std::string kernel = absl::StrCat("pw::", op_.has_kernel() ? op_.kernel() : e_.schema.name);
    std::string tail = absl::StrCat("{", absl::StrJoin(inputs, ", "), "}");
    if (!params.empty()) absl::StrAppend(&tail, ", {", absl::StrJoin(params, ", "), "}");
    text += notes;
    if (f_.form == Form::kFunctional)
      absl::StrAppend(&text, "  return pointwise::functional(", kernel, ", ", tail, ");\n");
    else if (f_.form == Form::kInplace)
      absl::StrAppend(&text, "  return pointwise::inplace(", kernel, ", ", out_names(f_)[0], ", ", tail, ");\n");
    else
      absl::StrAppend(&text, "  return pointwise::out(", kernel, ", ", out_names(f_)[0], ", ", out_dtype(), ", ", tail,
                      ");\n");
    return notes.empty() ? text : text + kLineBack;
  }

  std::string structured() const {
    const std::string args = functional_args(f_);
    const std::string meta = absl::StrCat(callee(op_.meta(), "_meta"), "(", args, ")");
    const std::string kernel = callee(op_.kernel(), "_kernel");
    const size_t n = e_.schema.returns.size();
    auto spec = [&](size_t i) { return n == 1 ? std::string("spec_") : absl::StrCat("spec_[", i, "]"); };
    std::string text = absl::StrCat("  const ", spec_type(), " spec_ = ", meta, ";\n");
    std::vector<std::string> targets;
    if (f_.form == Form::kFunctional) {
      for (size_t i = 0; i < n; ++i) {
        targets.push_back(n == 1 ? "out_" : absl::StrCat("out", i, "_"));
        absl::StrAppend(&text, "  Tensor ", targets[i], " = empty_from(", spec(i), ");\n");
      }
      absl::StrAppend(&text, "  if (structured::computes(ctx_, ", targets[0], ")) ", kernel, "(",
                      comma(args, absl::StrJoin(targets, ", ")), ");\n");
      const std::string all = absl::StrJoin(targets, ", ");
      return absl::StrCat(
          text, n == 1 ? "  return out_;\n"
                       : absl::StrCat("  return {", absl::StrReplaceAll(all, {{"out", "std::move(out"}, {",", "),"}}),
                                      ")};\n"));
    }
    const std::vector<std::string> outs = out_names(f_);
    const bool inplace = f_.form == Form::kInplace;
    for (size_t i = 0; i < n; ++i) {
      const std::string g = absl::StrCat("g", i, "_");
      absl::StrAppend(&text, "  structured::", inplace ? "InplaceGuard " : "OutGuard ", g, "(", outs[i], ", ", spec(i),
                      ", ", inplace ? (op_.inplace_safe() ? "true" : "false") : out_dtype(), ");\n");
      for (size_t k = 0; k < i; ++k)
        absl::StrAppend(&text, "  structured::check_apart(", outs[i], ", ", outs[k], ");\n");
      absl::StrAppend(&text, apart(outs[i]), input_notes(g));
      targets.push_back(g + ".tensor()");
    }
    absl::StrAppend(&text, "  if (structured::computes(ctx_, ", outs[0], ")) ", kernel, "(",
                    comma(args, absl::StrJoin(targets, ", ")), ");\n");
    for (size_t i = 0; i < n; ++i) absl::StrAppend(&text, "  g", i, "_.finish();\n");
    return text + return_written(f_);
  }

  // The tensors that a form reads besides what it writes: (name, whether it may be the same elements as what is
  // written).
  std::vector<std::pair<std::string, bool>> inputs() const {
    std::vector<std::pair<std::string, bool>> found;
    for (const SchemaArgument& a : f_.schema.arguments)
      if (!a.is_write() && (is_tensor(a.type) || is_tensor_list(a.type)))
        found.push_back({cpp_identifier(a.name), a.name == "self" && e_.find(Form::kInplace)});
    return found;
  }

  // For ops that must not write to what they read.
  std::string apart(const std::string& out) const {
    std::string text;
    if (!op_.out_apart()) return text;
    for (const auto& [name, may_be_same] : inputs())
      absl::StrAppend(&text, may_be_same ? "  check_no_partial_overlap(" : "  structured::check_apart(", out, ", ",
                      name, ");\n");
    return text;
  }

  // Tells the guard of an output which tensors are read, so that it can use a temporary.
  std::string input_notes(const std::string& guard) const {
    std::string text;
    for (const auto& [name, may_be_same] : inputs()) absl::StrAppend(&text, "  ", guard, ".reads(", name, ");\n");
    return text;
  }

  // The dtypes of out= that a result is written to: an expression.
  std::string out_dtype() const {
    const Op::OutDtype kind = op_.has_out_dtype()                                        ? op_.out_dtype()
                              : op_.rule() == Op::STRUCTURED || op_.rule() == Op::DIRECT ? Op::SAME
                                                                                         : Op::CAST;
    if (kind == Op::SAME) return "OutDtype::kSame";
    if (kind == Op::SAME_OR_BYTE) return "OutDtype::kSameOrByte";
    for (const SchemaArgument& a : f_.schema.arguments)
      if (a.name == "dtype" && a.type.is_optional()) return "dtype ? OutDtype::kSame : OutDtype::kCast";
    return "OutDtype::kCast";
  }

  std::string view() const {
    const std::string call = absl::StrCat(callee(op_.view(), "_view"), "(", arg_names(f_), ")");
    if (!f_.schema.returns[0].type.is_list()) return absl::StrCat("  return ", call, ";\n");
    return absl::StrCat("  return structured::multi_output_views(", call, ");\n");
  }

  std::string functional_expr(std::string* before, std::string* after) const {
    if (!op_.has_expr()) return absl::StrCat(callee(op_.composite(), "_composite"), "(", functional_args(f_), ")");
    *before = line_note(e_, e_.line_of("expr"));
    *after = kLineBack;
    return op_.expr();
  }

  // In-place and out= forms that compute first and copy then. recorded: the history is that of the operators which
  // compute.
  std::string store(const std::string& before, const std::string& value, const std::string& after,
                    bool recorded) const {
    const char* how = f_.form == Form::kInplace ? "structured::store_inplace" : "structured::store_out";
    const std::vector<std::string> outs = out_names(f_);
    const std::string accepted = f_.form == Form::kOut ? ", " + out_dtype() : "";
    std::string text;
    for (const std::string& out : outs) text += apart(out);
    if (outs.size() == 1 && f_.form == Form::kInplace && recorded) {
      std::vector<std::string> from = {outs[0]};
      for (const SchemaArgument& a : f_.schema.arguments)
        if ((is_tensor(a.type) || is_tensor_list(a.type)) && cpp_identifier(a.name) != outs[0])
          from.push_back(cpp_identifier(a.name));
      return absl::StrCat(text, before, "  structured::store_inplace(", outs[0], ", [&](const Tensor& ", outs[0],
                          ") { return ", value, "; }(structured::before_write(", absl::StrJoin(from, ", "), ")));\n",
                          after, return_written(f_));
    }
    if (outs.size() == 1)
      return absl::StrCat(text, before, "  ", how, "(", outs[0], ", ", value, accepted, ");\n", after,
                          return_written(f_));
    absl::StrAppend(&text, before, "  const auto values_ = ", value, ";\n", after);
    // Nothing is written before everything is checked.
    for (size_t i = 0; i < outs.size() && f_.form == Form::kOut; ++i) {
      absl::StrAppend(&text, "  structured::check_out(", outs[i], ", std::get<", i, ">(values_)", accepted, ");\n");
      for (size_t k = 0; k < i; ++k)
        absl::StrAppend(&text, "  structured::check_apart(", outs[i], ", ", outs[k], ");\n");
    }
    for (size_t i = 0; i < outs.size(); ++i)
      absl::StrAppend(&text, "  ", how, "(", outs[i], ", std::get<", i, ">(values_)", accepted, ");\n");
    return text + return_written(f_);
  }

  std::string special_expr(const char* field, const std::string& expr) const {
    // Factories have no kernel in the Autograd slot, which would ask this.
    const std::string check = f_.form == Form::kOut && inputs().empty()
                                  ? absl::StrCat("  structured::check_factory_out(", cpp_string(e_.schema.name), ", ",
                                                 out_names(f_)[0], ");\n")
                                  : "";
    return absl::StrCat(check, line_note(e_, e_.line_of(field)), "  ", expr, ";\n", kLineBack, return_written(f_));
  }

  std::string composite() const {
    if (f_.derived && f_.form == Form::kInplace && op_.has_inplace_expr())
      return special_expr("inplace_expr", op_.inplace_expr());
    if (f_.derived && f_.form == Form::kOut && op_.has_out_expr()) return special_expr("out_expr", op_.out_expr());
    std::string before, after;
    const std::string value = functional_expr(&before, &after);
    if (f_.derived) return store(before, value, after, /*recorded=*/!e_.has_derivatives());
    if (f_.form == Form::kFunctional || !op_.has_expr()) return absl::StrCat(before, "  return ", value, ";\n", after);
    return absl::StrCat(before, "  ", value, ";\n", after, return_written(f_));  // an expression for its effect
  }

  std::string direct() const {
    if (f_.derived && f_.form == Form::kInplace && op_.has_inplace_expr())
      return special_expr("inplace_expr", op_.inplace_expr());
    if (f_.derived && f_.form == Form::kOut && op_.has_out_expr()) return special_expr("out_expr", op_.out_expr());
    if (!f_.derived || own_kernel()) {
      const std::string call =
          absl::StrCat(f_.derived ? f_.id + "_kernel" : callee(op_.kernel(), "_kernel"), "(", arg_names(f_), ")");
      if (f_.form == Form::kFunctional) return absl::StrCat("  return ", call, ";\n");
      std::string text = absl::StrCat("  ", call, ";\n");
      if (!op_.cuts_history())
        for (const std::string& out : out_names(f_)) absl::StrAppend(&text, "  structured::bump_version(", out, ");\n");
      return text + return_written(f_);
    }
    const OpForm& functional = *e_.find(Form::kFunctional);
    return store("", absl::StrCat("op::", functional.id, ".call(", functional_args(f_), ")"), "", /*recorded=*/false);
  }

  std::string scalar_overload() const {
    std::vector<std::string> args;
    for (const SchemaArgument& a : f_.schema.arguments) {
      const std::string name = cpp_identifier(a.name);
      args.push_back(a.name == op_.scalar() ? absl::StrCat("wrapped_number(", name, ")") : name);
    }
    return absl::StrCat("  return op::", kTarget, ".call(", absl::StrJoin(args, ", "), ");\n");  // see resolve_target
  }

  const OpForm& f_;
  const Entry& e_;
  const Op& op_;
};

std::string op_type(const OpForm& f) { return absl::StrCat("Op<", signature(f), ">"); }

// Which argument is *this in a method.
const SchemaArgument* self_argument(const OpForm& f) {
  const int index = f.schema.find_argument("self");
  return &f.schema.arguments[index >= 0 ? static_cast<size_t>(index) : 0];
}

std::string call_args(const OpForm& f, bool method) {
  std::vector<std::string> names;
  for (const SchemaArgument& a : f.schema.arguments)
    names.push_back(method && &a == self_argument(f) ? "*this" : cpp_identifier(a.name));
  return absl::StrJoin(names, ", ");
}

std::string doc_comment(const Entry& e) {
  return e.op.doc().empty() ? "" : absl::StrCat("// ", absl::StrReplaceAll(e.op.doc(), {{"\n", "\n// "}}), "\n");
}

void ops_header(const Library& library, const Family& family, Files* files) {
  std::string objects, functions, methods;
  for (const auto& e : family.entries) {
    functions += doc_comment(*e);
    for (const OpForm& f : e->forms) {
      absl::StrAppend(&objects, "extern constinit ", op_type(f), " ", f.id, ";\n");
      const std::string ret = return_type(f);
      absl::StrAppend(&functions, "inline ", ret, " ", f.cpp_name, "(", api_params(f, false, true),
                      ") { return op::", f.id, ".call(", call_args(f, false), "); }\n");
      if (f.cpp_method)
        absl::StrAppend(&methods, "inline ", ret, " Tensor::", f.cpp_name, "(", api_params(f, true, false),
                        ") const { return op::", f.id, ".call(", call_args(f, true), "); }\n");
    }
  }
  (*files)[family.name + "_ops.h"] =
      absl::StrCat(file_comment(family.path),
                   "#pragma once\n\n#include <array>\n#include <limits>\n#include <tuple>\n#include "
                   "<vector>\n\n#include \"tensor/core/tensor.h\"\n#include \"tensor/dispatch/op.h\"\n\n",
                   "namespace tessera {\nnamespace op {\n", objects, "}  // namespace op\n\n", functions, "\n", methods,
                   "}  // namespace tessera\n");
}

void kernels_header(const Family& family, Files* files) {
  std::vector<std::string> seen;
  std::string text;
  for (const auto& e : family.entries)
    for (const OpForm& f : e->forms)
      for (const std::string& d : Glue(f).declarations()) {
        if (std::find(seen.begin(), seen.end(), d) != seen.end()) continue;
        seen.push_back(d);
        absl::StrAppend(&text, d, "\n");
      }
  (*files)[family.name + "_kernels.h"] =
      absl::StrCat(file_comment(family.path),
                   "// The functions that this table expects somebody to write.\n#pragma once\n\n#include "
                   "<array>\n#include <tuple>\n#include <vector>\n\n#include \"tensor/core/tensor.h\"\n\n",
                   "namespace tessera::kernels {\n", text, "}  // namespace tessera::kernels\n");
}

std::string weak(const std::string& declaration) {
  return absl::StrCat("[[gnu::weak, gnu::visibility(\"hidden\")]] ", declaration, ";\n");
}

// The object that a SCALAR_OVERLOAD calls: the same form of its target.
std::string resolve_target(std::string kernel, const OpForm& f, const Library& library) {
  if (kernel.find(kTarget) == std::string::npos) return kernel;
  for (const Family& family : library.families)
    for (const auto& e : family.entries)
      if (e->qualified == f.entry->op.of())
        if (const OpForm* target = e->find(f.form)) return absl::StrReplaceAll(kernel, {{kTarget, target->id}});
  return kernel;
}

void ops_source(const Library& library, const Family& family, int index, Files* files) {
  std::string weaks_differentiation, weaks_info, kernels, objects;
  std::set<std::string> pointwise;
  bool options = false;
  for (const OpForm* form : shard(family, index, library.shards)) {
    const OpForm& f = *form;
    const Glue glue(f);
    options |= glue.has_options();
    const std::string ret = return_type(f), params = kernel_params(f);
    if (f.has_autograd) weaks_differentiation += weak(absl::StrCat(ret, " ", f.id, "(", params, ")"));
    if (f.entry->op.rule() == Op::POINTWISE)
      pointwise.insert(f.entry->op.has_kernel() ? f.entry->op.kernel() : f.entry->schema.name);
    weaks_info += weak(absl::StrCat("extern const OpInfo ", f.id));
    absl::StrAppend(&kernels, resolve_target(glue.kernel(), f, library), glue.meta_kernel());
    uint64_t mask = 0;
    for (int i : f.outs()) mask |= uint64_t{1} << i;
    const std::string& ns = family.table.op_namespace();
    absl::StrAppend(&objects, "constinit ", op_type(f), " ", f.id, "{{", cpp_string(ns + "::" + f.schema.name), ", ",
                    cpp_string(f.schema.overload), ", &op_info::", f.id, ", ", mask, ", ", glue.flags(), "}, ",
                    glue.slots(), "};\n");
  }
  std::string tables;
  for (const std::string& p : pointwise)
    if (is_plain_identifier(p)) absl::StrAppend(&tables, "extern const PointwiseOp ", p, ";\n");
  std::string includes = options ? "#include \"tensor/ops/options.h\"\n" : "";
  for (const std::string& h : family.table.include()) absl::StrAppend(&includes, "#include \"", h, "\"\n");
  const std::string name = absl::StrCat(family.name, "_ops_", index, ".cc");
  (*files)[name] = resolve_line_notes(
      absl::StrCat(
          file_comment(family.path), "#include \"", library.package, "/", library.header, "\"\n#include \"",
          library.package, "/", family.name,
          "_kernels.h\"\n#include \"tensor/ops/pointwise.h\"\n#include \"tensor/ops/structured.h\"\n", includes,
          "\nnamespace tessera {\n\n// Null unless the autograd, forward or registry library is linked.\nnamespace "
          "op_autograd {\n",
          weaks_differentiation, "}\nnamespace op_forward {\n", weaks_differentiation, "}\nnamespace op_info {\n",
          weaks_info, "}\nnamespace pw {\n", tables, "}\n\nnamespace kernels {\nnamespace {\n\n", kernels,
          "\n}  // namespace\n}  // namespace kernels\n\nnamespace op {\n", objects,
          "}  // namespace op\n}  // namespace tessera\n"),
      name);
}

}  // namespace

std::string file_comment(const std::string& source) {
  return absl::StrCat("// Generated by opgen from ", source, ". Do not edit.\n");
}

std::string api_params(const OpForm& form, bool method, bool defaults) {
  const std::vector<const SchemaArgument*> order = form.api_order();
  std::vector<std::string> parts;
  for (size_t i = 0; i < order.size(); ++i) {
    if (method && order[i] == self_argument(form)) continue;
    std::string part = absl::StrCat(*cpp_arg_type(order[i]->type), " ", cpp_identifier(order[i]->name));
    if (defaults && i >= form.cpp_required)
      absl::StrAppend(&part, " = ", *cpp_default(order[i]->type, *order[i]->default_value));
    parts.push_back(std::move(part));
  }
  return absl::StrJoin(parts, ", ");
}

std::vector<const Entry*> shard_entries(const Family& family, int index, int shards) {
  const size_t n = family.entries.size();
  std::vector<const Entry*> out;
  for (size_t i = n * static_cast<size_t>(index) / static_cast<size_t>(shards);
       i < n * static_cast<size_t>(index + 1) / static_cast<size_t>(shards); ++i)
    out.push_back(family.entries[i].get());
  return out;
}

std::vector<const OpForm*> shard(const Family& family, int index, int shards) {
  std::vector<const OpForm*> out;
  for (const Entry* e : shard_entries(family, index, shards))
    for (const OpForm& f : e->forms) out.push_back(&f);
  return out;
}

void generate_ops(const Library& library, Files* files) {
  std::string umbrella = absl::StrCat("// Generated by opgen: every op of ", library.package, ".\n#pragma once\n\n");
  for (const Family& family : library.families) {
    ops_header(library, family, files);
    kernels_header(family, files);
    for (int i = 0; i < library.shards; ++i) ops_source(library, family, i, files);
    absl::StrAppend(&umbrella, "#include \"", library.package, "/", family.name, "_ops.h\"\n");
  }
  (*files)[library.header] = std::move(umbrella);
}

std::string generate_methods(const std::vector<Family>& families) {
  std::string text =
      "// Generated by opgen: the operators among the methods of Tensor. Defined inline in the *_ops.h headers: "
      "include the one whose methods you call.\n";
  for (const Family& family : families)
    for (const auto& e : family.entries)
      for (const OpForm& f : e->forms)
        if (f.cpp_method)
          absl::StrAppend(&text, "inline ", return_type(f), " ", f.cpp_name, "(", api_params(f, true, true),
                          ") const;\n");
  return text;
}

std::string generate_names(const std::vector<Family>& families, const std::string& module) {
  const std::string last = module.substr(module.rfind('.') + 1), prefix = last + "_",
                    space = absl::StrCat("tessera::", absl::StrReplaceAll(module, {{".", "::"}}));
  std::string includes, functions;
  for (const Family& family : families) {
    std::string found;
    for (const auto& e : family.entries) {
      if (e->op.python_module() != last || !absl::StartsWith(e->forms.front().schema.name, prefix)) continue;
      found += doc_comment(*e);
      for (const OpForm& f : e->forms)
        if (f.form != Form::kInplace)
          absl::StrAppend(&found, "inline ", return_type(f), " ", absl::StripPrefix(f.cpp_name, prefix), "(",
                          api_params(f, false, true), ") { return op::", f.id, ".call(", call_args(f, false), "); }\n");
    }
    if (found.empty()) continue;
    functions += found;
    const std::string folder = family.path.substr(0, family.path.rfind('/'));
    absl::StrAppend(&includes, "#include \"", absl::StripSuffix(folder, "/tables"), "/", family.name, "_ops.h\"\n");
  }
  return absl::StrCat("// Generated by opgen: the functions of ", module,
                      " by the names that they have there.\n#pragma once\n\n", includes, "\nnamespace ", space,
                      " {\n\n", functions, "\n}  // namespace ", space, "\n");
}

}  // namespace tessera::opgen
