// Reads tables and checks them strictly: whatever is wrong is reported with file:line and a reason.
#include <algorithm>
#include <cctype>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "tools/opgen/cpp_types.h"
#include "tools/opgen/formula.h"
#include "tools/opgen/model.h"

namespace tessera::opgen {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

class SyntaxErrors : public google::protobuf::io::ErrorCollector {
 public:
  SyntaxErrors(const std::string& path, const std::string& text, Diagnostics* diagnostics)
      : path_(path), lines_(absl::StrSplit(text, '\n')), diagnostics_(diagnostics) {}
  void AddError(int line, google::protobuf::io::ColumnNumber, const std::string& message) override {
    diagnostics_->error(path_, corrected(line, message) + 1, message);
  }

 private:
  // The parser has often read on to the next token: the line meant is the last one up to there that has the word which
  // the message quotes.
  int corrected(int line, const std::string& message) const {
    const std::vector<std::string> parts = absl::StrSplit(message, '"');
    if (parts.size() < 3 || line < 0) return line;
    for (int i = std::min(line, static_cast<int>(lines_.size()) - 1); i >= 0 && i + 3 > line; --i)
      if (absl::StrContains(lines_[static_cast<size_t>(i)], parts[1])) return i;
    return line;
  }

  std::string path_;
  std::vector<std::string> lines_;
  Diagnostics* diagnostics_;
};

class EntryReader {
 public:
  EntryReader(Entry* entry, const OpTable& table, Diagnostics* diagnostics)
      : e_(entry),
        namespace_(table.op_namespace()),
        no_cpp_methods_(table.no_cpp_methods()),
        diagnostics_(diagnostics) {}

  void run() {
    if (!parse()) return;
    check_fields();
    check_autocast();
    check_documented();
    make_forms();
    check_rule();
    if (diagnostics_->messages().size() > before_) return;
    analyse_derivatives(e_, diagnostics_);
    check_derivatives();
  }

 private:
  void error(const char* field, const std::string& reason) {
    diagnostics_->error(e_->path, e_->line_of(field), absl::StrCat(e_->qualified, ": ", reason));
  }
  bool has_variant(Op::Variant v) const {
    return std::find(e_->op.variants().begin(), e_->op.variants().end(), v) != e_->op.variants().end();
  }

  bool parse() {
    try {
      e_->schema = parse_schema(e_->op.schema());
    } catch (const SchemaError& error) {
      diagnostics_->error(e_->path, e_->line,
                          absl::StrCat("bad schema, column ", error.offset() + 1, ": ", error.what()));
      return false;
    }
    e_->qualified = e_->schema.qualified_name();
    if (e_->schema.name.empty())
      error("schema", "the schema has no operator name");
    else if (!e_->schema.name_space().empty())
      error("schema",
            absl::StrCat("write the name without its namespace (op_namespace of the table is '", namespace_, "')"));
    if (e_->schema.is_vararg || e_->schema.is_varret) error("schema", "'...' has no C++ form");
    if (e_->schema.arguments.size() > 32) error("schema", "more than 32 arguments");
    return check_types(e_->schema, "schema");
  }

  bool check_types(const FunctionSchema& s, const char* field) {
    bool good = true;
    for (const SchemaArgument& a : s.arguments) {
      if (!cpp_arg_type(a.type)) {
        error(field, absl::StrCat("the type ", a.type.str(), " of '", a.name, "' has no C++ form"));
        good = false;
      } else if (a.default_value && !cpp_default(a.type, *a.default_value)) {
        error(field, absl::StrCat("the default of '", a.name, "' has no C++ form for ", a.type.str()));
        good = false;
      }
    }
    for (const SchemaArgument& r : s.returns)
      if (!cpp_result_type(r)) {
        error(field, absl::StrCat("the result type ", r.type.str(), " has no C++ form"));
        good = false;
      }
    return good;
  }

