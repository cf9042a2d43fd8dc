#include "tensor/dispatch/op.h"

#include <string>

#include "tensor/dispatch/runtime_state.h"

namespace tessera {
namespace {

[[noreturn]] void throw_no_kernel(const OpHeader& op, DispatchKey key) {
  std::string available;
  for (int k = 1; k < static_cast<int>(DispatchKey::kNumKeys); ++k) {
    const auto dk = static_cast<DispatchKey>(k);
    const uint8_t slot = kSlotOfKey[k];
    if ((slot != kNoSlot && op.slots()[slot]) || internal::extension_kernel(op, dk))
      available += std::string(available.empty() ? "" : ", ") + key_name(dk);
  }
  std::string name = op.name;
  if (op.overload[0]) name += std::string(".") + op.overload;
  throw NotImplementedError(
      str_cat("Could not run '", name, "' with arguments from the '", key_name(key), "' backend. '", name,
              "' is only available for these backends: [", available,
              "]. Move the tensors to one of them, or load the library that serves this backend."));
}

}  // namespace

AnyKernel resolve_kernel(const OpHeader& op, DispatchKeySet& keys) {
  const internal::Found found = internal::find_kernel(op, keys, [](DispatchKey) {});
  if (found.what == internal::kNoKernel) throw_no_kernel(op, keys.highest());
  return found.kernel;
}

}  // namespace tessera
