// Tensor.to and its relatives.
#pragma once

#include <optional>
#include <vector>

#include "python/bindings/calls.h"

namespace tessera::python {

// The arguments of to(), in any of its documented forms.
struct ToArgs {
  std::optional<Device> device;
  std::optional<DType> dtype;
  bool non_blocking = false;
  bool copy = false;
  std::optional<MemoryFormat> memory_format;
};
ToArgs parse_to(CallArgs call);

std::vector<PyMethodDef> conversion_methods();
// _C._nn._parse_to
std::vector<PyMethodDef> conversion_functions();

}  // namespace tessera::python