  // Fields that the rule does not look at are mistakes.
  void check_fields() {
    struct Use {
      const char* field;
      bool present;
      std::set<Op::Rule> rules;
    };
    const Op& op = e_->op;
    const Use uses[] = {{"kernel", op.has_kernel(), {Op::POINTWISE, Op::STRUCTURED, Op::DIRECT}},
                        {"param", op.param_size() > 0, {Op::POINTWISE}},
                        {"no_params", op.has_no_params(), {Op::POINTWISE}},
                        {"check", op.has_check(), {Op::POINTWISE}},
                        {"meta", op.has_meta(), {Op::STRUCTURED, Op::DIRECT}},
                        {"inplace_safe", op.has_inplace_safe(), {Op::STRUCTURED}},
                        {"view", op.has_view(), {Op::VIEW}},
                        {"composite", op.has_composite(), {Op::COMPOSITE}},
                        {"expr", op.has_expr(), {Op::COMPOSITE}},
                        {"inplace_expr", op.has_inplace_expr(), {Op::COMPOSITE, Op::DIRECT}},
                        {"out_expr", op.has_out_expr(), {Op::COMPOSITE, Op::DIRECT}},
                        {"of", op.has_of(), {Op::SCALAR_OVERLOAD}},
                        {"scalar", op.has_scalar(), {Op::SCALAR_OVERLOAD}},
                        {"backends", op.has_backends(), {Op::DIRECT}},
                        {"inplace_by_copy", op.has_inplace_by_copy(), {Op::DIRECT}},
                        {"out_native", op.has_out_native(), {Op::DIRECT}},
                        {"out_apart", op.has_out_apart(), {Op::STRUCTURED, Op::DIRECT, Op::COMPOSITE}},
                        {"out_dtype", op.has_out_dtype(), {Op::POINTWISE, Op::STRUCTURED, Op::DIRECT, Op::COMPOSITE}}};
    for (const Use& u : uses)
      if (u.present && !u.rules.count(op.rule()))
        error(u.field, absl::StrCat("the field '", u.field, "' means nothing with rule ", Op::Rule_Name(op.rule())));
    if (op.has_expr() && op.has_composite()) error("expr", "either 'expr' or 'composite'");
    if ((op.has_out_expr() || op.out_native()) && (op.has_out_dtype() || op.has_out_apart()))
      error(op.has_out_dtype() ? "out_dtype" : "out_apart", "a hand-written out= form checks its tensors itself");
    if (op.variants_size() == 0) error("schema", "no variants: at least one of FUNCTION, METHOD, INPLACE, OUT");
    for (const auto& [field, text] :
         {std::pair("expr", op.expr()), {"inplace_expr", op.inplace_expr()}, {"out_expr", op.out_expr()}})
      check_expression(field, text, e_->schema);
    for (const std::string& p : op.param()) check_expression("param", p, e_->schema);
  }

  void check_expression(const char* field, const std::string& text, const FunctionSchema& s) {
    const std::vector<FormulaToken> tokens = tokenize_formula(text);
    if (const std::string reason = formula_imbalance(tokens); !reason.empty())
      error(field, absl::StrCat("in '", field, "': ", reason));
    if (std::string_view(field) != "param") return;  // parameters are plain values: every name must be an argument
    for (const FormulaName& n : value_names(tokens)) {
      bool known = n.name == "true" || n.name == "false" || n.name == "nullptr" ||
                   (n.name.size() > 1 && n.name[0] == 'k' && std::isupper(static_cast<unsigned char>(n.name[1]))) ||
                   (n.index + 1 < tokens.size() && tokens[n.index + 1].text == "<") ||
                   std::none_of(n.name.begin(), n.name.end(), [](char c) {
                     return std::islower(static_cast<unsigned char>(c));
                   });  // a macro such as NAN
      for (const char* type : {"double", "int64_t", "bool", "Scalar", "INFINITY", "M_PI", "DType"})
        known = known || n.name == type;
      for (const SchemaArgument& a : s.arguments) known = known || cpp_identifier(a.name) == n.name;
      if (!known) error(field, absl::StrCat("unknown name '", n.name, "' in '", field, "'"));
    }
  }

  OpForm& add_form(Form form, FunctionSchema schema, bool derived) {
    OpForm f;
    f.entry = e_;
    f.form = form;
    f.derived = derived;
    f.id = schema.overload.empty() ? cpp_identifier(schema.name) : absl::StrCat(schema.name, "_", schema.overload);
    f.schema = std::move(schema);
    e_->forms.push_back(std::move(f));
    return e_->forms.back();
  }

  Form own_form() const {
    const FunctionSchema& s = e_->schema;
    if (!s.is_mutable()) return Form::kFunctional;
    return s.arguments[0].is_write() ? Form::kInplace : Form::kOut;
  }

