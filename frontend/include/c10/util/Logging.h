// LOG, VLOG, CHECK ... : lines on stderr. What is fatal throws Error.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <sstream>
#include <utility>

#include "c10/util/Exception.h"

namespace c10 {

enum LogSeverity : int { GLOG_INFO = 0, GLOG_WARNING = 1, GLOG_ERROR = 2, GLOG_FATAL = 3 };
constexpr int INFO = GLOG_INFO, WARNING = GLOG_WARNING, ERROR = GLOG_ERROR, FATAL = GLOG_FATAL;

namespace detail {
// The least severity that is shown: warnings, or what TORCH_CPP_LOG_LEVEL says.
inline int& log_level() {
  static int level = [] {
    const char* given = std::getenv("TORCH_CPP_LOG_LEVEL");
    const std::string_view text = given ? given : "";
    for (const char* name : {"INFO", "WARNING", "ERROR", "FATAL"})
      for (int i = 0; i < 4 && !text.empty(); ++i)
        if (text == name || text == std::to_string(i))
          return text == name ? static_cast<int>(std::string_view("IWEF").find(name[0])) : i;
    return static_cast<int>(GLOG_WARNING);
  }();
  return level;
}
class LogLine {
 public:
  LogLine(const char* file, int line, int severity) : severity_(severity) {
    const std::string_view path = file;
    std::timespec now{};
    std::timespec_get(&now, TIME_UTC);
    char when[32];
    std::tm local{};
    std::strftime(when, sizeof when, "%m%d %H:%M:%S", localtime_r(&now.tv_sec, &local));
    char part[16];
    std::snprintf(part, sizeof part, ".%09ld", now.tv_nsec);
    text_ << '[' << (severity < 0 ? 'V' : "IWEF"[severity]) << when << part << ' '
          << path.substr(path.find_last_of('/') + 1) << ':' << line << "] ";
  }
  ~LogLine() noexcept(false) {
    if (severity_ >= log_level()) std::cerr << text_.str() << std::endl;
    if (severity_ == GLOG_FATAL) raise<Error>(text_.str());
  }
  std::ostream& stream() { return text_; }

 private:
  int severity_;
  std::ostringstream text_;
};
struct LogNothing {
  void operator&(std::ostream&) {}
};
template <class T>
T not_null(const char* file, int line, const char* what, T&& value) {
  if (value == nullptr) LogLine(file, line, GLOG_FATAL).stream() << "Check failed: '" << what << "' Must be non NULL. ";
  return std::forward<T>(value);
}
}  // namespace detail

inline void ShowLogInfoToStderr() { detail::log_level() = GLOG_INFO; }

}  // namespace c10

#define TESSERA_LOG_AT(severity) ::c10::detail::LogLine(__FILE__, __LINE__, severity).stream()
#define TESSERA_LOG_IF(severity, condition) \
  !(condition) ? (void)0 : ::c10::detail::LogNothing() & TESSERA_LOG_AT(severity)
#ifndef LOG
#define LOG(severity) TESSERA_LOG_AT(::c10::severity)
#define LOG_IF(severity, condition) TESSERA_LOG_IF(::c10::severity, condition)
#define VLOG_IS_ON(n) (-(n) >= ::c10::detail::log_level())
#define VLOG(n) TESSERA_LOG_IF(-(n), VLOG_IS_ON(n))
#define VLOG_IF(n, condition) TESSERA_LOG_IF(-(n), VLOG_IS_ON(n) && (condition))
#endif
#ifndef CHECK
#define CHECK(condition) TESSERA_LOG_IF(::c10::FATAL, !(condition)) << "Check failed: " #condition " "
#endif
#define TESSERA_CHECK_OP(a, b, op) \
  TESSERA_LOG_IF(::c10::FATAL, !((a)op(b))) << "Check failed: " #a " " #op " " #b " (" << (a) << " vs. " << (b) << "). "
