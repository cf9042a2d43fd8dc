#include "tensor/core/error.h"

#include <utility>

namespace tessera::internal {

void throw_error(std::string message) { throw Error(std::move(message)); }

}  // namespace tessera::internal