  void make_forms() {
    const Form own = own_form();
    e_->forms.reserve(3);
    OpForm& first = add_form(own, e_->schema, false);
    name_form(&first);
    if (own != Form::kFunctional && (has_variant(Op::OUT) || (has_variant(Op::INPLACE) && own != Form::kInplace)))
      error("variants", "INPLACE and OUT are derived from a functional schema, but this one writes to an argument");
    if (own != Form::kFunctional) return;
    if (has_variant(Op::INPLACE)) make_inplace();
    if (has_variant(Op::OUT)) make_out();
    if (has_variant(Op::METHOD) &&
        (e_->schema.arguments.empty() || !e_->schema.arguments[0].type.is(TypeKind::kTensor)) &&
        e_->schema.find_argument("self") < 0)
      error("variants", "METHOD needs a Tensor as the first argument, or one called self");
  }

  void check_autocast() {
    std::set<std::string> seen;
    for (const std::string& text : e_->op.autocast()) {
      const std::vector<std::string> words = absl::StrSplit(text, ' ');
      if (words.size() != 2 || (words[0] != "cpu" && words[0] != "cuda") || !is_autocast_policy(words[1]))
        error("autocast",
              absl::StrCat("expected \"cpu\" or \"cuda\" and a policy (", kAutocastPolicies, "), not \"", text, "\""));
      else if (!seen.insert(words[0]).second)
        error("autocast", absl::StrCat("two policies for ", words[0]));
      else if (words[1] == "fp32_set_opt_dtype" && !has_optional_dtype(e_->schema))
        error("autocast", "fp32_set_opt_dtype needs an argument ScalarType? dtype");
    }
    if (!seen.empty() && own_form() != Form::kFunctional)
      error("autocast", "only functional operators are cast, and this one writes to an argument");
  }

  void check_documented() {
    for (const std::string& entry : e_->op.documented()) {
      const size_t end = entry.find('='), begin = absl::StartsWith(entry, ".") ? 1 : 0;
      if (end == std::string::npos || e_->schema.find_argument(entry.substr(begin, end - begin)) < 0)
        error("documented", absl::StrCat("expected \"argument=name\" or \".argument=name\", not \"", entry, "\""));
    }
  }

  void name_form(OpForm* f) {
    const Op& op = e_->op;
    std::string base = op.has_cpp_name() ? op.cpp_name() : std::string(e_->schema.name);
    std::string python = op.has_python_name() ? op.python_name() : std::string(e_->schema.name);
    f->cpp_name = cpp_identifier(base);
    if (f->derived && f->form == Form::kInplace) f->cpp_name = base + "_", python += "_";
    if (f->form == Form::kOut) f->cpp_name = base + "_out";
    f->python_name = python;
    f->cpp_method = has_variant(Op::METHOD) && !op.no_cpp_method() && f->form != Form::kOut;
    if (f->form == Form::kInplace) {
      f->python_method = f->derived || has_variant(Op::METHOD);
      f->python_function = f->derived ? op.inplace_function() : has_variant(Op::FUNCTION);
      f->cpp_method = f->python_method && !op.no_cpp_method();
    } else {
      f->python_method = has_variant(Op::METHOD) && f->form == Form::kFunctional;
      f->python_function = has_variant(Op::FUNCTION);
    }
    if (no_cpp_methods_) f->cpp_method = false;
    if (op.no_python()) f->python_function = f->python_method = false;
  }

  void make_inplace() {
    FunctionSchema s;
    if (e_->op.has_inplace_schema()) {
      if (!parse_other(e_->op.inplace_schema(), "inplace_schema", &s)) return;
    } else {
      s = e_->schema;
      s.name += "_";
      if (s.returns.size() != 1 || !s.returns[0].type.is(TypeKind::kTensor) || s.arguments.empty() ||
          !s.arguments[0].type.is(TypeKind::kTensor)) {
        error("variants",
              "INPLACE needs a Tensor as the first argument and as the only result (or write inplace_schema)");
        return;
      }
      s.arguments[0].type.alias = AliasInfo{{"a"}, {"a"}, true};
      s.returns[0].type.alias = AliasInfo{{"a"}, {"a"}, true};
      s.returns[0].name.clear();
    }
    if (s.arguments.empty() || !s.arguments[0].is_write()) {
      error("inplace_schema", "the first argument of an in-place form is written: Tensor(a!) self");
      return;
    }
    name_form(&add_form(Form::kInplace, std::move(s), true));
  }