#ifdef NDEBUG
#define TESSERA_DEBUG_ONLY while (false)
#else
#define TESSERA_DEBUG_ONLY
#endif
#ifndef DCHECK
#define DLOG(severity) TESSERA_DEBUG_ONLY LOG(severity)
#define DCHECK(condition) TESSERA_DEBUG_ONLY CHECK(condition)
#endif
#define TORCH_CHECK_EQ(a, b) TESSERA_CHECK_OP(a, b, ==)
#define TORCH_CHECK_NE(a, b) TESSERA_CHECK_OP(a, b, !=)
#define TORCH_CHECK_LE(a, b) TESSERA_CHECK_OP(a, b, <=)
#define TORCH_CHECK_LT(a, b) TESSERA_CHECK_OP(a, b, <)
#define TORCH_CHECK_GE(a, b) TESSERA_CHECK_OP(a, b, >=)
#define TORCH_CHECK_GT(a, b) TESSERA_CHECK_OP(a, b, >)
#define TORCH_DCHECK_EQ(a, b) TESSERA_DEBUG_ONLY TORCH_CHECK_EQ(a, b)
#define TORCH_DCHECK_NE(a, b) TESSERA_DEBUG_ONLY TORCH_CHECK_NE(a, b)
#define TORCH_DCHECK_LE(a, b) TESSERA_DEBUG_ONLY TORCH_CHECK_LE(a, b)
#define TORCH_DCHECK_LT(a, b) TESSERA_DEBUG_ONLY TORCH_CHECK_LT(a, b)
#define TORCH_DCHECK_GE(a, b) TESSERA_DEBUG_ONLY TORCH_CHECK_GE(a, b)
#define TORCH_DCHECK_GT(a, b) TESSERA_DEBUG_ONLY TORCH_CHECK_GT(a, b)
#define TORCH_CHECK_NOTNULL(value) ::c10::detail::not_null(__FILE__, __LINE__, #value, value)
#define TORCH_DCHECK_NOTNULL(value) TORCH_CHECK_NOTNULL(value)
// Their names until 2.9.
#ifndef CHECK_EQ
#define CHECK_EQ(a, b) TESSERA_CHECK_OP(a, b, ==)
#define CHECK_NE(a, b) TESSERA_CHECK_OP(a, b, !=)
#define CHECK_LE(a, b) TESSERA_CHECK_OP(a, b, <=)
#define CHECK_LT(a, b) TESSERA_CHECK_OP(a, b, <)
#define CHECK_GE(a, b) TESSERA_CHECK_OP(a, b, >=)
#define CHECK_GT(a, b) TESSERA_CHECK_OP(a, b, >)
#define DCHECK_EQ(a, b) TORCH_DCHECK_EQ(a, b)
#define DCHECK_NE(a, b) TORCH_DCHECK_NE(a, b)
#define DCHECK_LE(a, b) TORCH_DCHECK_LE(a, b)
#define DCHECK_LT(a, b) TORCH_DCHECK_LT(a, b)
#define DCHECK_GE(a, b) TORCH_DCHECK_GE(a, b)
#define DCHECK_GT(a, b) TORCH_DCHECK_GT(a, b)
#define CHECK_NOTNULL(value) TORCH_CHECK_NOTNULL(value)
#define DCHECK_NOTNULL(value) TORCH_CHECK_NOTNULL(value)
#endif
#define CAFFE_ENFORCE(condition, ...) TORCH_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#define CAFFE_THROW(...) AT_ERROR(__VA_ARGS__)
#define CAFFE_ENFORCE_EQ(a, b, ...) TORCH_CHECK((a) == (b)__VA_OPT__(, ) __VA_ARGS__)
#define CAFFE_ENFORCE_NE(a, b, ...) TORCH_CHECK((a) != (b)__VA_OPT__(, ) __VA_ARGS__)
#define CAFFE_ENFORCE_LE(a, b, ...) TORCH_CHECK((a) <= (b)__VA_OPT__(, ) __VA_ARGS__)
#define CAFFE_ENFORCE_LT(a, b, ...) TORCH_CHECK((a) < (b)__VA_OPT__(, ) __VA_ARGS__)
#define CAFFE_ENFORCE_GE(a, b, ...) TORCH_CHECK((a) >= (b)__VA_OPT__(, ) __VA_ARGS__)
#define CAFFE_ENFORCE_GT(a, b, ...) TORCH_CHECK((a) > (b)__VA_OPT__(, ) __VA_ARGS__)
