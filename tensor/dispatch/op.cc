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
  AnyKernel* slots = op.slots();
  for (;;) {
    const DispatchKey key = keys.highest();
    const bool backend = key <= DispatchKey::kBackendSelect;
    if (op.ext) {
      if (const RuntimeKernel* k = internal::extension_kernel(op, key)) {
        if (!k->fallthrough) return internal::kernel_function(op, *k);
        if (!backend) {
          keys = keys - DispatchKeySet(key);
          continue;
        }
      }
    }
    const uint8_t slot = kSlotOfKey[static_cast<int>(key)];
    if (slot != kNoSlot && slots[slot]) return slots[slot];
    if (!backend) {
      if (key == DispatchKey::kConjugate || key == DispatchKey::kNegative) {
        if (!(op.flags & kHandlesConj)) return nullptr;
      } else if (const RuntimeKernel* k = internal::fallback_kernel(key); k && !k->fallthrough) {
        if (AnyKernel f = internal::kernel_function(op, *k)) return f;
      }
      keys = keys - DispatchKeySet(key);
      continue;
    }
    if (op.ext) {
      for (DispatchKey alias : {DispatchKey::kCompositeExplicitAutograd, DispatchKey::kCompositeImplicitAutograd})
        if (const RuntimeKernel* k = internal::extension_kernel(op, alias)) return internal::kernel_function(op, *k);
    }
    for (Slot composite : {Slot::kCompositeExplicit, Slot::kCompositeImplicit})
      if (AnyKernel f = slots[static_cast<int>(composite)]) return f;
    // No tensor decided (a factory): the CPU kernel serves.
    if (key == DispatchKey::kUndefined || key == DispatchKey::kBackendSelect) {
      if (key == DispatchKey::kUndefined && slots[static_cast<int>(Slot::kCPU)])
        return slots[static_cast<int>(Slot::kCPU)];
      if (key == DispatchKey::kBackendSelect) {
        keys = keys - DispatchKeySet(key);
        continue;
      }
    }
    if (const RuntimeKernel* k = internal::fallback_kernel(key); k && !k->fallthrough) {
      if (AnyKernel f = internal::kernel_function(op, *k)) return f;
    }
    throw_no_kernel(op, key);
  }
}

}  // namespace tessera
