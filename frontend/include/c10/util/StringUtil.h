// c10::str: the parts of a message, one behind the other.
#pragma once

#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

namespace c10 {

template <class... Parts>
std::string str(const Parts&... parts) {
  if constexpr (sizeof...(Parts) == 0) {
    return {};
  } else {
    std::ostringstream s;
    (s << ... << parts);
    return s.str();
  }
}
template <class Container>
std::string Join(const std::string& between, const Container& items) {
  std::ostringstream s;
  bool first = true;
  for (const auto& item : items) {
    if (!first) s << between;
    s << item;
    first = false;
  }
  return s.str();
}

struct SourceLocation {
  const char* function = "";
  const char* file = "";
  uint32_t line = 0;
};
inline std::ostream& operator<<(std::ostream& out, const SourceLocation& at) {
  return out << at.function << " at " << at.file << ':' << at.line;
}

}  // namespace c10