  std::string out_name(size_t i) const {
    if (static_cast<int>(i) < e_->op.out_names_size()) return e_->op.out_names(static_cast<int>(i));
    if (e_->schema.returns.size() == 1) return "out";
    return e_->schema.returns[i].name.empty() ? absl::StrCat("out", i) : e_->schema.returns[i].name;
  }

  void make_out() {
    FunctionSchema s;
    if (e_->op.has_out_schema()) {
      if (!parse_other(e_->op.out_schema(), "out_schema", &s)) return;
    } else {
      s = e_->schema;
      s.overload = e_->op.has_out_overload()                      ? e_->op.out_overload()
                   : s.overload.empty() || s.overload == "Tensor" ? "out"
                                                                  : s.overload + "_out";
      if (e_->op.out_names_size() > 0 && e_->op.out_names_size() != static_cast<int>(s.returns.size()))
        error("out_names", absl::StrCat(e_->op.out_names_size(), " out_names for ", s.returns.size(), " results"));
      for (size_t i = 0; i < s.returns.size(); ++i) {
        if (!s.returns[i].type.is(TypeKind::kTensor)) {
          error("variants",
                absl::StrCat("OUT needs Tensor results, not ", s.returns[i].type.str(), " (or write out_schema)"));
          return;
        }
        const std::string set(1, static_cast<char>('a' + i));
        SchemaArgument out;
        out.name = out_name(i);
        out.type.kind = TypeKind::kTensor;
        out.type.alias = AliasInfo{{set}, {set}, true};
        out.kwarg_only = true;
        if (s.find_argument(out.name) >= 0)
          error("variants", absl::StrCat("an argument is called '", out.name, "' as the out= one: use out_names"));
        s.returns[i].type = out.type;
        s.arguments.push_back(std::move(out));
      }
      if (s.returns.size() == 1) s.returns[0].name.clear();
    }
    if (!s.is_mutable() || s.arguments[0].is_write()) {
      error("out_schema", "an out= form has a keyword argument Tensor(a!) out");
      return;
    }
    name_form(&add_form(Form::kOut, std::move(s), true));
  }

  bool parse_other(const std::string& text, const char* field, FunctionSchema* s) {
    try {
      *s = parse_schema(text);
    } catch (const SchemaError& error) {
      diagnostics_->error(e_->path, e_->line_of(field),
                          absl::StrCat("bad schema, column ", error.offset() + 1, ": ", error.what()));
      return false;
    }
    return check_types(*s, field);
  }

  void check_rule() {
    const Op& op = e_->op;
    const Form own = own_form();
    const FunctionSchema& s = e_->schema;
    const bool one_tensor = s.returns.size() == 1 && s.returns[0].type.is(TypeKind::kTensor);
    switch (op.rule()) {
      case Op::POINTWISE:
        if (own == Form::kFunctional && !one_tensor) error("rule", "POINTWISE gives one Tensor");
        if (tensor_args() == 0) error("rule", "POINTWISE needs tensor arguments");
        for (const SchemaArgument& a : s.arguments)
          if (is_tensor_list(a.type) || (is_tensor(a.type) && a.type.is_optional()))
            error("rule", absl::StrCat("POINTWISE can't take '", a.name, "' of type ", a.type.str()));
        break;
      case Op::STRUCTURED:
        if (own == Form::kOut) error("rule", "STRUCTURED needs the functional schema; its out= form is derived");
        for (const SchemaArgument& r : s.returns)
          if (!r.type.is(TypeKind::kTensor)) error("rule", "STRUCTURED gives Tensors");
        if (s.returns.empty()) error("rule", "STRUCTURED gives Tensors");
        break;
      case Op::VIEW:
        if (own != Form::kFunctional || has_variant(Op::INPLACE) || has_variant(Op::OUT))
          error("rule", "a VIEW has no in-place or out= form");
        if (s.returns.size() != 1 || !s.returns[0].type.has_tensor())
          error("rule", "a VIEW gives a Tensor or a list of them");
        else if (!s.returns[0].type.alias_anywhere())
          error("schema", "the result of a VIEW carries an alias annotation: Tensor(a) self ... -> Tensor(a)");
        break;
      case Op::SCALAR_OVERLOAD: {
        if (!op.has_of()) error("rule", "SCALAR_OVERLOAD needs 'of'");
        if (!op.has_scalar()) error("rule", "SCALAR_OVERLOAD needs 'scalar'");
        const int index = s.find_argument(op.scalar());
        if (op.has_scalar() && (index < 0 || !s.arguments[static_cast<size_t>(index)].type.is(TypeKind::kScalar)))
          error("scalar", absl::StrCat("there is no Scalar argument '", op.scalar(), "'"));
        break;
      }
      case Op::COMPOSITE:
      case Op::DIRECT:
        break;
    }
    if (op.rule() == Op::DIRECT && has_variant(Op::INPLACE) && op.has_inplace_by_copy() && op.has_inplace_expr())
      error("inplace_expr", "either 'inplace_expr' or 'inplace_by_copy'");
  }

