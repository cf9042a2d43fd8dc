// Variables of the environment.
#pragma once

#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

namespace c10::utils {

inline std::optional<std::string> get_env(const char* name) {
  const char* value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}
inline bool has_env(const char* name) { return std::getenv(name) != nullptr; }
// A switch: "1" is on, "0" off; nothing for anything else.
inline std::optional<bool> check_env(const char* name) {
  const auto value = get_env(name);
  return value == "1" ? std::optional(true) : value == "0" ? std::optional(false) : std::nullopt;
}

}  // namespace c10::utils
