// Dispatch keys and sets of them. A tensor carries a set; a call goes to the highest key of (union of the tensors' sets
// | included by the thread) minus excluded by the thread.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace tessera {

// Lowest priority first. All documented keys; backends first, then functionality layers.
enum class DispatchKey : uint8_t {
  kUndefined = 0,
  // Backends (dense, then other layouts).
  kCPU,
  kCUDA,
  kMeta,
  kMPS,
  kXPU,
  kHPU,
  kMTIA,
  kXLA,
  kVulkan,
  kIPU,
  kLazy,
  kMkldnnCPU,
  kFPGA,
  kMAIA,
  kVE,
  kPrivateUse1,
  kQuantizedCPU,
  kQuantizedCUDA,
  kQuantizedMeta,
  kSparseCPU,
  kSparseCUDA,
  kSparseMeta,
  kSparseCsrCPU,
  kSparseCsrCUDA,
  kSparseCsrMeta,
  kNestedTensorCPU,
  kNestedTensorCUDA,
  kNestedTensorMeta,
  kBackendSelect,
  // Layers, in the order they are peeled off (from below).
  kPython,
  kFake,
  kFuncTorchDynamicLayerBackMode,
  kFunctionalize,
  kNamed,
  kConjugate,
  kNegative,
  kZeroTensor,
  kADInplaceOrView,
  kAutogradOther,
  kAutogradNestedTensor,
  kAutogradCPU,
  kAutogradCUDA,
  kAutogradMeta,
  kAutogradXLA,
  kAutogradMPS,
  kAutogradXPU,
  kAutogradPrivateUse1,
  kAutograd,
  kForward,  // a tensor with a tangent: forward-mode differentiation
  kTracer,
  kProfiler,
  kAutocastCPU,
  kAutocastCUDA,
  kAutocastXPU,
  kAutocastPrivateUse1,
  kBatched,
  kVmapMode,
  kFuncTorchGradWrapper,
  kFuncTorchBatched,
  kFuncTorchDynamicLayerFrontMode,
  kPreDispatch,
  kPythonTLSSnapshot,
  kPythonDispatcher,
  kNumKeys,
  // Aliases: registration targets, never in a set.
  kCompositeImplicitAutograd = 128,
  kCompositeExplicitAutograd,
  kCompositeExplicitAutogradNonFunctional,
  kCatchAll,
};
static_assert(static_cast<int>(DispatchKey::kNumKeys) <= 64);

const char* key_name(DispatchKey k);           // "CPU", "AutogradCPU"
DispatchKey parse_key(std::string_view name);  // Error with the known names

class DispatchKeySet {
 public:
  constexpr DispatchKeySet() = default;
  constexpr DispatchKeySet(DispatchKey k) : bits_(uint64_t{1} << static_cast<int>(k)) {}
  static constexpr DispatchKeySet from_bits(uint64_t b) {
    DispatchKeySet s;
    s.bits_ = b;
    return s;
  }
  static constexpr DispatchKeySet below(DispatchKey k) {
    return from_bits((uint64_t{1} << static_cast<int>(k)) - 1);
  }  // every key of lower priority
  constexpr uint64_t bits() const { return bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(DispatchKey k) const { return bits_ >> static_cast<int>(k) & 1; }
  constexpr bool has_any(DispatchKeySet s) const { return bits_ & s.bits_; }
  constexpr DispatchKey highest() const { return static_cast<DispatchKey>(bits_ ? 63 - std::countl_zero(bits_) : 0); }
  friend constexpr DispatchKeySet operator|(DispatchKeySet a, DispatchKeySet b) { return from_bits(a.bits_ | b.bits_); }
  friend constexpr DispatchKeySet operator&(DispatchKeySet a, DispatchKeySet b) { return from_bits(a.bits_ & b.bits_); }
  friend constexpr DispatchKeySet operator-(DispatchKeySet a, DispatchKeySet b) {
    return from_bits(a.bits_ & ~b.bits_);
  }
  DispatchKeySet& operator|=(DispatchKeySet s) {
    bits_ |= s.bits_;
    return *this;
  }
  friend constexpr bool operator==(DispatchKeySet, DispatchKeySet) = default;

 private:
  uint64_t bits_ = 0;
};

inline constexpr DispatchKeySet kAutogradKeys =
    DispatchKeySet::from_bits((uint64_t{1} << (static_cast<int>(DispatchKey::kAutograd) + 1)) -
                              (uint64_t{1} << static_cast<int>(DispatchKey::kAutogradOther)));
inline constexpr DispatchKeySet kBackendKeys =
    DispatchKeySet::below(DispatchKey::kBackendSelect) - DispatchKeySet(DispatchKey::kUndefined);

// Thread state that takes part in every dispatch, and the grad-mode switches beside it (one thread-local block, read
// once a call).
struct ThreadState {
  uint64_t included = 0;
  uint64_t excluded = 0;
  bool grad_enabled = true;
  bool inference_mode = false;
  bool view_tracking = true;  // false inside inference mode
  bool forward_grad_enabled = true;
};
// constinit and trivially destructible: no guard, no registration, one fs-relative load.
#define TESSERA_TLS [[gnu::tls_model("initial-exec")]]
extern thread_local constinit ThreadState thread_state TESSERA_TLS;

class ExcludeKeys {
 public:
  explicit ExcludeKeys(DispatchKeySet k) : saved_(thread_state.excluded) { thread_state.excluded |= k.bits(); }
  ~ExcludeKeys() { thread_state.excluded = saved_; }
  ExcludeKeys(const ExcludeKeys&) = delete;

 private:
  uint64_t saved_;
};
class IncludeKeys {
 public:
  explicit IncludeKeys(DispatchKeySet k) : saved_(thread_state.included) { thread_state.included |= k.bits(); }
  ~IncludeKeys() { thread_state.included = saved_; }
  IncludeKeys(const IncludeKeys&) = delete;

 private:
  uint64_t saved_;
};

// Grad mode (thread-local). In inference mode gradients are off whatever this says.
inline bool grad_mode_enabled() { return thread_state.grad_enabled; }
class NoGradGuard {
 public:
  explicit NoGradGuard(bool enabled = false) : saved_(thread_state.grad_enabled) {
    thread_state.grad_enabled = enabled;
  }
  ~NoGradGuard() { thread_state.grad_enabled = saved_; }
  NoGradGuard(const NoGradGuard&) = delete;

 private:
  bool saved_;
};
inline bool inference_mode_enabled() { return thread_state.inference_mode; }

}  // namespace tessera
