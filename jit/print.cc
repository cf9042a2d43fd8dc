#include "jit/print.h"

#include <atomic>
#include <cstdio>

namespace tessera::jit {
namespace {
std::atomic<PrintHandler> g_print = nullptr;
std::atomic<TensorText> g_tensor = nullptr;
}  // namespace

void set_print_handler(PrintHandler handler) { g_print = handler; }
void set_tensor_text(TensorText f) { g_tensor = f; }
void print_line(const std::string& line) {
  if (PrintHandler h = g_print.load()) return h(line);
  std::fwrite(line.data(), 1, line.size(), stdout);
}
std::string print_text(const Value& v) {
  const TensorText f = g_tensor.load();
  if (f && v.is_tensor() && v.tensor().defined()) return f(v.tensor());
  return to_text(v);
}

}  // namespace tessera::jit
