// Kernels of the key Forward: tangents of results from tangents of inputs, calling the helpers of
// autograd/forward_codegen.h.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/opgen/cpp_types.h"
#include "tools/opgen/formula.h"
#include "tools/opgen/generate.h"

namespace tessera::opgen {
namespace {

std::string arg_cpp(const Entry& e, int arg) {
  return cpp_identifier(e.schema.arguments[static_cast<size_t>(arg)].name);
}
bool arg_is_list(const Entry& e, int arg) { return is_tensor_list(e.schema.arguments[static_cast<size_t>(arg)].type); }
std::string tangent_name(const Entry& e, int arg) {
  return absl::StrCat(e.schema.arguments[static_cast<size_t>(arg)].name, "_t");
}

class ForwardKernel {
 public:
  explicit ForwardKernel(const OpForm& form) : f_(form), e_(*form.entry) {
    for (int i : f_.outs()) written_.push_back(cpp_identifier(f_.schema.arguments[static_cast<size_t>(i)].name));
    std::set<int> inputs;
    for (const DerivativeDef& d : e_.derivatives)
      if (d.rule != ForwardRule::kZero) inputs.insert(d.inputs.begin(), d.inputs.end());
    inputs_.assign(inputs.begin(), inputs.end());
  }

  std::string text() const {
    std::string body;
    if (f_.form == Form::kOut)
      body = out_body();
    else if (!e_.has_derivatives())
      body = overwriting_body();
    else if (e_.forward == ForwardRule::kDecomposed)
      body = decomposed_body();
    else if (f_.form == Form::kInplace)
      body = inplace_body();
    else
      body = functional_body();
    return absl::StrCat(*cpp_return_type(f_.schema), " ", f_.id, "(", kernel_params(f_), ") {\n", body, "}\n");
  }

 private:
  std::string redispatch() const {
    const std::string args = arg_names(f_);
    return absl::StrCat("op::", f_.id, ".redispatch(forward::below(ctx.keys)", args.empty() ? "" : ", ", args, ")");
  }

  std::string return_written() const {
    if (f_.schema.returns.empty()) return "";
    if (f_.schema.returns.size() == 1) return absl::StrCat("  return ", written_[0], ";\n");
    return absl::StrCat("  return {", absl::StrJoin(written_, ", "), "};\n");
  }

  std::string tensor_args() const {
    std::vector<std::string> names;
    for (const SchemaArgument& a : f_.schema.arguments)
      if (is_tensor(a.type) || is_tensor_list(a.type)) names.push_back(cpp_identifier(a.name));
    return absl::StrJoin(names, ", ");
  }

  std::string out_body() const {
    return absl::StrCat("  forward::refuse_out(", cpp_string(f_.schema.name), ", ", tensor_args(), ");\n  return ",
                        redispatch(), ";\n");
  }

  // In-place forms of operators without a derivative: what they write is constant.
  std::string overwriting_body() const {
    std::string text = "  forward::Scope fw_;\n";
    for (const std::string& w : written_) absl::StrAppend(&text, "  fw_.", list_or_tensor(w), "(", w, ");\n");
    absl::StrAppend(&text, "  ", redispatch(), ";\n");
    for (const std::string& w : written_) absl::StrAppend(&text, "  fw_.write(", w, ", {});\n");
    return text + return_written();
  }
  std::string list_or_tensor(const std::string& name) const {
    for (const SchemaArgument& a : f_.schema.arguments)
      if (cpp_identifier(a.name) == name && is_tensor_list(a.type)) return "tangents";
    return "tangent";
  }

  // Composites are what they call.
  std::string decomposed_body() const {
    const std::string args = arg_names(f_);
    return absl::StrCat("  if (!forward::any(", tensor_args(), ")) return ", redispatch(), ";\n  return op::", f_.id,
                        ".kernels[static_cast<int>(Slot::kCompositeExplicit)](ctx, ", args, ");\n");
  }

