// Names that Python's documents give arguments where the schema has others (op tables: `documented`).
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "tensor/dispatch/registry.h"

namespace tessera {

// Beside OpVariant in OpInfo::variants: behind the end of the Python name is another text, "self=A .other=value":
// argument and name, of methods with a dot in front.
inline constexpr uint8_t kNamesArguments = 4;

// The documented name of an argument of the function or the method; empty: the schema's own.
inline std::string_view documented_name(const OpInfo& info, std::string_view argument, bool method) {
  if (!(info.variants & kNamesArguments)) return {};
  std::string_view rest = info.python_name() + std::strlen(info.python_name()) + 1;
  while (!rest.empty()) {
    std::string_view entry = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    if (entry.starts_with('.') != method) continue;
    entry.remove_prefix(method ? 1 : 0);
    const size_t end = entry.find('=');
    if (entry.substr(0, end) == argument) return entry.substr(end + 1);
  }
  return {};
}

}  // namespace tessera
