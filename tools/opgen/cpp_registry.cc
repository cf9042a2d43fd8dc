// The constant data that Python, boxed calls and the documentation read.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tools/opgen/cpp_types.h"
#include "tools/opgen/generate.h"

namespace tessera::opgen {
namespace {

// "list_results" of "list_results(ListOp::kAbs, ...)".
std::string first_call(const std::string& expression) {
  const size_t end = expression.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:.");
  return end == 0 ? expression : expression.substr(0, end);
}

std::string rule_text(const Entry& e) {
  const Op& op = e.op;
  const std::string rule = Op::Rule_Name(op.rule());
  auto named = [&](const std::string& given, const char* suffix) {
    return given.empty() ? absl::StrCat(e.id(), suffix) : given;
  };
  switch (op.rule()) {
    case Op::POINTWISE:
      return absl::StrCat(rule, " ", op.has_kernel() ? op.kernel() : e.schema.name);
    case Op::STRUCTURED:
      return absl::StrCat(rule, " ", named(op.meta(), "_meta"), " ", named(op.kernel(), "_kernel"));
    case Op::VIEW:
      return absl::StrCat(rule, " ", named(op.view(), "_view"));
    case Op::COMPOSITE:
      return absl::StrCat(rule, " ", op.has_expr() ? first_call(op.expr()) : named(op.composite(), "_composite"));
    case Op::DIRECT:
      return absl::StrCat(rule, " ", named(op.kernel(), "_kernel"));
    case Op::SCALAR_OVERLOAD:
      return absl::StrCat(rule, " ", op.of());
  }
  return rule;
}

// The entry whose derivatives and dtypes an entry has: its own, or for a SCALAR_OVERLOAD those of the op that it calls.
const Entry& computing_entry(const Entry& e, const Library& library) {
  if (e.op.rule() != Op::SCALAR_OVERLOAD) return e;
  for (const Family& family : library.families)
    for (const auto& other : family.entries)
      if (other->qualified == e.op.of()) return *other;
  return e;
}

// OpInfo::gradients.
std::string gradients_text(const Entry& e, const Entry& computing) {
  if (computing.op.not_differentiable()) return "";
  if (!e.has_derivatives()) return "*";
  std::vector<std::string> names;
  for (const DerivativeDef& d : e.derivatives)
    for (const int input : d.inputs)
      names.push_back(absl::StrCat(e.schema.arguments[static_cast<size_t>(input)].name,
                                   absl::StartsWith(d.original, "zeros")             ? "=0"
                                   : absl::StartsWith(d.original, "not_implemented") ? "!"
                                                                                     : ""));
  return absl::StrJoin(names, " ");
}

// OpInfo::constants.
std::string constants_text(const Op& op) {
  std::vector<int> numbers;
  for (int i = 0; i < op.output_differentiability_size(); ++i)
    if (!op.output_differentiability(i)) numbers.push_back(i);
  return absl::StrJoin(numbers, " ");
}

// OpInfo::floats.
const char* numbers_of(const Op& op) {
  switch (op.numbers()) {
    case Op::BOTH:
      return "OpNumbers::kBoth";
    case Op::REAL:
      return "OpNumbers::kReal";
    case Op::COMPLEX:
      return "OpNumbers::kComplex";
  }
  return "OpNumbers::kBoth";
}

constexpr size_t kNumOpTexts = 11;  // of tensor/dispatch/registry.h, whose OpText says in which order

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The texts of a file, each once, and where in the pool they begin.
class TextPool {
 public:
  size_t offset(const std::string& text) {
    const auto [at, is_new] = offsets_.emplace(text, size_);
    if (is_new) {
      size_ += text.size() + 1;
      absl::StrAppend(&lines_, "    ", cpp_string(text), "\"\\0\"\n");
    }
    return at->second;
  }
  // A text, and another one behind its end.
  size_t offset(const std::string& text, const std::string& more) {
    const auto [at, is_new] = offsets_.emplace(absl::StrCat(text, "\n", more), size_);
    if (is_new) {
      size_ += text.size() + more.size() + 2;
      absl::StrAppend(&lines_, "    ", cpp_string(text), "\"\\0\"", cpp_string(more), "\"\\0\"\n");
    }
    return at->second;
  }
  std::string definition() const { return absl::StrCat("constexpr char kTexts[] =\n", lines_, "    ;\n"); }

