// The op-table compiler. Called by the Bazel macro op_library (tools/bazel/op_library.bzl):
//
//   opgen --library=NAME --package=PKG [--header=NAME.h] --shards=N --autograd_shards=N --out=DIR TABLE...
//                                                all C++ files of a library, and its stubs and reference page
//   opgen --methods=FILE TABLE...                the methods of class Tensor, from all tables
//   opgen --names=FILE --module=NAME TABLE...    linalg::solve for linalg_solve, of all tables' operators of a module
//   opgen --autocast=FILE TABLE...               what autocast does with the operators of all tables
//   opgen --frontend=STEM TABLE...               the documented C++ names: STEM_objects.h, STEM_methods.inc, STEM.h
//   opgen --operators=FILE --select=NAMES TABLE...  the registry of the operators that the file NAMES lists, one a line
//   opgen --stubs=FILE --reference=FILE TABLE... one stub file and one page for all tables
//   opgen --check TABLE...                       only checks
//
// --root=DIR is put before table paths for reading; messages and generated files name the path as given (with
// --strip=PREFIX removed).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tools/opgen/generate.h"

namespace tessera::opgen {
namespace {

struct Options {
  std::string library, package, header, out, methods, names, module, autocast, frontend, operators, select, stubs,
      reference, strip;
  int shards = 1, autograd_shards = 1;
  bool check = false;
  std::vector<std::string> tables;
};

[[noreturn]] void usage(const std::string& problem) {
  std::fprintf(stderr,
               "opgen: %s\nusage: opgen --library=NAME --package=PKG [--shards=N] [--autograd_shards=N] --out=DIR "
               "TABLE... | --methods=FILE TABLE... | --names=FILE --module=NAME TABLE... | --autocast=FILE TABLE... | "
               "--frontend=STEM TABLE... | --operators=FILE --select=NAMES TABLE... | "
               "--stubs=FILE --reference=FILE TABLE... | --check TABLE...\n",
               problem.c_str());
  std::exit(2);
}

Options parse_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    absl::string_view a = argv[i];
    if (!absl::StartsWith(a, "--")) {
      o.tables.emplace_back(a);
      continue;
    }
    auto text = [&](const char* flag, std::string* to) {
      absl::string_view rest = a;
      if (!absl::ConsumePrefix(&rest, absl::StrCat("--", flag, "="))) return false;
      *to = std::string(rest);
      return true;
    };
    std::string number;
    if (text("library", &o.library) || text("package", &o.package) || text("header", &o.header) ||
        text("out", &o.out) || text("methods", &o.methods) || text("names", &o.names) || text("module", &o.module) ||
        text("autocast", &o.autocast) || text("frontend", &o.frontend) || text("operators", &o.operators) ||
        text("select", &o.select) || text("stubs", &o.stubs) || text("reference", &o.reference) ||
        text("strip", &o.strip))
      continue;
    if (text("shards", &number)
            ? absl::SimpleAtoi(number, &o.shards) && o.shards > 0
            : text("autograd_shards", &number) && absl::SimpleAtoi(number, &o.autograd_shards) && o.autograd_shards > 0)
      continue;
    if (a == "--check") {
      o.check = true;
      continue;
    }
    usage(absl::StrCat("unknown option ", a));
  }
  if (o.tables.empty()) usage("no tables");
  if (!o.names.empty() && o.module.empty()) usage("--names needs --module");
  if (o.operators.empty() != o.select.empty()) usage("--operators and --select go together");
  return o;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream f(path, std::ios::binary);
  f << text;
  f.close();
  if (!f) {
    std::fprintf(stderr, "opgen: cannot write %s\n", path.c_str());
    std::exit(1);
  }
}

std::vector<Family> read_all(const Options& o, Diagnostics* diagnostics) {
  std::vector<Family> families;
  for (const std::string& table : o.tables) {
    std::ifstream f(table, std::ios::binary);
    std::stringstream text;
    text << f.rdbuf();
    absl::string_view shown = table;
    // Of another workspace's build: external/NAME/..., the path that includes do not have.
    if (absl::ConsumePrefix(&shown, "external/")) shown.remove_prefix(std::min(shown.size(), shown.find('/') + 1));
    absl::ConsumePrefix(&shown, o.strip);
    if (!f)
      diagnostics->error(std::string(shown), 1, "cannot read the table");
    else
      families.push_back(read_table(std::string(shown), text.str(), diagnostics));
  }
  if (diagnostics->ok()) check_families(&families, diagnostics);
  return families;
}

int show(const Diagnostics& diagnostics) {
  for (const std::string& m : diagnostics.messages()) std::fprintf(stderr, "%s\n", m.c_str());
  return diagnostics.ok() ? 0 : 1;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::vector<std::string> lines;
  for (std::string line; std::getline(f, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

int run(int argc, char** argv) {
  const Options o = parse_options(argc, argv);
  Diagnostics diagnostics;
  std::vector<Family> families = read_all(o, &diagnostics);
  if (o.check || !diagnostics.ok()) return show(diagnostics);
  if (!o.methods.empty()) write(o.methods, generate_methods(families));
  if (!o.names.empty()) write(o.names, generate_names(families, o.module));
  if (!o.autocast.empty()) write(o.autocast, generate_autocast(families));
  if (!o.frontend.empty()) {
    write(o.frontend + "_objects.h", generate_frontend_objects(families));
    write(o.frontend + "_methods.inc", generate_frontend_methods(families));
    write(o.frontend + ".h", generate_frontend_functions(families));
  }
  if (!o.operators.empty()) {
    const std::string text = generate_operators(families, lines_of(o.select), &diagnostics);
    if (!diagnostics.ok()) return show(diagnostics);
    write(o.operators, text);
  }
  if (!o.stubs.empty()) write(o.stubs, generate_stubs(families));
  if (!o.reference.empty()) write(o.reference, generate_reference(families));
  if (o.library.empty()) return 0;
  Library library{o.library, o.package,         o.header.empty() ? o.library + ".h" : o.header,
                  o.shards,  o.autograd_shards, std::move(families)};
  Files files;
  generate_ops(library, &files);
  generate_autograd(library, &files);
  generate_forward(library, &files);
  generate_registry(library, &files);
  files[library.name + ".pyi"] = generate_stubs(library.families);
  files[library.name + ".md"] = generate_reference(library.families);
  for (const auto& [name, text] : files) write(absl::StrCat(o.out, "/", name), text);
  return 0;
}

}  // namespace
}  // namespace tessera::opgen

int main(int argc, char** argv) {
  try {
    return tessera::opgen::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "opgen: %s\n", e.what());
    return 1;
  }
}