  int tensor_args() const {
    return static_cast<int>(
        std::count_if(e_->schema.arguments.begin(), e_->schema.arguments.end(),
                      [](const SchemaArgument& a) { return is_tensor(a.type) || is_tensor_list(a.type); }));
  }

  bool tensor_results() const {
    return std::any_of(e_->schema.returns.begin(), e_->schema.returns.end(),
                       [](const SchemaArgument& r) { return r.type.has_tensor(); });
  }

  void check_derivatives() {
    const Op& op = e_->op;
    const bool primitive = op.rule() != Op::COMPOSITE && op.rule() != Op::SCALAR_OVERLOAD;
    if (op.derivative_size() && op.not_differentiable())
      error("not_differentiable", "not_differentiable, but there are derivatives");
    if (op.derivative_size() && op.rule() == Op::SCALAR_OVERLOAD)
      error("rule", "a SCALAR_OVERLOAD takes the derivatives of the op that it calls");
    if (op.derivative_size() && own_form() == Form::kOut) error("schema", "an out= form has no derivative");
    if (op.output_differentiability_size() &&
        op.output_differentiability_size() != static_cast<int>(e_->schema.returns.size()))
      error("output_differentiability",
            absl::StrCat(op.output_differentiability_size(), " values for ", e_->schema.returns.size(), " results"));
    if (primitive && !op.derivative_size() && !op.not_differentiable() && tensor_args() > 0 && tensor_results() &&
        own_form() != Form::kOut)
      error("schema", "no derivative: write one for each differentiable argument, or not_differentiable: true");
    const bool differentiable = !e_->derivatives.empty();
    e_->node = op.has_node() ? op.node() : "";
    if (op.has_node() && !is_plain_identifier(op.node())) error("node", "the node needs a plain name");
    for (const std::string& entry : op.number_node()) {
      const std::vector<std::string> parts = absl::StrSplit(entry, '=');
      const int argument = e_->schema.find_argument(parts[0]);
      if (parts.size() != 2 || !is_plain_identifier(parts[1]) || !differentiable || argument < 0 ||
          !is_tensor(e_->schema.arguments[static_cast<size_t>(argument)].type))
        error("number_node",
              absl::StrCat("expected \"tensor=NodeName\" for an op with derivatives, not \"", entry, "\""));
      else
        e_->number_nodes.push_back({argument, parts[1]});
    }
    for (OpForm& f : e_->forms) {
      const bool takes_tensors = tensor_args() > 0;
      // An out= form refuses what requires grad, unless there is no gradient to lose or the op that it calls does so.
      const bool refuses = !op.not_differentiable() && op.rule() != Op::SCALAR_OVERLOAD;
      f.has_autograd = differentiable || (f.form == Form::kOut && takes_tensors && refuses) ||
                       (f.form == Form::kInplace && primitive && takes_tensors);
    }
  }

