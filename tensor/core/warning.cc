#include "tensor/core/warning.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <unordered_set>

namespace tessera {
namespace {
std::atomic<bool> g_always{false};

bool is_new(const std::string& message) {
  static std::mutex mutex;
  static auto* seen = new std::unordered_set<std::string>;
  std::lock_guard lock(mutex);
  return seen->insert(message).second;
}
void print_once(const std::string& message, WarningKind) {
  if (g_always || is_new("printed: " + message)) std::fprintf(stderr, "tessera warning: %s\n", message.c_str());
}
std::atomic<WarningHandler> g_handler{&print_once};
}  // namespace

void warn(const std::string& message, WarningKind kind) { g_handler.load()(message, kind); }
void warn_once(const std::string& message, WarningKind kind) {
  if (g_always || is_new(message)) warn(message, kind);
}
void set_warn_always(bool always) { g_always = always; }
WarningHandler set_warning_handler(WarningHandler handler) {
  return g_handler.exchange(handler ? handler : &print_once);
}

}  // namespace tessera
