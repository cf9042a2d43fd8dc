// A module for inference alone: its attributes become constants of its methods.
#pragma once

#include <string>
#include <vector>

#include "jit/function.h"

namespace tessera::jit {

// A new module with forward and `kept` (methods and attributes). Error if the module is in training mode.
Value freeze(const Value& module, const std::vector<std::string>& kept);
// Batch normalisation that follows a convolution or a linear layer goes into its weight; dropout that does nothing
// goes.
void fold_layers(Graph& g);

}  // namespace tessera::jit
