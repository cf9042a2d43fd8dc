// Graphs as the text of programs.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "jit/function.h"

namespace tessera::jit {

// What a text mentions besides operators.
struct SourceUses {
  std::vector<TypePtr> types;
  std::vector<Function*> functions;
  std::vector<Value> constants;  // CONSTANTS.c0 ...
  bool readable = false;         // for people: calls of the host are shown
  void add(TypePtr t);
  void add(Function* f);
  size_t add_constant(const Value& v);
};
void print_source(Function& f, size_t indent, bool with_self_type, SourceUses& uses, std::string* out);
void print_class(TypePtr t, SourceUses& uses, std::string* out);

}  // namespace tessera::jit
