// Runs of elementwise operators that are one block program (compile/block_program.h).
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "compile/block_program.h"
#include "jit/ir.h"
#include "jit/object.h"

namespace tessera {
struct OpHeader;
}

namespace tessera::jit {

// Neighbouring nodes of a block, nodes[first, last), of which some are a program.
struct BlockRun {
  size_t first, last;
  std::vector<Val*> inputs, outputs;  // tensors from outside; what others use
  std::vector<const OpHeader*> ops;
  compile::BlockProgram program;
  std::vector<bool> member;  // whether nodes[first + k] belongs to the program; others do not depend on it
  // Whether the operators are as they were when the program was made: nobody added kernels to them.
  bool is_current() const;
};
// Those of two calls or more. count_uses() was called.
std::vector<std::unique_ptr<BlockRun>> find_runs(const Block& b);

}  // namespace tessera::jit
