// Derivative nodes and the kernels of the Autograd keys, calling the helpers of autograd/codegen_api.h.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tools/opgen/cpp_types.h"
#include "tools/opgen/generate.h"

namespace tessera::opgen {
namespace {

// Where the edges of an entry's differentiable arguments are. With a list before it, a position is an expression ("1 +
// tensors_count_").
struct Slots {
  std::vector<int> inputs;              // argument indices in edge order
  std::map<int, std::string> position;  // argument -> C++ expression
  std::vector<int> lists;               // those that are lists
  std::string total;
};

std::string list_count(const Entry& e, int arg) {
  return absl::StrCat(e.schema.arguments[static_cast<size_t>(arg)].name, "_count_");
}

Slots edge_slots(const Entry& e) {
  Slots s;
  std::set<int> wanted;
  for (const DerivativeDef& d : e.derivatives) wanted.insert(d.inputs.begin(), d.inputs.end());
  int fixed = 0;
  std::string variable;
  auto here = [&] { return variable.empty() ? std::to_string(fixed) : absl::StrCat(fixed, variable); };
  for (int arg : wanted) {
    s.inputs.push_back(arg);
    s.position[arg] = here();
    if (is_tensor_list(e.schema.arguments[static_cast<size_t>(arg)].type)) {
      s.lists.push_back(arg);
      absl::StrAppend(&variable, " + ", list_count(e, arg));
    } else {
      ++fixed;
    }
  }
  s.total = here();
  return s;
}

std::string arg_cpp(const Entry& e, int arg) {
  return cpp_identifier(e.schema.arguments[static_cast<size_t>(arg)].name);
}
bool arg_is_list(const Entry& e, int arg) { return is_tensor_list(e.schema.arguments[static_cast<size_t>(arg)].type); }

// "should_compute(1)" or the range form for a list; `node` is "node_->" in the kernel and "" in apply.
std::string should_compute(const Entry& e, const Slots& s, int arg, const std::string& node) {
  if (!arg_is_list(e, arg)) return absl::StrCat(node, "should_compute(", s.position.at(arg), ")");
  return absl::StrCat("autograd::should_compute_any(*", node.empty() ? "this" : "node_", ", ",
                      absl::StrReplaceAll(s.position.at(arg), {{" + ", absl::StrCat(" + ", node)}}), ", ", node,
                      list_count(e, arg), ")");
}

std::string any_should_compute(const Entry& e, const Slots& s, const std::vector<int>& args, const std::string& node) {
  std::vector<std::string> parts;
  for (int arg : args) parts.push_back(should_compute(e, s, arg, node));
  return absl::StrJoin(parts, " || ");
}

bool is_saved_tensor(const Saved& v) { return v.type == "autograd::SavedVariable"; }
bool is_saved_list(const Saved& v) { return v.type == "std::vector<autograd::SavedVariable>"; }

// Where an argument may be a plain number, and the node is called otherwise then: number_ says which it was.
std::string node_name(const Entry& e) {
  if (e.number_nodes.empty()) return cpp_string(e.node);
  std::string names = cpp_string(e.node);
  for (const Entry::NumberNode& n : e.number_nodes) absl::StrAppend(&names, ", ", cpp_string(n.name));
  return absl::StrCat("std::array{", names, "}[number_]");
}

// Shows a saved tensor that was a number as that number, and nothing where no formula needs it.
std::string visit_number(const Entry& e, const Saved& v) {
  for (size_t i = 0; i < e.number_nodes.size(); ++i)
    if (v.kind != Saved::Kind::kOutput && v.index == e.number_nodes[i].argument && is_saved_tensor(v))
      return absl::StrCat(" if (number_ == ", i + 1, " && !released()) { if (const Tensor t = ", v.name,
                          "_.unpack(this); t.defined()) v(", cpp_string(v.shown), ", t.item_scalar()); } else");
  return "";
}

std::string node_class(const Entry& e) {
  std::string fields, release, visit;
  std::set<std::string> shown;  // sizes() and sym_sizes() of one tensor are one attribute
  for (const Saved& v : e.saved) {
    const bool initialise = v.type == "int64_t" || v.type == "double" || v.type == "bool" || v.type == "DType" ||
                            v.type == "Layout" || v.type == "MemoryFormat";
    absl::StrAppend(&fields, "  ", v.type, " ", v.name, "_", initialise ? "{}" : "", ";\n");
    if (is_saved_tensor(v)) absl::StrAppend(&release, " ", v.name, "_.reset();");
    if (is_saved_list(v)) absl::StrAppend(&release, " autograd::reset_list(", v.name, "_);");
    if (!v.shown.empty() && shown.insert(v.shown).second)
      absl::StrAppend(&visit, visit_number(e, v), " v(", cpp_string(v.shown), ", ", v.name, "_);");
  }
  const Slots slots = edge_slots(e);
  for (int arg : slots.lists) absl::StrAppend(&fields, "  size_t ", list_count(e, arg), " = 0;\n");
  if (!e.number_nodes.empty()) fields += "  size_t number_ = 0;\n";
  std::string text = absl::StrCat("struct ", e.node,
                                  " final : autograd::Node {\n  variable_list apply(variable_list&& grads) override;\n "
                                  " const char* name() const override { return ",
                                  node_name(e), "; }\n");
  if (release.empty()) absl::StrAppend(&text, "  ", e.node, "() { frees_nothing(); }\n");
  if (!release.empty()) absl::StrAppend(&text, "  void release_variables() override {", release, " }\n");
  if (!visit.empty()) absl::StrAppend(&text, "  void visit_saved(autograd::SavedVisitor& v) override {", visit, " }\n");
  return absl::StrCat(text, fields, "};\n");
}

std::string one_gradient(const Entry& e, const Slots& s, const DerivativeDef& d) {
  const std::string note = line_note(e, d.line);
  if (d.inputs.size() == 1) {
    const int arg = d.inputs[0];
    const std::string condition = absl::StrCat("  if (", should_compute(e, s, arg, ""), ")\n", note);
    if (arg_is_list(e, arg))
      return absl::StrCat(condition, "    autograd::put_list(to_inputs_, ", s.position.at(arg), ", ", d.formula, ");\n",
                          kLineBack);
    return absl::StrCat(condition, "    to_inputs_[", s.position.at(arg), "] = ", d.formula, ";\n", kLineBack);
  }
  std::string text = absl::StrCat("  if (", any_should_compute(e, s, d.inputs, ""), ") {\n");
  if (d.uses_mask) {
    std::vector<std::string> bits;
    for (int arg : d.inputs) bits.push_back(should_compute(e, s, arg, ""));
    absl::StrAppend(&text, "    const std::array<bool, ", d.inputs.size(), "> grad_input_mask = {",
                    absl::StrJoin(bits, ", "), "};\n");
  }
  absl::StrAppend(&text, note, "    auto joint = ", d.formula, ";\n", kLineBack);
  for (size_t i = 0; i < d.inputs.size(); ++i)
    absl::StrAppend(&text, "    if (", should_compute(e, s, d.inputs[i], ""), ") to_inputs_[",
                    s.position.at(d.inputs[i]), "] = std::move(std::get<", i, ">(joint));\n");
  return text + "  }\n";
}

std::string apply_function(const Entry& e) {
  const Slots s = edge_slots(e);
  std::string text = absl::StrCat("variable_list ", e.node,
                                  "::apply(variable_list&& grads) {\n  variable_list to_inputs_(", s.total, ");\n");
  const bool grads =
      std::any_of(e.derivatives.begin(), e.derivatives.end(), [](const DerivativeDef& d) { return d.uses_grads; });
  const bool grad =
      std::any_of(e.derivatives.begin(), e.derivatives.end(), [](const DerivativeDef& d) { return d.uses_grad; });
  const bool saved = std::any_of(e.saved.begin(), e.saved.end(),
                                 [](const Saved& v) { return is_saved_tensor(v) || is_saved_list(v); });
  if (saved) text += "  autograd::check_not_released(*this);\n";
  if (grads || !grad) text += "  if (!autograd::any_defined(grads)) return to_inputs_;\n";
  if (grad) text += "  const Tensor& grad = grads[0];\n";
  if (grad && !grads) text += "  if (!grad.defined()) return to_inputs_;\n";
  for (const Saved& v : e.saved) {
    const std::string local = v.kind == Saved::Kind::kOutput ? v.name : cpp_identifier(v.name);
    if (is_saved_tensor(v)) absl::StrAppend(&text, "  const Tensor ", local, " = ", v.name, "_.unpack(this);\n");
    if (is_saved_list(v))
      absl::StrAppend(&text, "  const std::vector<Tensor> ", local, " = autograd::unpack_list(", v.name, "_, this);\n");
  }
  for (const DerivativeDef& d : e.derivatives) text += one_gradient(e, s, d);
  return text + "  return to_inputs_;\n}\n";
}

// The condition under which a value is saved: the derivatives that use it are needed. Empty: always (or too cheap to
// ask).
std::string save_condition(const Entry& e, const Slots& s, const Saved& v) {
  if (!is_saved_tensor(v) && !is_saved_list(v)) return "";
  if (v.used_by.size() == e.derivatives.size()) return "";
  std::vector<std::string> parts;
  for (int d : v.used_by)
    parts.push_back(any_should_compute(e, s, e.derivatives[static_cast<size_t>(d)].inputs, "node_->"));
  return absl::StrCat("if (", absl::StrJoin(parts, " || "), ") ");
}

std::string result_expr(const OpForm& f, int output) {
  if (f.form == Form::kInplace)
    return cpp_identifier(f.schema.arguments[static_cast<size_t>(f.outs()[static_cast<size_t>(output)])].name);
  return f.schema.returns.size() == 1 ? "result_" : absl::StrCat("std::get<", output, ">(result_)");
}

std::string save_inputs(const OpForm& f, const Slots& s) {
  const Entry& e = *f.entry;
  std::string text;
  for (const Saved& v : e.saved) {
    if (v.kind == Saved::Kind::kOutput) continue;
    std::string value = v.init;
    if (is_saved_tensor(v)) {
      const bool overwritten = f.form == Form::kInplace && f.schema.arguments[static_cast<size_t>(v.index)].is_write();
      value = overwritten ? absl::StrCat("SavedVariable(autograd::clone_original(", v.init, "), false)")
                          : absl::StrCat("SavedVariable(", v.init, ", false)");
    } else if (is_saved_list(v)) {
      value = absl::StrCat("autograd::save_list(", v.init, ")");
    }
    absl::StrAppend(&text, "  ", save_condition(e, s, v), "node_->", v.name, "_ = ", value, ";\n");
  }
  return text;
}

std::string save_outputs(const OpForm& f, const Slots& s) {
  const Entry& e = *f.entry;
  std::string text;
  for (const Saved& v : e.saved) {
    if (v.kind != Saved::Kind::kOutput) continue;
    const std::string result = result_expr(f, v.index);
    const std::string value =
        is_saved_tensor(v)
            ? absl::StrCat("SavedVariable(", result,
                           f.form == Form::kInplace ? absl::StrCat(", true, ", result, ".is_view())") : ", true)")
            : absl::StrReplaceAll(v.init, {{"@", result}});
    absl::StrAppend(&text, "  ", save_condition(e, s, v), "node_->", v.name, "_ = ", value, ";\n");
  }
  return text;
}

std::string redispatch(const OpForm& f) {
  const std::string args = arg_names(f);
  return absl::StrCat("op::", f.id, ".redispatch(autograd::below_autograd(ctx.keys)", args.empty() ? "" : ", ", args,
                      ")");
}

// The tensors that are written, as one expression for check_inplace and rebase_history.
std::vector<std::string> written(const OpForm& f) {
  std::vector<std::string> out;
  for (int i : f.outs()) out.push_back(cpp_identifier(f.schema.arguments[static_cast<size_t>(i)].name));
  return out;
}

std::string return_written(const OpForm& f) {
  if (f.schema.returns.empty()) return "";
  if (f.schema.returns.size() == 1) return absl::StrCat("  return ", written(f)[0], ";\n");
  return absl::StrCat("  return {", absl::StrJoin(written(f), ", "), "};\n");
}

std::string fast_path(const OpForm& f, const std::vector<std::string>& inputs) {
  return absl::StrCat("  if (!autograd::any_requires_grad(", absl::StrJoin(inputs, ", "), ")) return ", redispatch(f),
                      ";\n");
}

std::string out_kernel(const OpForm& f) {
  std::vector<std::string> inputs;
  for (const SchemaArgument& a : f.schema.arguments)
    if (is_tensor(a.type) || is_tensor_list(a.type)) inputs.push_back(cpp_identifier(a.name));
  return absl::StrCat("  if (autograd::any_requires_grad(", absl::StrJoin(inputs, ", "),
                      ")) autograd::throw_out_requires_grad(", cpp_string(f.schema.name), ");\n  return ",
                      redispatch(f), ";\n");
}

// In-place forms of operators without a derivative.
std::string zero_kernel(const OpForm& f, const std::string& node) {
  if (f.entry->op.cuts_history()) return absl::StrCat("  return ", redispatch(f), ";\n");
  std::string text = fast_path(f, written(f));
  for (const std::string& w : written(f)) absl::StrAppend(&text, "  autograd::check_inplace(", w, ");\n");
  absl::StrAppend(&text, "  {\n    autograd::AutogradGuard guard_;\n    ", redispatch(f), ";\n  }\n");
  for (const std::string& w : written(f))
    absl::StrAppend(&text, "  autograd::rebase_history_zero(", w, ", ", cpp_string(node), ");\n");
  return text + return_written(f);
}

std::string derivative_kernel(const OpForm& f) {
  const Entry& e = *f.entry;
  const Slots s = edge_slots(e);
  std::vector<std::string> inputs, plain;
  for (int arg : s.inputs) inputs.push_back(arg_cpp(e, arg));
  const bool inplace = f.form == Form::kInplace;
  if (inplace)
    for (const std::string& w : written(f))
      if (std::find(inputs.begin(), inputs.end(), w) == inputs.end()) inputs.push_back(w);
  std::string text = fast_path(f, inputs);
  if (inplace)
    for (const std::string& w : written(f)) absl::StrAppend(&text, "  autograd::check_inplace(", w, ");\n");
  absl::StrAppend(&text, "  auto node_ = autograd::make_node<", e.node, ">();\n");
  for (size_t i = 0; i < e.number_nodes.size(); ++i)
    absl::StrAppend(&text, "  if (", arg_cpp(e, e.number_nodes[i].argument),
                    ".impl()->is_wrapped_number()) node_->number_ = ", i + 1, ";\n");
  // Edges in slot order; neighbours that are plain tensors in one call.
  auto flush = [&] {
    if (!plain.empty())
      absl::StrAppend(&text, "  autograd::collect_next_edges(*node_, {&", absl::StrJoin(plain, ", &"), "});\n");
    plain.clear();
  };
  for (int arg : s.inputs) {
    if (!arg_is_list(e, arg)) {
      plain.push_back(arg_cpp(e, arg));
      continue;
    }
    flush();
    const std::string name = arg_cpp(e, arg);
    const bool optional = e.schema.arguments[static_cast<size_t>(arg)].type.is_optional();
    absl::StrAppend(&text, "  autograd::collect_next_edges(*node_, ", name, ");\n  node_->", list_count(e, arg), " = ",
                    optional ? absl::StrCat(name, " ? ", name, "->size() : 0") : name + ".size()", ";\n");
  }
  flush();
  text += save_inputs(f, s);
  if (inplace) {
    absl::StrAppend(&text, "  {\n    autograd::AutogradGuard guard_;\n    ", redispatch(f), ";\n  }\n");
    const char* renewed = e.is_inplace_view() ? "reshape_history" : "rebase_history";
    for (const std::string& w : written(f)) absl::StrAppend(&text, "  autograd::", renewed, "(", w, ", node_);\n");
    return absl::StrCat(text, save_outputs(f, s), return_written(f));
  }
  const std::string ret = *cpp_return_type(f.schema);
  absl::StrAppend(&text, "  ", ret, " result_ = [&]() -> ", ret, " { autograd::AutogradGuard guard_; return ",
                  redispatch(f), "; }();\n");
  for (size_t i = 0; i < f.schema.returns.size(); ++i) {
    const bool differentiable = (i >= static_cast<size_t>(e.op.output_differentiability_size()) ||
                                 e.op.output_differentiability(static_cast<int>(i))) &&
                                f.schema.returns[i].type.has_tensor();
    if (differentiable)
      absl::StrAppend(&text, "  autograd::set_history(", result_expr(f, static_cast<int>(i)), ", node_);\n");
    else
      text += "  autograd::skip_history(*node_);\n";
  }
  return absl::StrCat(text, save_outputs(f, s), "  return result_;\n");
}

std::string kernel(const OpForm& f) {
  std::string body;
  if (f.form == Form::kOut)
    body = out_kernel(f);
  else if (f.entry->has_derivatives())
    body = derivative_kernel(f);
  else
    body = zero_kernel(f, title(f.entry->schema.name) + "Backward0");
  return absl::StrCat(*cpp_return_type(f.schema), " ", f.id, "(", kernel_params(f), ") {\n", body, "}\n");
}

}  // namespace

void generate_autograd(const Library& library, Files* files) {
  for (const Family& family : library.families) {
    for (int i = 0; i < library.autograd_shards; ++i) {
      std::string nodes, functions, kernels;
      for (const Entry* e : shard_entries(family, i, library.autograd_shards)) {
        if (e->has_derivatives()) {
          absl::StrAppend(&nodes, node_class(*e), "\n");
          absl::StrAppend(&functions, apply_function(*e), "\n");
        }
        for (const OpForm& f : e->forms)
          if (f.has_autograd) absl::StrAppend(&kernels, kernel(f), "\n");
      }
      std::string includes;
      for (const std::string& h : family.table.include()) absl::StrAppend(&includes, "#include \"", h, "\"\n");
      for (const std::string& h : family.table.autograd_include()) absl::StrAppend(&includes, "#include \"", h, "\"\n");
      const std::string name = absl::StrCat(family.name, "_autograd_", i, ".cc");
      (*files)[name] = resolve_line_notes(
          absl::StrCat(file_comment(family.path),
                       "#include \"autograd/codegen_api.h\"\n#include \"autograd/formulas.h\"\n#include \"",
                       library.package, "/", library.header, "\"\n", includes,
                       "\nnamespace tessera {\nnamespace {\n\nusing autograd::SavedVariable;\nusing "
                       "autograd::variable_list;\nusing namespace autograd::formulas;\n\n",
                       nodes, functions, "}  // namespace\n\nnamespace op_autograd {\n\n", kernels,
                       "}  // namespace op_autograd\n}  // namespace tessera\n"),
          name);
    }
  }
}

}  // namespace tessera::opgen
