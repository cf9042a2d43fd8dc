// The operators of all libraries that the extension links.
#include "tensor/dispatch/registry.h"
#include "tensor/ops/ops_registry.h"

namespace tessera {

OpInfoList all_registered_ops() { return registry_ops(); }

}  // namespace tessera
