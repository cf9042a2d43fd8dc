// Op objects: constant-initialised tables of kernels, one slot for each dispatch key that matters at link time.
//
// Nothing registers itself. A generated file defines each op object with the addresses of its kernels; slots that an
// optional library fills (autograd, forward mode) name weak symbols, null unless that library is linked. At run time
// kernels can be added and removed for any key.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tensor/core/tensor.h"

namespace tessera {

struct OpHeader;
struct OpInfo;       // schema, documentation, Python names: tensor/dispatch/registry.h
struct OpExtension;  // kernels added at run time: tensor/dispatch/runtime.h

// What every kernel gets first: the op it was called through, and the keys that are left (the highest one is the
// kernel's own).
struct CallContext {
  const OpHeader* op;
  DispatchKeySet keys;
};

using AnyKernel = void (*)();

enum class Slot : uint8_t {
  kCPU = 0,
  kCUDA,
  kMeta,
  kAutograd,
  kForward,
  kAutocast,
  kCompositeExplicit,
  kCompositeImplicit,
  kNumSlots
};
inline constexpr int kNumSlots = static_cast<int>(Slot::kNumSlots);

enum OpFlags : uint16_t {
  kHandlesConj = 1,  // reads conj/neg bits itself (views, copies, conj): the fallback that materialises them is skipped
  kIsView = 2,
  kIsInplace = 4,
  kIsOut = 8,
  kIsFactory = 16,  // no tensor decides the device: modes and the default device do
};

struct OpHeader {
  const char* name;       // "aten::add"
  const char* overload;   // "Tensor", or ""
  const OpInfo* info;     // null unless the registry is linked (weak symbol)
  uint32_t mutable_args;  // bit k: argument k is written to
  uint16_t flags;         // OpFlags
  mutable OpExtension* ext = nullptr;
  mutable uint64_t forced_keys =
      0;  // keys added to every call: a layer that somebody registered for this op whatever the tensors are

  // The slots lie right behind the header, in Op<>.
  AnyKernel* slots() const { return reinterpret_cast<AnyKernel*>(const_cast<OpHeader*>(this) + 1); }
};

// The slot that serves a key, or kNumSlots: look in the extension.
inline constexpr uint8_t kNoSlot = kNumSlots;
inline constexpr std::array<uint8_t, 64> make_slot_table() {
  std::array<uint8_t, 64> t{};
  for (auto& s : t) s = kNoSlot;
  auto set = [&](DispatchKey k, Slot s) { t[static_cast<int>(k)] = static_cast<uint8_t>(s); };
  set(DispatchKey::kCPU, Slot::kCPU);
  set(DispatchKey::kCUDA, Slot::kCUDA);
  set(DispatchKey::kMeta, Slot::kMeta);
  for (int k = static_cast<int>(DispatchKey::kAutogradOther); k <= static_cast<int>(DispatchKey::kAutograd); ++k)
    t[k] = static_cast<uint8_t>(Slot::kAutograd);
  set(DispatchKey::kForward, Slot::kForward);
  set(DispatchKey::kAutocastCPU, Slot::kAutocast);
  set(DispatchKey::kAutocastCUDA, Slot::kAutocast);
  return t;
}
inline constexpr std::array<uint8_t, 64> kSlotOfKey = make_slot_table();

// The kernel for the highest key of `keys` that has one; keys above it are removed from `keys`. Order for a key:
// run-time kernel, slot, global fallback; a layer without any is skipped; a backend falls back to CompositeExplicit,
// then CompositeImplicit. Returns null when conjugate/negative bits must be materialised first. Throws
// NotImplementedError ("Could not run 'aten::foo' with arguments from the 'CUDA' backend ...").
AnyKernel resolve_kernel(const OpHeader& op, DispatchKeySet& keys);

namespace internal {

inline DispatchKeySet keys_of_arg(const Tensor& t) { return t.defined() ? t.keys() : DispatchKeySet(); }
inline DispatchKeySet keys_of_arg(TensorList l) {
  DispatchKeySet k;
  for (const Tensor& t : l) k |= keys_of_arg(t);
  return k;
}
inline DispatchKeySet keys_of_arg(const std::optional<TensorList>& l) { return l ? keys_of_arg(*l) : DispatchKeySet(); }
inline DispatchKeySet keys_of_arg(const Generator&) { return {}; }
template <class T>
inline DispatchKeySet keys_of_arg(const T&) {
  return {};
}

Tensor materialize_bits(const Tensor& t);  // resolve_conj + resolve_neg
void write_back(const Tensor& original, const Tensor& resolved);
// Holds arguments whose lazy bits were materialised for one call.
template <class T>
struct Materialized {
  const T& value;
  explicit Materialized(const T& v) : value(v) {}
  const T& get() const { return value; }
  void finish(bool) const {}
};
template <>
struct Materialized<Tensor> {
  const Tensor& original;
  Tensor resolved;
  explicit Materialized(const Tensor& t)
      : original(t), resolved(t.defined() && (t.is_conj() || t.is_neg()) ? materialize_bits(t) : t) {}
  const Tensor& get() const { return resolved; }
  void finish(bool written) const {
    if (written && !resolved.is_same(original)) write_back(original, resolved);
  }
};
template <>
struct Materialized<TensorList> {
  TensorList original;
  std::vector<Tensor> resolved;
  explicit Materialized(TensorList l) : original(l) {
    for (const Tensor& t : l) resolved.push_back(Materialized<Tensor>(t).resolved);
  }
  TensorList get() const { return resolved; }
  void finish(bool written) const {
    for (size_t i = 0; written && i < resolved.size(); ++i)
      if (!resolved[i].is_same(original[i])) write_back(original[i], resolved[i]);
  }
};

}  // namespace internal

template <class Sig>
struct Op;

template <class R, class... A>
struct Op<R(A...)> : OpHeader {
  using Signature = R(A...);
  using Kernel = R (*)(CallContext, A...);
  Kernel kernels[kNumSlots];