 private:
  std::map<std::string, size_t> offsets_;
  std::string lines_;
  size_t size_ = 0;
};

// Signatures of operators whose calls from Python are to be fast. Forms with out= are not among them, nor those of
// libraries that compute more in a call than a call costs.
bool is_called_often(const OpForm& f, const Library& library) {
  return f.form != Form::kOut && (library.package == "tensor/ops" || library.package == "nn");
}

std::string info(const OpForm& f, const Family& family, const Library& library, TextPool* pool) {
  const Entry& e = *f.entry;
  const Entry& computing = computing_entry(e, library);
  FunctionSchema s = f.schema;
  s.name = absl::StrCat(family.table.op_namespace(), "::", s.name);
  std::vector<std::string> tags(e.op.tags().begin(), e.op.tags().end());
  if (e.op.rule() == Op::POINTWISE && std::find(tags.begin(), tags.end(), "pointwise") == tags.end())
    tags.push_back("pointwise");
  std::vector<std::string> variants;
  if (f.python_function) variants.push_back("kFunction");
  if (f.python_method) variants.push_back("kMethod");
  std::sort(tags.begin(), tags.end());
  std::vector<size_t> offsets;  // in the order of OpText
  for (const std::string& text : std::initializer_list<std::string>{
           s.str(), absl::StrJoin(tags, " "), f.python_name, e.op.python_module(), first_line(e.op.doc()), rule_text(e),
           e.path, absl::StrCat(e.line), gradients_text(e, computing), constants_text(computing.op), forward_text(e)})
    offsets.push_back(pool->offset(text));
  if (const std::string names = absl::StrJoin(e.op.documented(), " "); !names.empty() && !variants.empty()) {
    offsets[2] = pool->offset(f.python_name, names);
    variants.push_back("kNamesArguments");
  }
  return absl::StrCat("extern const OpInfo ", f.id, ";\nconstinit const OpInfo ", f.id, " = {&op::", f.id, ", &",
                      is_called_often(f, library) ? "kAdapter" : "kCompactAdapter", "<decltype(op::", f.id,
                      ")::Signature>, kTexts, ", variants.empty() ? "0" : absl::StrJoin(variants, " | "), ", ",
                      numbers_of(computing.op), ", {", absl::StrJoin(offsets, ", "), "}};\n");
}

}  // namespace

void generate_registry(const Library& library, Files* files) {
  std::vector<std::pair<std::string, std::string>> all;  // (sort key, id)
  for (const Family& family : library.families) {
    for (const auto& e : family.entries)
      for (const OpForm& f : e->forms)
        all.emplace_back(absl::StrCat(family.table.op_namespace(), "::", f.schema.name, ".", f.schema.overload), f.id);
    for (int i = 0; i < library.shards; ++i) {
      std::string infos;
      TextPool pool;
      for (const OpForm* f : shard(family, i, library.shards)) infos += info(*f, family, library, &pool);
      (*files)[absl::StrCat(family.name, "_registry_", i, ".cc")] =
          absl::StrCat(file_comment(family.path), "#include \"", library.package, "/", family.name,
                       "_ops.h\"\n#include \"tensor/dispatch/argument_names.h\"\n#include "
                       "\"tensor/dispatch/registry.h\"\n\nnamespace tessera::op_info {\nnamespace {\n",
                       pool.definition(), "}  // namespace\n\n", infos, "\n}  // namespace tessera::op_info\n");
    }
  }
  std::sort(all.begin(), all.end());
  std::string externs, list;
  for (const auto& [key, id] : all) {
    absl::StrAppend(&externs, "extern const OpInfo ", id, ";\n");
    absl::StrAppend(&list, "    &op_info::", id, ",\n");
  }
  (*files)[library.name + "_registry.h"] = absl::StrCat(
      "// Generated by opgen: every op of ", library.package,
      ".\n#pragma once\n\n#include \"tensor/dispatch/registry.h\"\n\nnamespace tessera {\nOpInfoList registry_",
      library.name, "();   // sorted by name\n}\n");
  (*files)[library.name + "_registry.cc"] = absl::StrCat(
      "// Generated by opgen. Do not edit.\n#include \"", library.package, "/", library.name,
      "_registry.h\"\n\nnamespace tessera {\nnamespace op_info {\n", externs,
      "}\nnamespace {\nconstinit const OpInfo* const kOps[] = {\n", list, "};\n}  // namespace\nOpInfoList registry_",
      library.name, "() { return kOps; }\n}  // namespace tessera\n");
}

std::string generate_operators(const std::vector<Family>& families, const std::vector<std::string>& names,
                               Diagnostics* diagnostics) {
  std::set<std::string> missing(names.begin(), names.end()), headers;
  std::string infos, list;
  TextPool pool;
  const size_t nothing = pool.offset("");
  size_t count = 0;
  for (const Family& family : families)
    for (const auto& e : family.entries)
      for (const OpForm& f : e->forms) {
        FunctionSchema s = f.schema;
        s.name = absl::StrCat(family.table.op_namespace(), "::", s.name);
        if (missing.erase(s.qualified_name()) == 0) continue;
        const std::string folder = family.path.substr(0, family.path.rfind('/'));
        headers.insert(
            absl::StrCat("#include \"", absl::StripSuffix(folder, "/tables"), "/", family.name, "_ops.h\"\n"));
        // The schema is what programs read; the other texts describe.
        std::vector<size_t> offsets(kNumOpTexts, nothing);
        offsets[0] = pool.offset(s.str());
        absl::StrAppend(&infos, "    {&op::", f.id, ", &kCompactAdapter<decltype(op::", f.id,
                        ")::Signature>, kTexts, 0, OpNumbers::kBoth, {", absl::StrJoin(offsets, ", "), "}},\n");
        absl::StrAppend(&list, "    &kInfos[", count++, "],\n");
      }
  for (const std::string& name : missing)
    diagnostics->error("--select", 1, absl::StrCat("no table has the operator '", name, "'"));
  if (count == 0) diagnostics->error("--select", 1, "no operator is named");
  return absl::StrCat("// Generated by opgen. Do not edit.\n#include \"export/program.h\"\n",
                      absl::StrJoin(headers, ""), "\nnamespace tessera::exported {\nnamespace {\n", pool.definition(),
                      "constinit const OpInfo kInfos[] = {\n", infos, "};\nconstinit const OpInfo* const kOps[] = {\n",
                      list, "};\n}  // namespace\nOpInfoList linked_operators() { return kOps; }\n",
                      "}  // namespace tessera::exported\n");
}

}  // namespace tessera::opgen
