// What a name or an expression may mean while a program is compiled; only some of it is a value at run time.
#pragma once

#include <string>
#include <vector>

#include "jit/function.h"

namespace tessera::jit {

struct Sugar {
  enum Kind : uint8_t {
    kNothing,
    kValue,
    kConstant,   // constant, type: a value that is known, put into the graph where it is used
    kOp,         // text: "aten::add"
    kSpecial,    // text: "len", "annotate" ...
    kFunction,   // function
    kOverloads,  // functions
    kMethod,     // value, text: a method of a class, or an operator on the value
    kType,       // type: int, List[int], a class
    kHost,       // host
    kItems,      // items: a tuple of anything, unrolled by loops; names: keys
    kIterable,   // text: range, enumerate, zip; items
    kException,  // text: the class
    kNamespace,  // text: "aten", "__torch__.mod": of archives
    kError,      // text: what its use raises
  };
  Kind kind = kNothing;
  Val* value = nullptr;
  std::string text;
  Function* function = nullptr;
  std::vector<Function*> functions;
  TypePtr type = nullptr;
  Value constant;
  std::vector<Sugar> items;
  std::vector<std::string> names;
  IntrusivePtr<HostObject> host;
  const Ast* closure = nullptr;  // of kSpecial "$closure": what archives fork

  Sugar() = default;
  Sugar(Val* v) : kind(kValue), value(v) {}
  Sugar(Kind k, std::string t) : kind(k), text(std::move(t)) {}
  static Sugar of_type(TypePtr t) {
    Sugar s;
    s.kind = kType, s.type = t;
    return s;
  }
  static Sugar of_function(Function* f) {
    Sugar s;
    s.kind = kFunction, s.function = f;
    return s;
  }
  static Sugar of_constant(Value v, TypePtr t) {
    Sugar s;
    s.kind = kConstant, s.constant = std::move(v), s.type = t;
    return s;
  }
  static Sugar of_items(std::vector<Sugar> i) {
    Sugar s;
    s.kind = kItems, s.items = std::move(i);
    return s;
  }
};

// What Python's builtins, and names that archives use, are to the compiler; false: none of them.
bool builtin_name(const std::string& name, Sugar* out);
// The type that an annotation says.
TypePtr type_of_annotation(const Ast& a, Resolver* resolver, Unit& unit);

}  // namespace tessera::jit
