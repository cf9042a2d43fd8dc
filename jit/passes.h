// Graphs made smaller.
#pragma once

#include "jit/ir.h"

namespace tessera::jit {

// What has no effect and no use goes.
void remove_dead_code(Graph& g);
// Calls of compiled functions and methods are replaced by what they do. `library`: those of this library's own
// functions (aten::lstm_cell ...), too, where these are a list of operators.
void inline_calls(Graph& g, bool library = false);
// Tuples that conditions give and lists that are made to be read are taken apart.
void lower_containers(Graph& g);
// What depends on constants alone is computed.
void fold_constants(Graph& g);
// What is computed twice is computed once.
void share_common(Graph& g);
// All of them, for running.
void optimize(Graph& g);
bool has_effect(const Node& n);

}  // namespace tessera::jit