  // "const Tensor self_t = fw_.tangent(self);" for each input that matters; in-place forms ask for what they write,
  // too.
  std::string gather() const {
    std::string text = "  forward::Scope fw_;\n";
    const bool view = e_.forward == ForwardRule::kView || e_.is_inplace_view();
    std::vector<std::string> asked;
    for (int arg : inputs_) {
      const std::string name = arg_cpp(e_, arg);
      asked.push_back(name);
      if (arg_is_list(e_, arg))
        absl::StrAppend(&text, "  const std::vector<Tensor> ", tangent_name(e_, arg), " = fw_.tangents(", name, ");\n");
      else
        absl::StrAppend(&text, "  const Tensor ", tangent_name(e_, arg), " = fw_.",
                        view                   ? "view_tangent"
                        : is_overwritten(name) ? "overwritten_tangent"
                                               : "tangent",
                        "(", name, ");\n");
    }
    if (f_.form == Form::kInplace)
      for (const std::string& w : written_)
        if (std::find(asked.begin(), asked.end(), w) == asked.end())
          absl::StrAppend(&text, "  fw_.", list_or_tensor(w), "(", w, ");\n");
    return text;
  }

  size_t results() const { return f_.form == Form::kInplace ? written_.size() : f_.schema.returns.size(); }
  std::string result(size_t i) const {
    if (f_.form == Form::kInplace) return written_[i];
    return f_.schema.returns.size() == 1 ? "result_" : absl::StrCat("std::get<", i, ">(result_)");
  }
  std::string sum(size_t i) const { return results() == 1 ? "sum_" : absl::StrCat("sum_[", i, "]"); }
  std::string sums() const {
    return results() == 1 ? "Tensor sum_;\n" : absl::StrCat("std::array<Tensor, ", results(), "> sum_;\n");
  }
  bool differentiable(size_t i) const {
    const Op& op = e_.op;
    return i >= static_cast<size_t>(op.output_differentiability_size()) ||
           op.output_differentiability(static_cast<int>(i));
  }

  std::string functional_body() const {
    std::string text = gather();
    absl::StrAppend(&text, "  ", *cpp_return_type(f_.schema), " result_ = ", redispatch(), ";\n");
    if (e_.forward == ForwardRule::kView) {
      const std::string name = tangent_name(e_, inputs_.empty() ? 0 : inputs_[0]);
      return absl::StrCat(text, "  if (", name, ".defined()) fw_.put_view(result_, ", call_with(inputs_), ");\n",
                          "  return result_;\n");
    }
    std::string rules;
    for (const auto& [before, after] : contributions("    ")) rules += before + after;
    if (rules.empty()) return text + "  return result_;\n";
    absl::StrAppend(&text, "  if (fw_.any()) {\n    ", sums(), rules);
    for (size_t i = 0; i < results(); ++i)
      if (differentiable(i)) absl::StrAppend(&text, "    fw_.put(", result(i), ", ", sum(i), ");\n");
    return text + "  }\n  return result_;\n";
  }

  std::string inplace_body() const {
    std::string text = gather();
    absl::StrAppend(&text, "  if (!fw_.any()) return ", redispatch(), ";\n");
    std::string before, after;
    for (const auto& [b, a] : contributions("  ")) {
      before += b;
      after += a;
    }
    for (const std::string& w : written_)
      if (absl::StrContains(before + after, "original_" + w))
        absl::StrAppend(&text, "  const Tensor original_", w, " = forward::original(", w, ");\n");
    absl::StrAppend(&text, "  ", sums(), before, "  ", redispatch(), ";\n", after);
    for (size_t i = 0; i < results(); ++i)
      absl::StrAppend(&text, "  fw_.", e_.is_inplace_view() ? "replace" : "write", "(", written_[i], ", ", sum(i),
                      ");\n");
    return text + return_written();
  }

  // One per rule: what is computed before the in-place write, and what after it because it needs the result.
  std::vector<std::pair<std::string, std::string>> contributions(const std::string& indent) const {
    std::vector<std::pair<std::string, std::string>> parts;
    if (e_.forward == ForwardRule::kTwice) {
      parts.emplace_back(twice(indent), "");
      return parts;
    }
    if (e_.forward == ForwardRule::kJoint) {
      parts.emplace_back(absl::StrCat(indent, "forward::add(sum_, ", call_with(inputs_), ");\n"), "");
      return parts;
    }
    if (!e_.op.forward().empty() && e_.forward == ForwardRule::kExpression) {
      parts.push_back(expression(e_.op.forward(), e_.line_of("forward"), inputs_, indent, false));
      return parts;
    }
    for (const DerivativeDef& d : e_.derivatives) parts.push_back(contribution(d, indent));
    return parts;
  }

