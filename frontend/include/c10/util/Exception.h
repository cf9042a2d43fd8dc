// Errors and checks. c10::Error is Tessera's own base of errors, so that what operators throw is one, too; in programs
// of this front end it has the documented accessors, which stand between it and std::runtime_error.
#pragma once

#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "c10/macros/Macros.h"
#include "c10/util/StringUtil.h"

namespace std {  // NOLINT: error.h names its base std::runtime_error
class tessera_documented_error : public runtime_error {
 public:
  using runtime_error::runtime_error;
  tessera_documented_error(const c10::SourceLocation&, const string& message) : runtime_error(message) {}
  tessera_documented_error(const string& message, const string&, const void* = nullptr) : runtime_error(message) {}
  string msg() const { return what(); }
  const char* what_without_backtrace() const noexcept { return what(); }
  string backtrace() const { return {}; }
  void add_context(const string& text) { runtime_error::operator=(runtime_error(what() + ("\n" + text))); }
};
}  // namespace std
#define runtime_error tessera_documented_error
#include "tensor/core/error.h"
#undef runtime_error
#include "tensor/core/warning.h"

namespace c10 {

using Error = tessera::Error;
using IndexError = tessera::IndexError;
using ValueError = tessera::ValueError;
using TypeError = tessera::TypeError;
using NotImplementedError = tessera::NotImplementedError;
using LinAlgError = tessera::LinAlgError;
using OutOfMemoryError = tessera::OutOfMemoryError;
#define TESSERA_MORE_ERRORS(Name) \
  class Name : public Error {     \
    using Error::Error;           \
  };
TESSERA_MORE_ERRORS(EnforceFiniteError)
TESSERA_MORE_ERRORS(DistError)
TESSERA_MORE_ERRORS(SyntaxError)
#undef TESSERA_MORE_ERRORS

namespace detail {
template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void raise(const std::string& message) {
  throw E(message);
}
inline std::string message_of(const char* condition) {
  return std::string("Expected ") + condition + " to be true, but got false.";
}
template <class... Parts>
std::string message_of(const char*, const Parts&... parts) {
  return str(parts...);
}
}  // namespace detail

// What TORCH_WARN says.
class Warning {
 public:
  struct UserWarning {};
  struct DeprecationWarning {};
  using warning_variant_t = std::variant<UserWarning, DeprecationWarning>;
  Warning(warning_variant_t type, const SourceLocation& where, std::string message, bool verbatim = false)
      : type_(type), where_(where), message_(std::move(message)), verbatim_(verbatim) {}
  warning_variant_t type() const { return type_; }
  const SourceLocation& source_location() const { return where_; }
  const std::string& msg() const { return message_; }
  bool verbatim() const { return verbatim_; }
  static void set_warnAlways(bool always) { tessera::set_warn_always(always); }

 private:
  warning_variant_t type_;
  SourceLocation where_;
  std::string message_;
  bool verbatim_;
};
class WarningHandler;
namespace detail {
inline WarningHandler*& warning_handler();
inline void warn_by_handler(const std::string& message, tessera::WarningKind kind);
// The library's own handler, in whose place that of threads is from the first call on.
inline tessera::WarningHandler library_handler() {
  static const tessera::WarningHandler before = tessera::set_warning_handler(&warn_by_handler);
  return before;
}
}  // namespace detail
// Where the warnings of a thread go, those of macros and of operators. The base gives them to Python's warnings module
// or, in a program without Python, to stderr.
class WarningHandler {
 public:
  virtual ~WarningHandler() = default;
  virtual void process(const Warning& w) {
    detail::library_handler()(w.msg(), std::holds_alternative<Warning::UserWarning>(w.type())
                                           ? tessera::WarningKind::kUser
                                           : tessera::WarningKind::kDeprecation);
  }
};
namespace detail {
inline WarningHandler* base_warning_handler() {
  static WarningHandler base;
  return &base;
}
inline WarningHandler*& warning_handler() {
  thread_local WarningHandler* current = base_warning_handler();
  return current;
}
inline void warn_by_handler(const std::string& message, tessera::WarningKind kind) {
  if (warning_handler() == base_warning_handler())
    library_handler()(message, kind);
  else if (kind == tessera::WarningKind::kUser)
    warning_handler()->process(Warning(Warning::UserWarning(), {}, message));
  else
    warning_handler()->process(Warning(Warning::DeprecationWarning(), {}, message));
}
}  // namespace detail
namespace WarningUtils {
inline WarningHandler* get_warning_handler() noexcept { return detail::warning_handler(); }
inline void set_warning_handler(WarningHandler* handler) noexcept {
  detail::library_handler();
  detail::warning_handler() = handler;
}
inline void set_warnAlways(bool always) { tessera::set_warn_always(always); }
class WarningHandlerGuard {
 public:
  explicit WarningHandlerGuard(WarningHandler* now) : before_(get_warning_handler()) { set_warning_handler(now); }
  ~WarningHandlerGuard() { set_warning_handler(before_); }
  WarningHandlerGuard(const WarningHandlerGuard&) = delete;
  WarningHandlerGuard& operator=(const WarningHandlerGuard&) = delete;

