// Kernels of the Autocast slot: they bring an operator's arguments to the dtypes of its policy and call it below. The
// generated cast_table.cc fills the slots with them when a thread first enters a region.
#pragma once

#include <deque>
#include <optional>
#include <utility>
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

// Whether a policy may change t's dtype: float64 stays as it is.
bool is_castable(const Tensor& t, DeviceType device);

// One call under a policy: the region's key is off while it lives, and in place of arguments that are cast, `arguments`
// gets the addresses of the copies.
class CastArguments {
 public:
  CastArguments(CallContext ctx, Policy policy, tessera::internal::Arguments arguments);
  DispatchKeySet keys() const { return keys_; }  // what the operator is called with below

 private:
  struct List {
    std::vector<Tensor> made;
    TensorList list{};
    std::optional<TensorList> optional_list{};
  };
  void cast(tessera::internal::Arguments arguments, DeviceType device, DType dtype);
  void cast_list(tessera::internal::Arguments arguments, size_t i, DeviceType device, DType dtype);

  static constexpr size_t kSingles = 4;
  DispatchKeySet keys_;
  std::optional<ExcludeKeys> off_;  // what the operator calls gets what it asks for
  Tensor singles_[kSingles];        // copies of arguments that are a tensor; further ones are lists of one
  size_t num_singles_ = 0;
  std::optional<std::deque<List>> lists_;
  std::optional<DType> dtype_given_;
};

// The rest of such a kernel: one function for each type of result.
template <class R>
[[gnu::noinline]] R call_cast(CallContext ctx, Policy cpu, Policy cuda, tessera::internal::Arguments arguments,
                              tessera::internal::InvokeAt<R> invoke, AnyKernel gather) {
  const CastArguments cast(ctx, ctx.keys.highest() == DispatchKey::kAutocastCPU ? cpu : cuda, arguments);
  const Resolved below = tessera::internal::kernel_for(*ctx.op, cast.keys(), gather);
  return invoke(below.kernel, CallContext{ctx.op, below.keys}, arguments.at);
}

template <class Sig>
struct CastCall;
template <class R, class... A>
struct CastCall<R(A...)> {
  template <Policy kCPU, Policy kCUDA>
  static R kernel(CallContext ctx, A... args) {
    using Call = tessera::internal::ByAddress<R(A...)>;
    const void* at[] = {&args..., nullptr};
    return call_cast<R>(ctx, kCPU, kCUDA, {tessera::internal::kKindsOf<A...>, at, sizeof...(A)}, &Call::invoke,
                        Call::gatherer());
  }
};

}  // namespace internal

template <Policy kCPU, Policy kCUDA, class Sig>
void install(Op<Sig>* op) {
  if (op) op->kernels[static_cast<int>(Slot::kAutocast)] = &internal::CastCall<Sig>::template kernel<kCPU, kCUDA>;
}

}  // namespace tessera::amp