  std::string condition(const std::vector<int>& args) const {
    std::vector<std::string> parts;
    for (int arg : args) parts.push_back(absl::StrCat("forward::any_defined(", tangent_name(e_, arg), ")"));
    return absl::StrJoin(parts, " || ");
  }

  std::pair<std::string, std::string> contribution(const DerivativeDef& d, const std::string& indent) const {
    const std::string head = absl::StrCat(indent, "if (", condition(d.inputs), ")");
    switch (d.rule) {
      case ForwardRule::kZero:
        return {};
      case ForwardRule::kRefused:
        return {absl::StrCat(head, " static_cast<void>(", d.original, ");\n"), ""};
      case ForwardRule::kLinear:
        return {absl::StrCat(head, " forward::add(sum_, ", call_with(d.inputs), ");\n"), ""};
      case ForwardRule::kExpression:
        return expression(d.forward, d.line, d.inputs, indent, true);
      default:
        return by_formula(d, indent);
    }
  }

  std::pair<std::string, std::string> expression(const std::string& source, int line, const std::vector<int>& inputs,
                                                 const std::string& indent, bool conditional) const {
    bool late = false;
    const std::string value = in_kernel(source, &late);
    const std::string text =
        absl::StrCat(conditional ? absl::StrCat(indent, "if (", condition(inputs), ")\n") : "", line_note(e_, line),
                     indent, "  forward::add(sum_, ", value, ");\n", kLineBack);
    return late ? std::make_pair(std::string(), text) : std::make_pair(text, std::string());
  }

  // Rules that put something for `grad` into the formula of the gradient.
  std::pair<std::string, std::string> by_formula(const DerivativeDef& d, const std::string& indent) const {
    bool late = false;
    const std::string value = in_kernel(d.original, &late), t = tangent_name(e_, d.inputs[0]);
    const bool real = e_.op.numbers() == Op::REAL;
    std::string grad = t, sum = value;
    if (d.rule == ForwardRule::kElementwise && !real) {
      grad = absl::StrCat("conj_of(", t, ")");
      sum = absl::StrCat("conj_of(", value, ")");
    } else if (d.rule == ForwardRule::kReduction) {
      grad = absl::StrCat("ones_like(", result(0), ")");
      sum = absl::StrCat("reduced_tangent(", t, ", ", value, reduced_dims(), ")");
      late = true;
    }
    const std::string declaration = d.uses_grads ? absl::StrCat("const Tensor grads[] = {", grad, "};\n")
                                                 : absl::StrCat("const Tensor grad = ", grad, ";\n");
    const std::string text =
        absl::StrCat(indent, "if (", condition(d.inputs), ") {\n", indent, "  ", declaration, line_note(e_, d.line),
                     indent, "  forward::add(sum_, ", sum, ");\n", kLineBack, indent, "}\n");
    return late ? std::make_pair(std::string(), text) : std::make_pair(text, std::string());
  }

  // ", dim, keepdim" as far as the reduction has these arguments.
  std::string reduced_dims() const {
    if (e_.schema.find_argument("dim") < 0) return "";
    return absl::StrCat(", dim, ", e_.schema.find_argument("keepdim") < 0 ? "false" : "keepdim");
  }

  // The operator with these inputs replaced by their tangents.
  std::string call_with(const std::vector<int>& replaced) const {
    const OpForm* functional = e_.find(Form::kFunctional);
    std::vector<std::string> args;
    for (size_t i = 0; i < e_.schema.arguments.size(); ++i) {
      const int arg = static_cast<int>(i);
      const std::string name = arg_cpp(e_, arg), t = tangent_name(e_, arg);
      if (std::find(replaced.begin(), replaced.end(), arg) == replaced.end())
        args.push_back(name);
      else if (arg_is_list(e_, arg) || e_.forward == ForwardRule::kJoint)
        args.push_back(absl::StrCat("forward::or_zeros(", t, ", ", name, ")"));
      else
        args.push_back(t);
    }
    return absl::StrCat("op::", functional ? functional->id : e_.id(), ".call(", absl::StrJoin(args, ", "), ")");
  }

