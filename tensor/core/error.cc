#include "tensor/core/error.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

// What a program prints of an exception that nobody caught. The standard library's version brings its demangler into
// every static program, which is 50 kilobytes.
namespace __gnu_cxx {
void __verbose_terminate_handler() {
  static bool running = false;
  if (std::exchange(running, true)) std::abort();
  try {
    if (std::current_exception()) throw;
    std::fputs("terminate called without an active exception\n", stderr);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "terminate called after an exception was thrown: %s\n", e.what());
  } catch (...) { std::fputs("terminate called after something was thrown that is no std::exception\n", stderr); }
  std::abort();
}
}  // namespace __gnu_cxx

namespace tessera::internal {

void Piece::append_to(std::string* s) const {
  char number[32];
  switch (kind_) {
    case Kind::kText:
      s->append(text_);
      return;
    case Kind::kChar:
      s->push_back(static_cast<char>(int_));
      return;
    case Kind::kInt:
      std::snprintf(number, sizeof number, "%lld", static_cast<long long>(int_));
      break;
    case Kind::kUInt:
      std::snprintf(number, sizeof number, "%llu", static_cast<unsigned long long>(int_));
      break;
    case Kind::kDouble:
      std::snprintf(number, sizeof number, "%g", double_);
      break;
  }
  s->append(number);
}

std::string concatenate(std::initializer_list<Piece> pieces) {
  std::string s;
  for (const Piece& p : pieces) p.append_to(&s);
  return s;
}

void throw_error(std::string message) { throw Error(std::move(message)); }

}  // namespace tessera::internal
