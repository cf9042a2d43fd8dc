// Warnings: to Python's warnings module where the binding is loaded, else to stderr once per text.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

enum class WarningKind : uint8_t { kUser, kDeprecation, kFuture };
// May throw (Python can turn warnings into exceptions): call before anything is changed.
void warn(const std::string& message, WarningKind kind = WarningKind::kUser);
// Once per process and text, unless set_warn_always(true) was called.
void warn_once(const std::string& message, WarningKind kind = WarningKind::kUser);
void set_warn_always(bool always);
using WarningHandler = void (*)(const std::string& message, WarningKind kind);
WarningHandler set_warning_handler(WarningHandler handler);  // returns the one before

}  // namespace tessera
