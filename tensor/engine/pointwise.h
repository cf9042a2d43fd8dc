// Elementwise work, copies and fills: which functions serve a device.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/engine/engine.h"

#define TESSERA_POINTWISE_ENGINES(F) \
  F(run_pointwise)                   \
  F(copy_strided)                    \
  F(fill_strided)                    \
  F(check_integer_divisor)

namespace tessera {

// Rows of a matrix of bytes, made of the rows of the parts, one after the other.
struct JoinedPart {
  const void* from;
  int64_t bytes;  // of a row; rows lie one behind the other
};
using JoinRows = void(int64_t rows, std::span<const JoinedPart> parts, void* out);
// What a kernel asks of all elements: an error with this text is raised where the device is next waited for.
enum class ElementCheck : uint8_t { kProbabilities };
using CheckElements = void(DType dtype, int64_t n, const void* x, ElementCheck check);

struct PointwiseEngines : EngineTable<PointwiseEngines> {
  TESSERA_POINTWISE_ENGINES(TESSERA_ENGINE_MEMBER)
  // May be null: then parts are copied one by one, and elements looked at by the host.
  JoinRows* join_rows = nullptr;
  CheckElements* check_elements = nullptr;
};

}  // namespace tessera

namespace tessera::engine_entries {
#define TESSERA_ENTRY(name) inline constexpr auto name = &PointwiseEngines::name;
TESSERA_POINTWISE_ENGINES(TESSERA_ENTRY)
#undef TESSERA_ENTRY
}  // namespace tessera::engine_entries
