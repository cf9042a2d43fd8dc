// What each operator does to names.
#pragma once

#include <cstdint>

#include "tensor/dispatch/op.h"

namespace tessera::named {

enum class Rule : uint8_t {
  kKeep,       // results have the names of the first tensor
  kUnify,      // of all tensors, matched from the right
  kUnifyDrop,  // tensors are matched, results have none
  kDrop,       // results have none
  kReduce,     // less the dimensions `dim` (all without it), unless keepdim
  kRemove,     // less the dimension `dim`
  kSqueeze,    // less dimensions of size 1
  kUnsqueeze,  // None at `dim`
  kTranspose,  // dim0 and dim1 exchanged; of a matrix's two where there are no such arguments
  kPermute,    // in the order `dims`
  kExpand,     // None in front for new dimensions
  kDiagonal,   // less dim1 and dim2, None at the end
  kMatrix,     // (self[-2], other[-1]), batch dimensions in front matched
  kVector,     // self[:-1]
  kMatmul,     // one of the two above, or of the vectors' products
  kDistances,  // (self[-2], other[-2]), batch dimensions in front matched
  kFusedMatrix,
  kFusedVector,  // the same of the second and third tensor, matched with the first
  kConcat,       // matched place by place
  kSameShape,    // may not change sizes
  kEqual,        // false where names differ
  kPass,         // no tensor results
  kDecompose,    // made of other operators, which have rules
  kRefuse,
};

Rule rule_of(const OpHeader& op);

}  // namespace tessera::named
