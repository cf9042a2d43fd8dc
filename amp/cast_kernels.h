// Kernels of the Autocast slot: they bring an operator's arguments to the dtypes of its policy and call it below. The
// generated cast_table.cc fills the slots with them when a thread first enters a region.
#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "amp/autocast.h"
#include "tensor/dispatch/op.h"

namespace tessera::amp {

// What happens to floating arguments on the region's device (float64 stays as it is).
enum class Policy : uint8_t {
  kNone,              // nothing: the operator has a policy for other devices only
  kAsIs,              // nothing, and nothing within: in-place and out= forms
  kLowerPrecisionFp,  // the region's dtype
  kFp32,
  kPromote,          // the widest dtype among them
  kFp32SetOptDtype,  // as they are; dtype=float32 where the call names none
  kBanned,           // an Error
};

// Fills the slots of all operators that have a policy (generated).
void install_cast_kernels();

namespace internal {

inline bool is_on(const Tensor& t, DeviceType device) { return t.defined() && t.device().type == device; }
inline bool is_castable(const Tensor& t, DeviceType device) {
  return is_on(t, device) && t.is_floating_point() && t.dtype() != DType::kFloat64;
}

// The tensors among the arguments, one after the other.
template <class F>
void visit(F&& f, const Tensor& t) {
  f(t);
}
template <class F>
void visit(F&& f, TensorList list) {
  for (const Tensor& t : list) f(t);
}
template <class F>
void visit(F&& f, const std::optional<TensorList>& list) {
  if (list) visit(f, *list);
}
template <class F, class T>
void visit(F&&, const T&) {}

// How the arguments of one call are cast.
struct Casting {
  DeviceType device;
  bool casts = false;  // to `dtype`
  DType dtype = DType::kFloat32;
  bool sets_dtype = false;
};

// An argument as the operator below gets it; lives as long as the call.
template <class T>
struct Argument {
  const T& value;
  Argument(const T& v, const Casting&) : value(v) {}
  const T& get() const { return value; }
};
template <>
struct Argument<Tensor> {
  Tensor made;
  const Tensor& value;
  Argument(const Tensor& t, const Casting& c)
      : made(c.casts && is_castable(t, c.device) && t.dtype() != c.dtype ? cast_for(t, c.device, c.dtype) : Tensor()),
        value(made.defined() ? made : t) {}
  Argument(const Argument&) = delete;
  const Tensor& get() const { return value; }
};
template <>
struct Argument<TensorList> {
  std::vector<Tensor> made;
  TensorList value;
  Argument(TensorList list, const Casting& c) : value(list) {
    bool differs = false;
    for (const Tensor& t : list) differs |= c.casts && is_castable(t, c.device) && t.dtype() != c.dtype;
    if (!differs) return;
    made.reserve(list.size());
    for (const Tensor& t : list) made.push_back(cast_for(t, c.device, c.dtype));
    value = made;
  }
  Argument(const Argument&) = delete;
  TensorList get() const { return value; }
};
template <>
struct Argument<std::optional<TensorList>> {
  Argument<TensorList> list;
  bool given;
  Argument(const std::optional<TensorList>& l, const Casting& c) : list(l ? *l : TensorList(), c), given(l) {}
  std::optional<TensorList> get() const { return given ? std::optional<TensorList>(list.value) : std::nullopt; }
};
template <>
struct Argument<std::optional<DType>> {
  std::optional<DType> value;
  Argument(std::optional<DType> v, const Casting& c) : value(v) {
    if (c.sets_dtype && !value) value = DType::kFloat32;
  }
  std::optional<DType> get() const { return value; }
};

[[noreturn]] void refuse(const char* name, DeviceType device);

// The casting that a policy asks for, or nothing where no argument is on the device.
template <class... A>
std::optional<Casting> casting_of(const char* name, Policy policy, DeviceType device, const A&... args) {
  bool any = false, any_castable = false, first_castable = false, mixed = false, seen = false;
  DType widest = DType::kFloat32;
  (visit(
       [&](const Tensor& t) {
         const bool castable = is_castable(t, device);
         if (t.defined() && !seen) first_castable = castable, seen = true;
         any |= is_on(t, device);
         if (!castable) return;
         if (any_castable && t.dtype() != widest) mixed = true;
         if (!any_castable) widest = t.dtype();
         any_castable = true;
       },
       args),
   ...);
  if (!any) return {};
  Casting c{device};
  switch (policy) {
    case Policy::kLowerPrecisionFp:
      c.casts = true;
      c.dtype = autocast_dtype(device);
      break;
    case Policy::kFp32:
      c.casts = true;
      break;
    case Policy::kPromote:
      c.casts = true;
      c.dtype = mixed ? DType::kFloat32 : widest;
      break;
    case Policy::kFp32SetOptDtype:
      c.sets_dtype = first_castable;
      break;
    case Policy::kBanned:
      if (any_castable) refuse(name, device);
      break;
    case Policy::kNone:
    case Policy::kAsIs:
      break;
  }
  return c;
}

template <class Sig>
struct CastCall;
template <class R, class... A>
struct CastCall<R(A...)> {
  using Operator = Op<R(A...)>;

  template <Policy kCPU, Policy kCUDA>
  static R kernel(CallContext ctx, A... args) {
    return call(ctx, ctx.keys.highest() == DispatchKey::kAutocastCPU ? kCPU : kCUDA, static_cast<A>(args)...);
  }

 private:
  static R call(CallContext ctx, Policy policy, A... args) {
    const DispatchKey key = ctx.keys.highest();
    const DispatchKeySet below = DispatchKeySet::below(key);
    const Operator& op = static_cast<const Operator&>(*ctx.op);
    std::optional<Casting> casting;
    if (policy != Policy::kNone)
      casting = casting_of(ctx.op->name, policy,
                           key == DispatchKey::kAutocastCPU ? DeviceType::kCPU : DeviceType::kCUDA, args...);
    if (!casting) return op.redispatch(ctx.keys & below, static_cast<A>(args)...);
    const ExcludeKeys off(key);  // what the operator calls gets what it asks for
    if (!casting->casts && !casting->sets_dtype) return op.redispatch(ctx.keys & below, static_cast<A>(args)...);
    return with_arguments(op, below, Argument<std::remove_cvref_t<A>>(args, *casting)...);
  }
  template <class... M>
  static R with_arguments(const Operator& op, DispatchKeySet below, M&&... m) {
    // A cast tensor's keys may differ from those of its original: the copy of a weight has a history or has none.
    const DispatchKeySet keys = (... | tessera::internal::keys_of_arg(m.get()));
    const uint64_t bits = (keys.bits() | op.forced_keys | thread_state.included) & ~thread_state.excluded;
    return op.redispatch(DispatchKeySet::from_bits(bits) & below, m.get()...);
  }
};

}  // namespace internal

template <Policy kCPU, Policy kCUDA, class Sig>
void install(Op<Sig>* op) {
  if (op) op->kernels[static_cast<int>(Slot::kAutocast)] = &internal::CastCall<Sig>::template kernel<kCPU, kCUDA>;
}

}  // namespace tessera::amp
