// Kernels added and removed while the program runs: torch.library, plug-in backends, dispatch modes.
#pragma once

#include <memory>

#include "tensor/dispatch/boxed.h"
#include "tensor/dispatch/op.h"

namespace tessera {

// A boxed kernel with what keeps it alive.
struct BoxedEntry : public RefCounted {
  BoxedKernel kernel = nullptr;
  void* context = nullptr;
  void (*destroy)(void* context) = nullptr;
  ~BoxedEntry() override {
    if (destroy) destroy(context);
  }
};

// What can stand at a key: nothing, a typed kernel, a boxed one, or "skip this layer".
struct RuntimeKernel {
  AnyKernel typed = nullptr;
  IntrusivePtr<BoxedEntry> boxed;
  bool fallthrough = false;
};

// Removes the registration when it dies (a Library object holds these).
class Registration {
 public:
  Registration() = default;
  Registration(Registration&& o) noexcept;
  Registration& operator=(Registration&& o) noexcept;
  ~Registration();
  void release();  // undo now
 private:
  friend Registration register_kernel(const OpHeader&, DispatchKey, RuntimeKernel, AnyKernel);
  friend Registration register_fallback(DispatchKey, RuntimeKernel);
  const OpHeader* op_ = nullptr;
  DispatchKey key_ = DispatchKey::kUndefined;
  uint64_t id_ = 0;
};

// Registers a kernel of `op` for a key: any backend or layer, or an alias (Autograd, CompositeImplicitAutograd,
// CompositeExplicitAutograd). The newest one wins; when it is removed, the one before it is back. A boxed kernel needs
// the op's trampoline (Adapter::trampoline).
Registration register_kernel(const OpHeader& op, DispatchKey key, RuntimeKernel kernel, AnyKernel trampoline);
// For every op that has nothing at `key`. Boxed, or a fallthrough.
Registration register_fallback(DispatchKey key, RuntimeKernel kernel);
// True if a kernel stands there, built in or added.
bool has_kernel(const OpHeader& op, DispatchKey key);
// The way a call with these keys takes: one entry per layer looked at, the last one is the kernel that runs. For
// tessera.explain.
struct Step {
  DispatchKey key;
  const char* what;
};  // "skipped", "bits materialised", "slot", "run-time kernel", "fallback", "CompositeExplicit" ...
std::vector<Step> explain_dispatch(const OpHeader& op, DispatchKeySet keys);

}  // namespace tessera
