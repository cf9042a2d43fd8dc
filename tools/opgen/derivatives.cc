// Saved-variable analysis: which values of the forward call a derivative formula needs, and the formula rewritten to
// read them from the node.
#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/opgen/cpp_types.h"
#include "tools/opgen/formula.h"
#include "tools/opgen/model.h"

namespace tessera::opgen {
namespace {

struct Datum {
  const char* method;
  const char* type;
  const char* wrap;             // of the saving expression; "" for none
  const char* shown = nullptr;  // in the node's attribute, `_saved_self_sym_sizes`; null: the method, "": not at all
};

// Calls on a tensor that need only this datum of it later, not the tensor.
constexpr Datum kData[] = {
    {"sizes", "IntVector", "autograd::to_saved", "sym_sizes"},
    {"sym_sizes", "std::vector<SymInt>", "autograd::to_saved"},
    {"strides", "IntVector", "autograd::to_saved", "sym_strides"},
    {"sym_strides", "std::vector<SymInt>", "autograd::to_saved"},
    {"dtype", "DType", "", "scalar_type"},
    {"device", "Device", ""},
    {"layout", "Layout", ""},
    {"options", "TensorOptions", "", ""},
    {"dim", "int64_t", ""},
    {"numel", "int64_t", "", "sym_numel"},
    {"sym_numel", "SymInt", ""},
    {"storage_offset", "int64_t", "", "sym_storage_offset"},
    {"is_complex", "bool", ""},
    {"is_floating_point", "bool", ""},
    {"defined", "bool", ""},
    {"is_conj", "bool", ""},
    {"is_neg", "bool", ""},
};

const Datum* find_datum(const std::string& method) {
  for (const Datum& d : kData)
    if (method == d.method) return &d;
  return nullptr;
}

std::string shown_name(const std::string& of, const Datum& d) {
  if (!d.shown) return absl::StrCat(of, "_", d.method);
  return *d.shown ? absl::StrCat(of, "_", d.shown) : "";
}

class Analyser {
 public:
  Analyser(Entry* entry, Diagnostics* diagnostics) : entry_(entry), diagnostics_(diagnostics) { name_outputs(); }

  void run() {
    for (int i = 0; i < entry_->op.derivative_size(); ++i)
      one(entry_->op.derivative(i), entry_->line_of(absl::StrCat("derivative.", i)));
    forward_rules();
  }

 private:
  void error(int line, const std::string& reason) {
    diagnostics_->error(entry_->path, line, absl::StrCat(entry_->qualified, ": ", reason));
  }

  void name_outputs() {
    const std::vector<SchemaArgument>& returns = entry_->schema.returns;
    for (size_t i = 0; i < returns.size(); ++i) {
      outputs_[absl::StrCat("result", i)] = static_cast<int>(i);
      if (!returns[i].name.empty() && entry_->schema.find_argument(returns[i].name) < 0)
        outputs_[returns[i].name] = static_cast<int>(i);
    }
    if (returns.size() == 1) outputs_["result"] = 0;
  }

  bool read_inputs(const Derivative& d, int line, DerivativeDef* out) {
    if (d.input_size() == 0) error(line, "a derivative needs an input");
    for (const std::string& input : d.input()) {
      const int index = entry_->schema.find_argument(input);
      if (index < 0) {
        error(line, absl::StrCat("there is no argument '", input, "' to give a derivative of"));
        return false;
      }
      const SchemaType& type = entry_->schema.arguments[static_cast<size_t>(index)].type;
      if (!is_tensor(type) && !is_tensor_list(type))
        error(line, absl::StrCat("'", input, "' is not a tensor: it has no derivative"));
      if (!seen_.insert(index).second) error(line, absl::StrCat("a second derivative of '", input, "'"));
      if (d.input_size() > 1 && is_tensor_list(type))
        error(line, absl::StrCat("'", input, "' is a list: it needs a formula of its own"));
      out->inputs.push_back(index);
    }
    return d.input_size() > 0;
  }

