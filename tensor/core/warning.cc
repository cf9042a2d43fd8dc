#include "tensor/core/warning.h"

#include <atomic>
#include <cstdio>
#include <mutex>

namespace tessera {
namespace {
std::atomic<bool> g_always{false};

// The texts are few, and small programs are spared the code of a table.
struct Seen {
  std::string text;
  const Seen* before;
};

bool is_new(const std::string& message) {
  static std::mutex mutex;
  static const Seen* last = nullptr;
  std::lock_guard lock(mutex);
  for (const Seen* s = last; s; s = s->before)
    if (s->text == message) return false;
  last = new Seen{message, last};
  return true;
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
