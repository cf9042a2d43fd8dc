// What is known about each op besides its kernels: for Python, torch.library, boxed calls and the documentation. A
// static program does not link it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dispatch/boxed.h"
#include "tensor/dispatch/op.h"

namespace tessera {

enum OpVariant : uint8_t { kFunction = 1, kMethod = 2 };

// The floating numbers that an op takes.
enum class OpNumbers : uint8_t { kBoth, kReal, kComplex };

// What is written about an op.
enum class OpText : uint8_t {
  kSchema,        // whole: "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
  kTags,          // space-separated
  kPythonName,    // "add", "add_"; the out= form belongs to "add"
  kPythonModule,  // "" (tessera.), "nn" (tessera._C._nn.), "linalg", "fft", "special" ...
  kDoc,           // first line of the documentation
  kRule,          // "POINTWISE add" and so on: what tessera.explain prints; of an expression, what it calls first
  kSource,        // the table: "tensor/ops/tables/arithmetic.textproto"
  kLine,          // in it: "12"; "": it is no table
  kGradients,     // "": not differentiable; "*": through the ops that it calls; "self other=0": of these arguments, the
                  // second one's always 0; "self!": not implemented, asking raises
  kConstants,     // "1 2": the results that have no derivative although they are floats
  kForward,       // where the rule of forward mode comes from: "derived", "written" or "fallback" (twice through the
                  // gradient); "": not differentiable, or through the ops that it calls
  kNumTexts
};
inline constexpr int kNumOpTexts = static_cast<int>(OpText::kNumTexts);

// Constant data, one for each op object (each overload, in-place and out= form has its own). Its texts lie one after
// the other in a pool that the ops of a table share, by offsets: a pointer to each would be a relocation to be stored
// in the file and done at every start, and thousands of ops have eleven texts. A pool is below 64 KiB: a table of more
// text is spread over more files (op_library's shards).
struct OpInfo {
  const OpHeader* op;
  const Adapter* adapter;
  const char* pool;
  uint8_t variants;  // OpVariant: as a function of python_module, as a Tensor method
  OpNumbers floats;
  uint16_t offsets[kNumOpTexts];

  const char* text(OpText which) const { return pool + offsets[static_cast<int>(which)]; }
  const char* schema() const { return text(OpText::kSchema); }
  const char* tags() const { return text(OpText::kTags); }
  const char* python_name() const { return text(OpText::kPythonName); }
  const char* python_module() const { return text(OpText::kPythonModule); }
  const char* doc() const { return text(OpText::kDoc); }
  const char* rule() const { return text(OpText::kRule); }
  const char* table() const { return text(OpText::kSource); }
  // "tensor/ops/tables/arithmetic.textproto:12"
  std::string source() const {
    const char* line = text(OpText::kLine);
    return *line ? std::string(table()) + ":" + line : table();
  }
  const char* gradients() const { return text(OpText::kGradients); }
  const char* constants() const { return text(OpText::kConstants); }
  const char* forward() const { return text(OpText::kForward); }
  const char* numbers() const {
    return floats == OpNumbers::kReal ? "real" : floats == OpNumbers::kComplex ? "complex" : "both";
  }
};

// The ops of one library, sorted by name; each library's registry target defines one (registry_core(),
// registry_linalg() ...).
using OpInfoList = std::span<const OpInfo* const>;

}  // namespace tessera
