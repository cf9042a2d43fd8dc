// Names with a namespace: Symbol::fromQualString("aten::add").
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "c10/util/Exception.h"

namespace c10 {

class Symbol {
 public:
  Symbol() = default;
  static Symbol fromQualString(const std::string& s) {
    TORCH_CHECK(s.find("::") != std::string::npos && s.find("::") > 0, "a symbol is 'namespace::name', got '", s, "'");
    return Symbol(s);
  }
#define TESSERA_SYMBOLS(space)                                                        \
  static Symbol space(const std::string& name) { return Symbol(#space "::" + name); } \
  bool is_##space() const { return text_.starts_with(#space "::"); }
  TESSERA_SYMBOLS(attr)
  TESSERA_SYMBOLS(aten)
  TESSERA_SYMBOLS(cuda)
  TESSERA_SYMBOLS(onnx)
  TESSERA_SYMBOLS(prim)
  TESSERA_SYMBOLS(user)
  TESSERA_SYMBOLS(scope)
  TESSERA_SYMBOLS(dimname)
#undef TESSERA_SYMBOLS
  const char* toQualString() const { return text_.c_str(); }
  const char* toUnqualString() const { return text_.c_str() + (text_.empty() ? 0 : text_.find("::") + 2); }
  const char* toDisplayString() const { return is_attr() || is_dimname() ? toUnqualString() : toQualString(); }
  Symbol ns() const { return Symbol("namespaces::" + text_.substr(0, text_.find("::"))); }
  friend bool operator==(const Symbol&, const Symbol&) = default;
  friend bool operator<(const Symbol& a, const Symbol& b) { return a.text_ < b.text_; }
  friend std::ostream& operator<<(std::ostream& out, const Symbol& s) { return out << s.toDisplayString(); }

 private:
  explicit Symbol(std::string s) : text_(std::move(s)) {}
  std::string text_;
};

}  // namespace c10

template <>
struct std::hash<c10::Symbol> {
  size_t operator()(const c10::Symbol& s) const { return std::hash<std::string>()(s.toQualString()); }
};