  Entry* e_;
  std::string namespace_;
  bool no_cpp_methods_;
  Diagnostics* diagnostics_;
  size_t before_ = diagnostics_->messages().size();
};

void read_lines(const TextFormat::ParseInfoTree& tree, int index, Entry* entry) {
  TextFormat::ParseInfoTree* mine = tree.GetTreeForNested(OpTable::descriptor()->FindFieldByName("op"), index);
  if (!mine) return;
  for (int i = 0; i < Op::descriptor()->field_count(); ++i) {
    const FieldDescriptor* field = Op::descriptor()->field(i);
    const int count = field->is_repeated() ? entry->op.GetReflection()->FieldSize(entry->op, field) : 1;
    for (int k = 0; k < count; ++k) {
      const TextFormat::ParseLocation at = mine->GetLocation(field, field->is_repeated() ? k : -1);
      if (at.line < 0) continue;
      if (k == 0) entry->field_lines[field->name()] = at.line + 1;
      if (field->name() != "derivative") continue;
      // The line of the formula rather than of the opening brace.
      int line = at.line;
      if (TextFormat::ParseInfoTree* nested = mine->GetTreeForNested(field, k)) {
        const TextFormat::ParseLocation formula =
            nested->GetLocation(Derivative::descriptor()->FindFieldByName("formula"), -1);
        if (formula.line >= 0) line = formula.line;
      }
      entry->field_lines[absl::StrCat("derivative.", k)] = line + 1;
    }
  }
  entry->line = entry->line_of("schema");
}

// C++ needs to tell overloads apart: all(x) and all(x, dim = none) are both callable with one argument. The later
// overload loses defaults until no call fits both (or the earlier one, where the later one has none to lose).
void separate_overloads(std::vector<Family>* families) {
  std::map<std::string, std::vector<OpForm*>> by_name;
  for (Family& family : *families)
    for (auto& e : family.entries)
      for (OpForm& f : e->forms) {
        const std::vector<const SchemaArgument*> order = f.api_order();
        f.cpp_required = order.size();
        while (f.cpp_required > 0 && order[f.cpp_required - 1]->default_value) --f.cpp_required;
        by_name[f.cpp_name].push_back(&f);
      }
  for (auto& [name, forms] : by_name)
    for (size_t b = 1; b < forms.size(); ++b)
      for (size_t a = 0; a < b; ++a) {
        const std::vector<const SchemaArgument*> x = forms[a]->api_order(), y = forms[b]->api_order();
        size_t same = 0;
        while (same < std::min(x.size(), y.size()) && cpp_arg_type(x[same]->type) == cpp_arg_type(y[same]->type))
          ++same;
        if (same < forms[a]->cpp_required || same < forms[b]->cpp_required)
          continue;  // no number of arguments fits both
        if (same < y.size())
          forms[b]->cpp_required = same + 1;
        else if (same < x.size())
          forms[a]->cpp_required = same + 1;
      }
}

void check_scalar_overload(const Entry& e, const std::map<std::string, const OpForm*>& all, Diagnostics* diagnostics) {
  auto error = [&](const char* field, const std::string& reason) {
    diagnostics->error(e.path, e.line_of(field), absl::StrCat(e.qualified, ": ", reason));
  };
  const auto target = all.find(e.op.of());
  if (target == all.end()) return error("of", absl::StrCat("there is no op '", e.op.of(), "' in these tables"));
  const Entry& t = *target->second->entry;
  if (t.schema.arguments.size() != e.schema.arguments.size())
    return error("of", absl::StrCat(e.op.of(), " takes ", t.schema.arguments.size(), " arguments, this one ",
                                    e.schema.arguments.size()));
  for (size_t i = 0; i < t.schema.arguments.size(); ++i) {
    const SchemaArgument& a = e.schema.arguments[i];
    const SchemaArgument& b = t.schema.arguments[i];
    const bool fits =
        a.name == e.op.scalar() ? b.type.is(TypeKind::kTensor) : cpp_arg_type(a.type) == cpp_arg_type(b.type);
    if (!fits)
      error("of", absl::StrCat("'", a.name, "' (", a.type.str(), ") does not fit '", b.name, "' (", b.type.str(),
                               ") of ", e.op.of()));
  }
  for (const OpForm& f : e.forms)
    if (!t.find(f.form))
      error("variants",
            absl::StrCat(e.op.of(), " has no ", f.form == Form::kInplace ? "in-place" : "out=", " form to call"));
}

}  // namespace

std::string title(const std::string& name) {
  std::string out;
  bool word = false;
  for (char c : name) {
    if (c == '_') {
      word = false;
      continue;
    }
    const bool letter = std::isalpha(static_cast<unsigned char>(c));
    out += static_cast<char>(letter && !word ? std::toupper(c) : std::tolower(c));
    word = letter;
  }
  return out;
}

void Diagnostics::error(const std::string& path, int line, const std::string& reason) {
  messages_.push_back(absl::StrCat(path, ":", line, ": ", reason));
}

std::vector<int> OpForm::outs() const {
  std::vector<int> out;
  for (size_t i = 0; i < schema.arguments.size(); ++i)
    if (schema.arguments[i].is_write()) out.push_back(static_cast<int>(i));
  return out;
}

