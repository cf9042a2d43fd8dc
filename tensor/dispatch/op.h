// Op objects: constant-initialised tables of kernels, one slot for each dispatch key that matters at link time.
//
// Nothing registers itself. A generated file defines each op object with the addresses of its kernels; slots that an
// optional library fills (autograd, forward mode) name weak symbols, null unless that library is linked. At run time
// kernels can be added and removed for any key.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/core/tensor.h"
#include "tensor/dispatch/arguments.h"

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

// A kernel, and the keys that its context gets.
struct Resolved {
  AnyKernel kernel;
  DispatchKeySet keys;
};

// The kernel for the highest key of `keys` that has one; keys above it are removed. Order for a key: run-time kernel,
// slot, global fallback; a layer without any is skipped; a backend falls back to CompositeExplicit, then
// CompositeImplicit. `gather` (internal::ByAddress) is the kernel where conjugate or negative bits must be materialised
// first. Throws NotImplementedError ("Could not run 'aten::foo' with arguments from the 'CUDA' backend ...").
Resolved resolve_kernel(const OpHeader& op, DispatchKeySet keys, AnyKernel gather);

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

inline Resolved kernel_for(const OpHeader& op, DispatchKeySet keys, AnyKernel gather) {
  const uint8_t slot = kSlotOfKey[static_cast<int>(keys.highest())];
  if (slot != kNoSlot && !op.ext) [[likely]]
    if (AnyKernel f = op.slots()[slot]) [[likely]]
      return {f, keys};
  return resolve_kernel(op, keys, gather);
}

Tensor materialize_bits(const Tensor& t);  // resolve_conj + resolve_neg
void write_back(const Tensor& original, const Tensor& resolved);
// Arguments whose lazy bits are materialised for one call: in place of tensors that have some, `arguments` gets the
// addresses of plain copies.
class PlainArguments {
 public:
  PlainArguments(Arguments arguments, uint32_t mutable_args);
  void finish() const;  // after the call: what was written goes back into the originals
  // What an in-place or out= form returns, the last argument that it writes; `none` where it writes none.
  const Tensor& written(const Tensor& none) const { return written_ ? *written_ : none; }

 private:
  struct Copies {
    TensorList originals;
    std::vector<Tensor> plain;
    bool is_written;
    TensorList list{};  // of plain: the argument in their place
    std::optional<TensorList> optional_list{};
  };
  std::deque<Copies> copies_;
  const Tensor* written_ = nullptr;
};

// Calls `kernel` with arguments given by their addresses.
template <class R>
using InvokeAt = R (*)(AnyKernel kernel, CallContext ctx, const void* const* at);
// What a call does with its arguments where no typed kernel takes them: the boxed kernel that ctx stands for gets them
// as values, or the op plain copies of those with lazy bits. One function for each type of result, all in boxed.cc.
template <class R>
struct Gathered {
  static R call(CallContext ctx, Arguments arguments, InvokeAt<R> invoke);
};

// The two functions that a signature costs for all layers that do not know it: from addresses to a typed call, and the
// typed kernel that takes addresses.
template <class Sig>
struct ByAddress;
template <class R, class... A>
struct ByAddress<R(A...)> {
  [[gnu::cold]] static R invoke(AnyKernel kernel, CallContext ctx, const void* const* at) {
    return invoke_at(kernel, ctx, at, std::index_sequence_for<A...>());
  }
  [[gnu::cold]] static R gather(CallContext ctx, A... a) {
    const void* at[] = {&a..., nullptr};
    return Gathered<R>::call(ctx, {kKindsOf<A...>, at, sizeof...(A)}, &invoke);
  }
  static AnyKernel gatherer() { return reinterpret_cast<AnyKernel>(&gather); }

 private:
  template <size_t... I>
  static R invoke_at(AnyKernel kernel, CallContext ctx, const void* const* at, std::index_sequence<I...>) {
    return reinterpret_cast<R (*)(CallContext, A...)>(kernel)(ctx, argument_at<A>(at[I])...);
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
    const DispatchKeySet k = (DispatchKeySet() | ... | internal::keys_of_arg(args));
    return dispatch(
        DispatchKeySet::from_bits((k.bits() | forced_keys | thread_state.included) & ~thread_state.excluded),
        static_cast<A>(args)...);
  }
  // Calls the kernel of the highest of `keys`, ignoring the thread's excluded set: what a layer calls for the layers
  // below it.
  R redispatch(DispatchKeySet keys, A... args) const { return dispatch(keys, static_cast<A>(args)...); }

 private:
  R dispatch(DispatchKeySet keys, A... args) const {
    const Resolved r = internal::kernel_for(*this, keys, internal::ByAddress<Signature>::gatherer());
    return reinterpret_cast<Kernel>(r.kernel)(CallContext{this, r.keys}, static_cast<A>(args)...);
  }
};

}  // namespace tessera
