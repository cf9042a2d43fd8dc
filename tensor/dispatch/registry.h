// What is known about each op besides its kernels: for Python, torch.library, boxed calls and the documentation. A
// static program does not link it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/dispatch/boxed.h"
#include "tensor/dispatch/op.h"

namespace tessera {

enum OpVariant : uint8_t { kFunction = 1, kMethod = 2 };

// Constant data, one for each op object (each overload, in-place and out= form has its own).
struct OpInfo {
  const OpHeader* op;
  const char* schema;  // whole: "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
  const Adapter* adapter;
  const char* tags;           // space-separated
  const char* python_name;    // "add", "add_"; the out= form belongs to "add"
  const char* python_module;  // "" (tessera.), "nn" (tessera._C._nn.), "linalg", "fft", "special" ...
  uint8_t variants;           // OpVariant: as a function of python_module, as a Tensor method
  const char* doc;            // first line of the documentation
  const char* rule;           // "POINTWISE add" and so on: what tessera.explain prints
  const char* source;         // "tensor/ops/tables/arithmetic.textproto:12"
  const char* gradients;      // "": not differentiable; "*": through the ops that it calls; "self other=0": of these
                              // arguments, the second one's always 0; "self!": not implemented, asking raises
  const char* constants;      // "1 2": the results that have no derivative although they are floats
  const char* forward;  // where the rule of forward mode comes from: "derived", "written" or "fallback" (twice through
                        // the gradient); "": not differentiable, or through the ops that it calls
  const char* numbers;  // the floating numbers that it takes: "both", "real" or "complex"
};

// The ops of one library, sorted by name; each library's registry target defines one (registry_core(),
// registry_linalg() ...).
using OpInfoList = std::span<const OpInfo* const>;

}  // namespace tessera
