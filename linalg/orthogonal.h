// What the operators of orthogonal factorizations share with their derivatives.
#pragma once

#include <optional>
#include <string_view>

#include "linalg/factor.h"
#include "tensor/core/tensor.h"

namespace tessera::linalg {

enum class QrMode : uint8_t { kReduced, kComplete, kR };
// Error for other words than those of linalg.qr.
QrMode qr_mode(std::string_view mode);

}  // namespace tessera::linalg
