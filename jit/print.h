// Where print() of programs goes.
#pragma once

#include <string>

#include "jit/object.h"

namespace tessera::jit {

// stdout, unless a host takes it over.
using PrintHandler = void (*)(const std::string& line);
void set_print_handler(PrintHandler handler);
void print_line(const std::string& line);
// How print() shows a value; hosts know how tensors look.
using TensorText = std::string (*)(const Tensor& t);
void set_tensor_text(TensorText f);
std::string print_text(const Value& v);

}  // namespace tessera::jit