 private:
  WarningHandler* before_;
};
}  // namespace WarningUtils
inline void warn(const Warning& w) { WarningUtils::get_warning_handler()->process(w); }
inline void warn(const std::string& message) { warn(Warning(Warning::UserWarning(), {}, message)); }

}  // namespace c10

#define TORCH_CHECK_WITH(error, condition, ...)                                                             \
  do {                                                                                                      \
    if (C10_UNLIKELY(!(condition)))                                                                         \
      ::c10::detail::raise<::c10::error>(::c10::detail::message_of(#condition __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
#define TORCH_CHECK(condition, ...) TORCH_CHECK_WITH(Error, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_INDEX(condition, ...) TORCH_CHECK_WITH(IndexError, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_VALUE(condition, ...) TORCH_CHECK_WITH(ValueError, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_TYPE(condition, ...) TORCH_CHECK_WITH(TypeError, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_LINALG(condition, ...) TORCH_CHECK_WITH(LinAlgError, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_NOT_IMPLEMENTED(condition, ...) \
  TORCH_CHECK_WITH(NotImplementedError, condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_IF_NOT_ON_CUDA(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define TORCH_CHECK_MSG(condition, type, ...) ::c10::str(__VA_ARGS__)
#define TORCH_INTERNAL_ASSERT(condition, ...)                                                                         \
  do {                                                                                                                \
    if (C10_UNLIKELY(!(condition)))                                                                                   \
      ::c10::detail::raise<::c10::Error>(::c10::str(#condition " INTERNAL ASSERT FAILED at \"" __FILE__ "\":",        \
                                                    __LINE__, ", please report a bug. " __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
#ifdef NDEBUG
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) \
  while (false) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#else
#define TORCH_INTERNAL_ASSERT_DEBUG_ONLY(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#endif
#define AT_ASSERT(...) TORCH_INTERNAL_ASSERT(__VA_ARGS__)
#define AT_ERROR(...) ::c10::detail::raise<::c10::Error>(::c10::str(__VA_ARGS__))
#define AT_INDEX_ERROR(...) ::c10::detail::raise<::c10::IndexError>(::c10::str(__VA_ARGS__))
#define C10_THROW_ERROR(type, message) throw ::c10::type({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message)
#define TORCH_WARN_WITH(type, ...)                                                                          \
  ::c10::warn(::c10::Warning(::c10::Warning::type(), {__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, \
                             ::c10::str(__VA_ARGS__)))
#define TORCH_WARN(...) TORCH_WARN_WITH(UserWarning, __VA_ARGS__)
#define TORCH_WARN_DEPRECATION(...) TORCH_WARN_WITH(DeprecationWarning, __VA_ARGS__)
#define TORCH_WARN_ONCE(...)                                         \
  do {                                                               \
    static const bool warned_here = (TORCH_WARN(__VA_ARGS__), true); \
    (void)warned_here;                                               \
  } while (false)
#define AT_WARN TORCH_WARN
