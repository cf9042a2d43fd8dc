// Where print() of programs goes.
#pragma once

#include <string>

#include "jit/object.h"

namespace tessera::jit {

// stdout, unless a host takes it over.
using PrintHandler = void (*)(const std::string& line);
void set_print_handler(PrintHandler handler);
void print_line(const std::string& line);
// How print(), str() and formats show a value: floats with all digits, strings as they are, tensors whole.
std::string shown(const Value& v);

}  // namespace tessera::jit