  R call(A... args) const {
    DispatchKeySet k = (... | internal::keys_of_arg(args));
    if constexpr (sizeof...(A) == 0) k = {};
    return dispatch(
        DispatchKeySet::from_bits((k.bits() | forced_keys | thread_state.included) & ~thread_state.excluded),
        static_cast<A>(args)...);
  }
  // Calls the kernel of the highest of `keys`, ignoring the thread's excluded set: what a layer calls for the layers
  // below it.
  R redispatch(DispatchKeySet keys, A... args) const { return dispatch(keys, static_cast<A>(args)...); }

 private:
  R dispatch(DispatchKeySet keys, A... args) const {
    const uint8_t slot = kSlotOfKey[static_cast<int>(keys.highest())];
    Kernel f = nullptr;
    if (slot != kNoSlot && !ext) [[likely]]
      f = kernels[slot];
    if (!f) [[unlikely]] {
      f = reinterpret_cast<Kernel>(resolve_kernel(*this, keys));
      if (!f) return with_materialized_bits(keys, args...);
    }
    return f(CallContext{this, keys}, static_cast<A>(args)...);
  }

  [[gnu::cold, gnu::noinline]] R with_materialized_bits(DispatchKeySet keys, A... args) const {
    constexpr DispatchKeySet bits = DispatchKeySet(DispatchKey::kConjugate) | DispatchKey::kNegative;
    return materialize_then(
        [&](auto&&... m) -> R {
          if constexpr (std::is_void_v<R>) {
            redispatch(keys - bits, m.get()...);
            finish_all(m...);
          } else {
            R r = redispatch(keys - bits, m.get()...);
            finish_all(m...);
            if constexpr (std::is_same_v<R, const Tensor&>)
              return returned(r, args...);
            else
              return r;
          }
        },
        internal::Materialized<std::remove_cvref_t<A>>(args)...);
  }
  template <class F, class... M>
  static R materialize_then(F f, M&&... m) {
    return f(m...);
  }
  template <class... M>
  void finish_all(const M&... m) const {
    int i = 0;
    (m.finish(mutable_args >> i++ & 1), ...);
  }
  // In-place and out forms return the argument that they wrote.
  const Tensor& returned(const Tensor& fallback, const A&... args) const {
    const Tensor* found = &fallback;
    int i = 0;
    (
        [&] {
          if constexpr (std::is_same_v<std::remove_cvref_t<A>, Tensor>) {
            if (mutable_args >> i & 1) found = &args;
          }
          ++i;
        }(),
        ...);
    return *found;
  }
};

}  // namespace tessera
