// Graphs made smaller.
#pragma once

#include "jit/ir.h"

namespace tessera::jit {

// What has no effect and no use goes.
void remove_dead_code(Graph& g);
// Calls of compiled functions and methods are replaced by what they do.
void inline_calls(Graph& g);
// What depends on constants alone is computed.
void fold_constants(Graph& g);
// What is computed twice is computed once.
void share_common(Graph& g);
// All of them, for running.
void optimize(Graph& g);
bool has_effect(const Node& n);

}  // namespace tessera::jit
