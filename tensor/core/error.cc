#include "tensor/core/error.h"

#include <cstdio>
#include <utility>

namespace tessera::internal {

void Piece::append_to(std::string* s) const {
  char number[32];
  switch (kind_) {
    case Kind::kText: s->append(text_); return;
    case Kind::kChar: s->push_back(static_cast<char>(int_)); return;
    case Kind::kInt: std::snprintf(number, sizeof number, "%lld", static_cast<long long>(int_)); break;
    case Kind::kUInt: std::snprintf(number, sizeof number, "%llu", static_cast<unsigned long long>(int_)); break;
    case Kind::kDouble: std::snprintf(number, sizeof number, "%g", double_); break;
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