std::vector<const SchemaArgument*> OpForm::api_order() const {
  std::vector<const SchemaArgument*> out;
  if (form == Form::kOut)
    for (const SchemaArgument& a : schema.arguments)
      if (a.is_write()) out.push_back(&a);
  for (const SchemaArgument& a : schema.arguments)
    if (!(form == Form::kOut && a.is_write())) out.push_back(&a);
  return out;
}

const OpForm* Entry::find(Form f) const {
  for (const OpForm& form : forms)
    if (form.form == f) return &form;
  return nullptr;
}

int Entry::line_of(const std::string& field) const {
  const auto it = field_lines.find(field);
  return it == field_lines.end() ? line : it->second;
}

Family read_table(const std::string& path, const std::string& text, Diagnostics* diagnostics) {
  Family family;
  family.path = path;
  family.name = path.substr(path.rfind('/') + 1);
  family.name = family.name.substr(0, family.name.find('.'));
  TextFormat::Parser parser;
  TextFormat::ParseInfoTree tree;
  SyntaxErrors errors(path, text, diagnostics);
  parser.RecordErrorsTo(&errors);
  parser.WriteLocationsTo(&tree);
  parser.AllowPartialMessage(true);  // missing fields are reported below, with their line
  if (!parser.ParseFromString(text, &family.table)) return family;
  for (int i = 0; i < family.table.op_size(); ++i) {
    auto entry = std::make_unique<Entry>();
    entry->path = path;
    entry->op = std::move(*family.table.mutable_op(i));
    const TextFormat::ParseLocation at = tree.GetLocation(OpTable::descriptor()->FindFieldByName("op"), i);
    entry->line = at.line + 1;
    read_lines(tree, i, entry.get());
    if (entry->line <= 0) entry->line = at.line + 1;
    if (!entry->op.IsInitialized()) {
      diagnostics->error(path, at.line + 1, absl::StrCat("the op lacks: ", entry->op.InitializationErrorString()));
      continue;
    }
    EntryReader(entry.get(), family.table, diagnostics).run();
    family.entries.push_back(std::move(entry));
  }
  family.table.clear_op();
  return family;
}

void check_families(std::vector<Family>* families, Diagnostics* diagnostics) {
  std::map<std::string, const OpForm*> by_name;  // "aten::add.Tensor" without the namespace
  std::map<std::string, const OpForm*> by_id, by_cpp_function, by_cpp_method;
  std::map<std::string, int> node_numbers;
  std::set<std::string> given_nodes;
  for (Family& family : *families)
    for (auto& e : family.entries)
      if (!e->node.empty() && !given_nodes.insert(e->node).second)
        diagnostics->error(e->path, e->line, absl::StrCat("another entry's node is called ", e->node, " too"));
  for (Family& family : *families) {
    for (auto& e : family.entries) {
      for (const OpForm& f : e->forms) {
        auto once = [&](std::map<std::string, const OpForm*>* map, const std::string& key, const std::string& what) {
          const auto [it, fresh] = map->emplace(key, &f);
          if (fresh) return;
          const Entry& first = *it->second->entry;
          diagnostics->error(e->path, e->line,
                             absl::StrCat(f.schema.qualified_name(), ": ", what, " ", first.path, ":", first.line, " (",
                                          it->second->schema.qualified_name(), ")"));
        };
        once(&by_name, f.schema.qualified_name(), "the same name and overload as in");
        once(&by_id, f.id, absl::StrCat("the C++ name op::", f.id, " is taken by"));
        std::vector<std::string> types;
        for (const SchemaArgument& a : f.schema.arguments) types.push_back(*cpp_arg_type(a.type));
        const std::string key = absl::StrCat(f.cpp_name, "(", absl::StrJoin(types, ", "), ")");
        once(&by_cpp_function, key, absl::StrCat("the C++ function ", key, " (set cpp_name) is taken by"));
        if (f.cpp_method)
          once(&by_cpp_method, key, absl::StrCat("the C++ method ", key, " (set cpp_name) is taken by"));
      }
      if (e->has_derivatives() && e->node.empty()) {
        do {
          const std::string base = title(e->schema.name) + "Backward";
          e->node = absl::StrCat(base, node_numbers[base]++);
        } while (given_nodes.count(e->node));
      }
    }
  }
  separate_overloads(families);
  for (Family& family : *families)
    for (auto& e : family.entries)
      if (e->op.rule() == Op::SCALAR_OVERLOAD) check_scalar_overload(*e, by_name, diagnostics);
}

}  // namespace tessera::opgen
