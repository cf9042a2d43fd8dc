// What dispatch needs of the run-time registrations (runtime.cc), and the order in which kernels are looked for.
#pragma once

#include "tensor/dispatch/runtime.h"

namespace tessera::internal {

// The newest run-time kernel of op at key, or null.
const RuntimeKernel* extension_kernel(const OpHeader& op, DispatchKey key);
// The global fallback at key, or null.
const RuntimeKernel* fallback_kernel(DispatchKey key);
// A function with the op's kernel signature: the typed kernel, or the trampoline that boxes.
AnyKernel kernel_function(const OpHeader& op, const RuntimeKernel& k);
// Whether the fallback k can serve op: nothing tells how to box the arguments of an op without OpInfo.
bool serves(const RuntimeKernel* k, const OpHeader& op);

// Tensors that are not a window on a storage.
inline constexpr DispatchKeySet kLayoutKeys =
    DispatchKeySet::below(DispatchKey::kBackendSelect) - DispatchKeySet::below(DispatchKey::kSparseCPU);

// The end of a call's way. Without a kernel: one of kMaterialised, kNoKernel, or a boxed kernel of an op that has no
// typed calls (torch.library's).
struct Found {
  AnyKernel kernel;
  const char* what;
};
inline constexpr char kRuntimeKernel[] = "run-time kernel", kMaterialised[] = "bits materialised",
                      kNoKernel[] = "no kernel";

// The one definition of the order in which kernels are looked for: calls (resolve_kernel) and explanations
// (explain_dispatch) go by it. `keys` lose the layers that are skipped, each of which `skipped(key)` is told.
template <class Skipped>
Found find_kernel(const OpHeader& op, DispatchKeySet& keys, Skipped skipped) {
  AnyKernel* slots = op.slots();
  for (;;) {
    const DispatchKey key = keys.highest();
    const bool backend = key <= DispatchKey::kBackendSelect;
    const RuntimeKernel* own = op.ext ? extension_kernel(op, key) : nullptr;
    if (own && !own->fallthrough) return {kernel_function(op, *own), kRuntimeKernel};
    if (backend || !own) {  // a layer's fallthrough skips all of the layer
      const uint8_t slot = kSlotOfKey[static_cast<int>(key)];
      if (slot != kNoSlot && slots[slot]) return {slots[slot], "slot"};
    }
    if (!backend) {
      if (own) {
      } else if (key == DispatchKey::kConjugate || key == DispatchKey::kNegative) {
        if (!(op.flags & kHandlesConj)) return {nullptr, kMaterialised};
      } else if (const RuntimeKernel* k = fallback_kernel(key); serves(k, op)) {
        return {kernel_function(op, *k), "fallback"};
      }
      skipped(key);
      keys = keys - DispatchKeySet(key);
      continue;
    }
    // Composites and factories know strided tensors alone: a layout with members of its own says what they do to it.
    if (kLayoutKeys.has(key))
      if (const RuntimeKernel* k = fallback_kernel(key); serves(k, op)) return {kernel_function(op, *k), "fallback"};
    if (op.ext) {
      for (DispatchKey alias : {DispatchKey::kCompositeExplicitAutograd, DispatchKey::kCompositeImplicitAutograd})
        if (const RuntimeKernel* k = extension_kernel(op, alias); k && !k->fallthrough)
          return {kernel_function(op, *k), kRuntimeKernel};
    }
    if (AnyKernel f = slots[static_cast<int>(Slot::kCompositeExplicit)]) return {f, "CompositeExplicit"};
    if (AnyKernel f = slots[static_cast<int>(Slot::kCompositeImplicit)]) return {f, "CompositeImplicit"};
    if (key == DispatchKey::kBackendSelect) {
      skipped(key);
      keys = keys - DispatchKeySet(key);
      continue;
    }
    // No tensor decided (a factory): the CPU kernel serves.
    if (AnyKernel f = slots[static_cast<int>(Slot::kCPU)]; f && key == DispatchKey::kUndefined) return {f, "slot"};
    if (const RuntimeKernel* k = fallback_kernel(key); serves(k, op)) return {kernel_function(op, *k), "fallback"};
    return {nullptr, kNoKernel};
  }
}

}  // namespace tessera::internal