  void one(const Derivative& d, int line) {
    DerivativeDef def;
    def.line = line;
    def.original = d.formula();
    def.forward = d.forward();
    if (!read_inputs(d, line, &def)) return;
    if (d.formula() == "not_differentiable") return;
    std::vector<FormulaToken> tokens = tokenize_formula(d.formula());
    if (const std::string reason = formula_imbalance(tokens); !reason.empty() || tokens.empty()) {
      error(line, absl::StrCat("in the formula of '", d.input(0), "': ", tokens.empty() ? "it is empty" : reason));
      return;
    }
    const int number = static_cast<int>(entry_->derivatives.size());
    std::vector<FormulaName> names = value_names(tokens);
    // From the back, so that the indices stay right while tokens are replaced.
    for (auto it = names.rbegin(); it != names.rend(); ++it) name(*it, number, line, &tokens, &def);
    for (const FormulaToken& t : tokens) def.formula += t.text;
    entry_->derivatives.push_back(std::move(def));
  }

  void replace(std::vector<FormulaToken>* tokens, const FormulaName& n, size_t end, const std::string& text) {
    (*tokens)[n.index].text = text;
    tokens->erase(tokens->begin() + static_cast<int64_t>(n.index) + 1, tokens->begin() + static_cast<int64_t>(end));
  }

  void name(const FormulaName& n, int number, int line, std::vector<FormulaToken>* tokens, DerivativeDef* def) {
    if (n.name == "grad") {
      def->uses_grad = true;
      return;
    }
    if (n.name == "grads") {
      def->uses_grads = true;
      return;
    }
    if (n.name == "grad_input_mask") {
      def->uses_mask = true;
      return;
    }
    if (const int index = argument(n.name); index >= 0) {
      const SchemaArgument& a = entry_->schema.arguments[static_cast<size_t>(index)];
      const std::string cpp = cpp_identifier(a.name);
      if (is_tensor(a.type)) {
        if (const Datum* d = find_datum(n.method)) {
          const std::string member = absl::StrCat(a.name, "_", d->method);
          std::string init = absl::StrCat(cpp, ".", d->method, "()");
          if (a.type.is_optional() && n.method != "defined")
            init = absl::StrCat(cpp, ".defined() ? ", init, " : decltype(", init, ")()");
          if (*d->wrap) init = absl::StrCat(d->wrap, "(", init, ")");
          save({Saved::Kind::kDatum, index, member, d->type, init, {}, shown_name(a.name, *d)}, number);
          replace(tokens, n, n.end, member + "_");
        } else {
          save({Saved::Kind::kTensor, index, a.name, "autograd::SavedVariable", cpp, {}, a.name}, number);
          replace(tokens, n, n.index + 1, cpp);
        }
      } else if (is_tensor_list(a.type)) {
        if (n.method == "size") {
          save({Saved::Kind::kDatum,
                index,
                a.name + "_size",
                "int64_t",
                absl::StrCat("static_cast<int64_t>(", cpp, a.type.is_optional() ? "->" : ".", "size())"),
                {},
                a.name + "_size"},
               number);
          replace(tokens, n, n.end, a.name + "_size_");
        } else if (n.method == "parts") {
          save({Saved::Kind::kDatum,
                index,
                a.name + "_parts",
                "std::vector<SymInt>",
                absl::StrCat("autograd::formulas::parts_of(", cpp, ")"),
                {},
                a.name + "_parts"},
               number);
          replace(tokens, n, n.end, a.name + "_parts_");
        } else {
          save({Saved::Kind::kTensorList, index, a.name, "std::vector<autograd::SavedVariable>", cpp, {}, a.name},
               number);
          replace(tokens, n, n.index + 1, cpp);
        }
      } else {
        save({Saved::Kind::kPlain, index, a.name, cpp_saved_type(a.type), cpp_save_expr(a.type, cpp), {}, a.name},
             number);
        replace(tokens, n, n.index + 1, a.name + "_");
      }
      return;
    }
    if (const auto out = outputs_.find(n.name); out != outputs_.end()) {
      const std::string& given = entry_->schema.returns[static_cast<size_t>(out->second)].name;
      const std::string canonical = outputs_.count(given)                ? given
                                    : entry_->schema.returns.size() == 1 ? "result"
                                                                         : absl::StrCat("result", out->second);
      if (!entry_->schema.returns[static_cast<size_t>(out->second)].type.is(TypeKind::kTensor))
        error(line, absl::StrCat("'", n.name, "' is not a tensor: it can't be saved"));
      if (const Datum* d = find_datum(n.method)) {
        const std::string member = absl::StrCat(canonical, "_", d->method);
        std::string init = absl::StrCat("@.", d->method, "()");  // @: the output, named by the generator
        if (*d->wrap) init = absl::StrCat(d->wrap, "(", init, ")");
        save({Saved::Kind::kOutput, out->second, member, d->type, init, {}, shown_name(canonical, *d)}, number);
        replace(tokens, n, n.end, member + "_");
      } else {
        save({Saved::Kind::kOutput, out->second, canonical, "autograd::SavedVariable", "", {}, canonical}, number);
        replace(tokens, n, n.index + 1, canonical);
      }
      return;
    }
    if (!known_word(n, *tokens))
      error(line, absl::StrCat("unknown name '", n.name, "' in the formula of '",
                               entry_->schema.arguments[static_cast<size_t>(def->inputs[0])].name, "'"));
  }