  std::string twice(const std::string& indent) const {
    std::vector<std::string> inputs, tangents, args;
    for (int arg : inputs_) {
      const std::string name = arg_cpp(e_, arg);
      inputs.push_back(is_overwritten(name) ? "original_" + name : name);
      tangents.push_back(tangent_name(e_, arg));
    }
    for (size_t i = 0; i < e_.schema.arguments.size(); ++i) {
      const auto at = std::find(inputs_.begin(), inputs_.end(), static_cast<int>(i));
      args.push_back(at == inputs_.end() ? arg_cpp(e_, static_cast<int>(i))
                                         : absl::StrCat("in_[", at - inputs_.begin(), "]"));
    }
    const std::string call =
        absl::StrCat("op::", e_.find(Form::kFunctional)->id, ".call(", absl::StrJoin(args, ", "), ")");
    std::string text =
        absl::StrCat(indent, "const std::vector<Tensor> product_ = forward::twice_backward({",
                     absl::StrJoin(inputs, ", "), "}, {", absl::StrJoin(tangents, ", "),
                     "}, [&](const std::vector<Tensor>& in_) { return forward::results(", call, "); });\n");
    for (size_t i = 0; i < results(); ++i)
      absl::StrAppend(&text, indent, "forward::add(", sum(i), ", product_[", i, "]);\n");
    return text;
  }

  bool is_overwritten(const std::string& name) const {
    return f_.form == Form::kInplace && std::find(written_.begin(), written_.end(), name) != written_.end();
  }

  // An expression of the table with the names of the kernel's variables. late: it needs results.
  std::string in_kernel(const std::string& source, bool* late) const {
    std::vector<FormulaToken> tokens = tokenize_formula(source);
    for (const FormulaName& n : value_names(tokens)) {
      std::string& name = tokens[n.index].text;
      for (const SchemaArgument& a : e_.schema.arguments) {
        if (a.name != name && cpp_identifier(a.name) != name) continue;
        if (name == "grad" || name == "grads") break;  // the gradient that comes in
        name = cpp_identifier(a.name);
        if (is_overwritten(name)) name = "original_" + name;
        break;
      }
      const auto& returns = e_.schema.returns;
      for (size_t i = 0; i < returns.size(); ++i) {
        const bool named = !returns[i].name.empty() && returns[i].name == n.name && e_.schema.find_argument(n.name) < 0;
        if (!named && n.name != absl::StrCat("result", i) && !(returns.size() == 1 && n.name == "result")) continue;
        name = result(i);
        *late = true;
      }
    }
    std::string text;
    for (const FormulaToken& t : tokens) text += t.text;
    return text;
  }

  const OpForm& f_;
  const Entry& e_;
  std::vector<std::string> written_;
  std::vector<int> inputs_;  // arguments whose tangents matter
};

}  // namespace

void generate_forward(const Library& library, Files* files) {
  for (const Family& family : library.families) {
    for (int i = 0; i < library.autograd_shards; ++i) {
      std::string kernels;
      for (const Entry* e : shard_entries(family, i, library.autograd_shards))
        for (const OpForm& f : e->forms)
          if (f.has_autograd) absl::StrAppend(&kernels, ForwardKernel(f).text(), "\n");
      std::string includes;
      for (const std::string& h : family.table.include()) absl::StrAppend(&includes, "#include \"", h, "\"\n");
      for (const std::string& h : family.table.autograd_include()) absl::StrAppend(&includes, "#include \"", h, "\"\n");
      const std::string name = absl::StrCat(family.name, "_forward_", i, ".cc");
      (*files)[name] = resolve_line_notes(
          absl::StrCat(file_comment(family.path),
                       "#include \"autograd/formulas.h\"\n#include \"autograd/forward_codegen.h\"\n#include \"",
                       library.package, "/", library.header, "\"\n", includes,
                       "\nnamespace tessera::op_forward {\n\nusing namespace autograd::formulas;\nnamespace forward = "
                       "autograd::forward;\n\n",
                       kernels, "}  // namespace tessera::op_forward\n"),
          name);
    }
  }
}

}  // namespace tessera::opgen
