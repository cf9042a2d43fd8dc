#include "tensor/core/warning.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <unordered_set>

namespace tessera {
namespace {
void print_once(const std::string& message, WarningKind) {
  static std::mutex mutex;
  static auto* seen = new std::unordered_set<std::string>;
  std::lock_guard lock(mutex);
  if (seen->insert(message).second) std::fprintf(stderr, "tessera warning: %s\n", message.c_str());
}
std::atomic<WarningHandler> g_handler{&print_once};
}  // namespace

void warn(const std::string& message, WarningKind kind) { g_handler.load()(message, kind); }
void set_warning_handler(WarningHandler handler) { g_handler = handler ? handler : &print_once; }

}  // namespace tessera