  // --- Forward mode.

  void forward_rules() {
    const Op& op = entry_->op;
    if (entry_->derivatives.empty()) {
      if (op.has_forward()) error(entry_->line_of("forward"), "'forward' needs derivatives");
      return;
    }
    bool said = op.has_forward();
    for (const DerivativeDef& d : entry_->derivatives) said |= !d.forward.empty();
    const ForwardRule usual = usual_rule();
    for (DerivativeDef& d : entry_->derivatives) one_rule(&d, usual);
    if (op.rule() == Op::VIEW)
      entry_->forward = ForwardRule::kView;
    else if (op.rule() == Op::COMPOSITE && !said)
      entry_->forward = ForwardRule::kDecomposed;
    else if (op.forward() == "jointly_linear")
      entry_->forward = ForwardRule::kJoint;
    else if (usual == ForwardRule::kExpression)
      entry_->forward = ForwardRule::kExpression;
    for (const DerivativeDef& d : entry_->derivatives)
      if (d.rule == ForwardRule::kTwice && op.rule() != Op::VIEW && entry_->forward != ForwardRule::kDecomposed)
        entry_->forward = ForwardRule::kTwice;
  }

  // A rule's name, or nullopt.
  static std::optional<ForwardRule> named_rule(const std::string& text) {
    static const std::map<std::string, ForwardRule> kNames = {
        {"elementwise", ForwardRule::kElementwise}, {"symmetric", ForwardRule::kSymmetric},
        {"reduction", ForwardRule::kReduction},     {"linear", ForwardRule::kLinear},
        {"jointly_linear", ForwardRule::kJoint},    {"double_backward", ForwardRule::kTwice}};
    const auto it = kNames.find(text);
    return it == kNames.end() ? std::nullopt : std::optional<ForwardRule>(it->second);
  }

  // That of derivatives which say nothing.
  ForwardRule usual_rule() {
    const Op& op = entry_->op;
    if (op.has_forward()) return read_rule(op.forward(), entry_->line_of("forward"));
    if (op.rule() == Op::POINTWISE) return ForwardRule::kElementwise;
    return is_affine() ? ForwardRule::kLinear : ForwardRule::kTwice;
  }

  // One input's derivative which depends on no value that the derivative is of: the op is linear in it (tables say so
  // where a constant is added).
  bool is_affine() const {
    const DerivativeDef* only = nullptr;
    for (const DerivativeDef& d : entry_->derivatives) {
      if (is_zero(d)) continue;
      if (only || d.inputs.size() != 1) return false;
      only = &d;
    }
    if (!only || entry_->schema.arguments[static_cast<size_t>(only->inputs[0])].is_write()) return false;
    for (const Saved& s : entry_->saved) {
      const bool whole = s.type == "autograd::SavedVariable" || s.kind == Saved::Kind::kTensorList;
      if (whole && (s.kind == Saved::Kind::kOutput || s.index == only->inputs[0])) return false;
    }
    return true;
  }
  static bool is_zero(const DerivativeDef& d) { return absl::StartsWith(d.original, "zeros"); }

