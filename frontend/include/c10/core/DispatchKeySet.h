// Dispatch keys by their documented names, and sets of them.
#pragma once

#include <ostream>

#include "c10/util/Exception.h"
#include "tensor/core/dispatch_key.h"

namespace c10 {

enum class DispatchKey : uint16_t {
  Undefined = 0,
#define TESSERA_KEY(name) name = static_cast<uint16_t>(tessera::DispatchKey::k##name)
  TESSERA_KEY(CPU),
  TESSERA_KEY(CUDA),
  TESSERA_KEY(Meta),
  TESSERA_KEY(MPS),
  TESSERA_KEY(XPU),
  TESSERA_KEY(HPU),
  TESSERA_KEY(MTIA),
  TESSERA_KEY(XLA),
  TESSERA_KEY(Vulkan),
  TESSERA_KEY(IPU),
  TESSERA_KEY(Lazy),
  TESSERA_KEY(MkldnnCPU),
  TESSERA_KEY(PrivateUse1),
  TESSERA_KEY(QuantizedCPU),
  TESSERA_KEY(QuantizedCUDA),
  TESSERA_KEY(SparseCPU),
  TESSERA_KEY(SparseCUDA),
  TESSERA_KEY(SparseCsrCPU),
  TESSERA_KEY(SparseCsrCUDA),
  TESSERA_KEY(NestedTensorCPU),
  TESSERA_KEY(NestedTensorCUDA),
  TESSERA_KEY(BackendSelect),
  TESSERA_KEY(Python),
  TESSERA_KEY(Fake),
  TESSERA_KEY(FuncTorchDynamicLayerBackMode),
  TESSERA_KEY(Functionalize),
  TESSERA_KEY(Named),
  TESSERA_KEY(Conjugate),
  TESSERA_KEY(Negative),
  TESSERA_KEY(ZeroTensor),
  TESSERA_KEY(ADInplaceOrView),
  TESSERA_KEY(AutogradOther),
  TESSERA_KEY(AutogradNestedTensor),
  TESSERA_KEY(AutogradCPU),
  TESSERA_KEY(AutogradCUDA),
  TESSERA_KEY(AutogradMeta),
  TESSERA_KEY(AutogradXLA),
  TESSERA_KEY(AutogradMPS),
  TESSERA_KEY(AutogradXPU),
  TESSERA_KEY(AutogradPrivateUse1),
  TESSERA_KEY(Autograd),
  TESSERA_KEY(Tracer),
  TESSERA_KEY(Profiler),
  TESSERA_KEY(AutocastCPU),
  TESSERA_KEY(AutocastCUDA),
  TESSERA_KEY(AutocastXPU),
  TESSERA_KEY(AutocastPrivateUse1),
  TESSERA_KEY(Batched),
  TESSERA_KEY(VmapMode),
  TESSERA_KEY(FuncTorchGradWrapper),
  TESSERA_KEY(FuncTorchBatched),
  TESSERA_KEY(FuncTorchDynamicLayerFrontMode),
  TESSERA_KEY(PreDispatch),
  TESSERA_KEY(PythonTLSSnapshot),
  TESSERA_KEY(PythonDispatcher),
  TESSERA_KEY(CompositeImplicitAutograd),
  TESSERA_KEY(CompositeExplicitAutograd),
  TESSERA_KEY(CompositeExplicitAutogradNonFunctional),
  TESSERA_KEY(CatchAll),
#undef TESSERA_KEY
  Autocast = AutocastCUDA,
};
inline tessera::DispatchKey to_key(DispatchKey k) { return static_cast<tessera::DispatchKey>(k); }
inline const char* toString(DispatchKey k) { return tessera::key_name(to_key(k)); }
inline std::ostream& operator<<(std::ostream& out, DispatchKey k) { return out << toString(k); }

class DispatchKeySet {
 public:
  constexpr DispatchKeySet() = default;
  DispatchKeySet(DispatchKey k) : set_(k == DispatchKey::Undefined ? tessera::DispatchKeySet() : to_key(k)) {}
  DispatchKeySet(std::initializer_list<DispatchKey> keys) {
    for (DispatchKey k : keys) set_ |= DispatchKeySet(k).set_;
  }
  constexpr DispatchKeySet(tessera::DispatchKeySet s) : set_(s) {}
  constexpr operator tessera::DispatchKeySet() const { return set_; }
  bool has(DispatchKey k) const { return set_.has(to_key(k)); }
  bool has_any(DispatchKeySet s) const { return set_.has_any(s.set_); }
  bool has_all(DispatchKeySet s) const { return (set_ & s.set_) == s.set_; }
  bool empty() const { return set_.empty(); }
  uint64_t raw_repr() const { return set_.bits(); }
  DispatchKeySet add(DispatchKey k) const { return *this | DispatchKeySet(k); }
  DispatchKeySet remove(DispatchKey k) const { return *this - DispatchKeySet(k); }
  DispatchKey highestPriorityTypeId() const { return static_cast<DispatchKey>(set_.highest()); }
  friend DispatchKeySet operator|(DispatchKeySet a, DispatchKeySet b) { return a.set_ | b.set_; }
  friend DispatchKeySet operator&(DispatchKeySet a, DispatchKeySet b) { return a.set_ & b.set_; }
  friend DispatchKeySet operator-(DispatchKeySet a, DispatchKeySet b) { return a.set_ - b.set_; }
  friend bool operator==(DispatchKeySet a, DispatchKeySet b) { return a.set_ == b.set_; }