  void one_rule(DerivativeDef* d, ForwardRule usual) {
    if (d->forward.empty()) {
      d->rule = absl::StartsWith(d->original, "not_implemented") ? ForwardRule::kRefused
                : is_zero(*d)                                    ? ForwardRule::kZero
                                                                 : usual;
    } else {
      d->rule = read_rule(d->forward, d->line);
      if (d->rule == ForwardRule::kJoint) error(d->line, "'jointly_linear' is said of the op, not of one derivative");
    }
    const bool of_formula = d->rule == ForwardRule::kElementwise || d->rule == ForwardRule::kSymmetric ||
                            d->rule == ForwardRule::kReduction;
    if (of_formula && d->inputs.size() != 1)
      error(d->line, "forward mode can't be derived from a formula for several inputs: write 'forward'");
  }

  ForwardRule read_rule(const std::string& text, int line) {
    if (const std::optional<ForwardRule> rule = named_rule(text)) return *rule;
    const std::vector<FormulaToken> tokens = tokenize_formula(text);
    if (const std::string reason = formula_imbalance(tokens); !reason.empty() || tokens.empty())
      error(line, absl::StrCat("in 'forward': ", tokens.empty() ? "it is empty" : reason));
    bool any = false;
    for (const FormulaName& n : value_names(tokens)) {
      if (!absl::EndsWith(n.name, "_t") || n.name == "int64_t") continue;
      const int index = argument(n.name.substr(0, n.name.size() - 2));
      if (index < 0 || !seen_.count(index))
        error(line,
              absl::StrCat("in 'forward': there is no derivative of '", n.name.substr(0, n.name.size() - 2), "'"));
      any = true;
    }
    if (!any) error(line, absl::StrCat("unknown rule of forward mode '", text, "'"));
    return ForwardRule::kExpression;
  }

  int argument(const std::string& name) const {
    for (size_t i = 0; i < entry_->schema.arguments.size(); ++i)
      if (entry_->schema.arguments[i].name == name || cpp_identifier(entry_->schema.arguments[i].name) == name)
        return static_cast<int>(i);
    return -1;
  }

  // Words of the language, constants (kSum), types in a cast or a declaration.
  static bool known_word(const FormulaName& n, const std::vector<FormulaToken>& tokens) {
    static const std::set<std::string> kWords = {
        "true",    "false",      "nullptr", "int64_t",    "double", "float",  "int",
        "bool",    "auto",       "const",   "return",     "this",   "new",    "if",
        "else",    "for",        "Tensor",  "TensorList", "Scalar", "SymInt", "IntVector",
        "IntList", "SymIntList", "DType",   "INFINITY",   "NAN",    "M_PI",   "static_cast"};
    if (kWords.count(n.name) ||
        (n.name.size() > 1 && n.name[0] == 'k' && std::isupper(static_cast<unsigned char>(n.name[1]))))
      return true;
    // Template names `f<...>`, and formulas with lambdas, whose own variables are not looked for.
    const size_t after = n.index + 1;
    if (after < tokens.size() && tokens[after].text == "<") return true;
    for (const FormulaToken& t : tokens)
      if (t.text == "{" || t.text == ";") return true;
    return false;
  }

  void save(Saved s, int number) {
    for (Saved& have : entry_->saved)
      if (have.name == s.name) {
        have.used_by.insert(number);
        return;
      }
    s.used_by.insert(number);
    entry_->saved.push_back(std::move(s));
  }

  Entry* entry_;
  Diagnostics* diagnostics_;
  std::map<std::string, int> outputs_;
  std::set<int> seen_;
};

}  // namespace

void analyse_derivatives(Entry* entry, Diagnostics* diagnostics) { Analyser(entry, diagnostics).run(); }

std::string forward_text(const Entry& e) {
  if (!e.has_derivatives()) return "";
  if (e.forward == ForwardRule::kTwice) return "fallback";
  bool written = e.forward == ForwardRule::kExpression, refused = true;
  for (const DerivativeDef& d : e.derivatives) {
    written |= d.rule == ForwardRule::kExpression;
    refused &= d.rule == ForwardRule::kRefused;
  }
  return refused ? "" : written ? "written" : "derived";
}

}  // namespace tessera::opgen