 private:
  tessera::DispatchKeySet set_;
};
inline DispatchKeySet after_autograd_keyset() {
  return tessera::DispatchKeySet::below(tessera::DispatchKey::kAutogradOther);
}
inline const DispatchKeySet autograd_dispatch_keyset = tessera::kAutogradKeys;

namespace impl {
// While they live, this thread's calls leave out, or have besides, some keys.
class ExcludeDispatchKeyGuard {
 public:
  explicit ExcludeDispatchKeyGuard(DispatchKeySet keys) : guard_(keys) {}
  explicit ExcludeDispatchKeyGuard(DispatchKey key) : guard_(DispatchKeySet(key)) {}

 private:
  tessera::ExcludeKeys guard_;
};
class IncludeDispatchKeyGuard {
 public:
  explicit IncludeDispatchKeyGuard(DispatchKeySet keys) : guard_(keys) {}
  explicit IncludeDispatchKeyGuard(DispatchKey key) : guard_(DispatchKeySet(key)) {}

 private:
  tessera::IncludeKeys guard_;
};
inline bool tls_is_dispatch_key_excluded(DispatchKey k) {
  return tessera::thread_state.excluded & DispatchKeySet(k).raw_repr();
}
inline bool tls_is_dispatch_key_included(DispatchKey k) {
  return tessera::thread_state.included & DispatchKeySet(k).raw_repr();
}
// All of some keys.
inline bool tls_is_dispatch_keyset_excluded(DispatchKeySet k) {
  return (tessera::thread_state.excluded & k.raw_repr()) == k.raw_repr();
}
inline bool tls_is_dispatch_keyset_included(DispatchKeySet k) {
  return (tessera::thread_state.included & k.raw_repr()) == k.raw_repr();
}
}  // namespace impl

// Whether operators record what they do, for this thread.
struct GradMode {
  static bool is_enabled() { return tessera::thread_state.grad_enabled && !tessera::thread_state.inference_mode; }
  static void set_enabled(bool on) { tessera::thread_state.grad_enabled = on; }
};
class AutoGradMode {
 public:
  explicit AutoGradMode(bool on) : guard_(on) {}

 private:
  tessera::NoGradGuard guard_;
};
struct NoGradGuard : AutoGradMode {
  NoGradGuard() : AutoGradMode(false) {}
};

}  // namespace c10

namespace at {

using c10::AutoGradMode;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::GradMode;
using c10::NoGradGuard;

// For kernels of autograd that call what lies below.
struct AutoDispatchBelowAutograd {
  tessera::ExcludeKeys guard{tessera::kAutogradKeys};
};
struct AutoDispatchBelowADInplaceOrView {
  tessera::ExcludeKeys guard{tessera::kAutogradKeys | tessera::DispatchKey::kADInplaceOrView};
};
using AutoNonVariableTypeMode = AutoDispatchBelowAutograd;

}  // namespace at
