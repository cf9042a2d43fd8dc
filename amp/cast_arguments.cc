// What the policies of autocast do with arguments, whatever the signature.
#include <algorithm>

#include "amp/cast_kernels.h"

namespace tessera::amp::internal {
namespace {

using tessera::internal::Arguments;

bool is_on(const Tensor& t, DeviceType device) { return t.defined() && t.device().type == device; }
// The tensors of a call, as policies look at them.
struct Seen {
  bool any = false;             // on the region's device
  bool first_castable = false;  // the first tensor
  std::optional<DType> widest;  // of the castable ones: their dtype, float32 where they differ
};
Seen look_at(Arguments arguments, DeviceType device) {
  Seen seen;
  bool first = true;
  for (size_t i = 0; i < arguments.count; ++i)
    for (const Tensor& t : arguments.tensors(i)) {
      const bool castable = is_castable(t, device);
      if (t.defined() && std::exchange(first, false)) seen.first_castable = castable;
      seen.any |= is_on(t, device);
      if (castable) seen.widest = !seen.widest || *seen.widest == t.dtype() ? t.dtype() : DType::kFloat32;
    }
  return seen;
}

[[noreturn]] void refuse(const char* name, DeviceType device) {
  throw Error(str_cat(name, ": not in a region of autocast for '", device_type_name(device),
                      "': its gradients do not fit into float16. Compute the logits, and the loss of them, such as "
                      "binary_cross_entropy_with_logits, or leave autocast for it: autocast(enabled=False) around the "
                      "call, with inputs in float32"));
}

// A cast tensor's keys may differ from those of its original: the copy of a weight has a history or has none.
DispatchKeySet keys_of_call(const OpHeader& op, Arguments arguments) {
  uint64_t bits = op.forced_keys | thread_state.included;
  for (size_t i = 0; i < arguments.count; ++i) bits |= tessera::internal::keys_of_arg(arguments.tensors(i)).bits();
  return DispatchKeySet::from_bits(bits & ~thread_state.excluded);
}

}  // namespace

bool is_castable(const Tensor& t, DeviceType device) {
  return is_on(t, device) && t.is_floating_point() && t.dtype() != DType::kFloat64;
}

void CastArguments::cast_list(Arguments arguments, size_t i, DeviceType device, DType dtype) {
  if (!lists_) lists_.emplace();
  List& copy = lists_->emplace_back();
  for (const Tensor& t : arguments.tensors(i)) copy.made.push_back(cast_for(t, device, dtype));
  copy.list = copy.made;
  if (arguments.get_if<Tensor>(i))
    arguments.at[i] = copy.made.data();
  else if (arguments.get_if<TensorList>(i))
    arguments.at[i] = &copy.list;
  else
    arguments.at[i] = &copy.optional_list.emplace(copy.list);
}

void CastArguments::cast(Arguments arguments, DeviceType device, DType dtype) {
  const auto differs = [&](const Tensor& t) { return is_castable(t, device) && t.dtype() != dtype; };
  for (size_t i = 0; i < arguments.count; ++i) {
    const TensorList given = arguments.tensors(i);
    if (std::none_of(given.begin(), given.end(), differs)) continue;
    if (num_singles_ == kSingles || !arguments.get_if<Tensor>(i)) {
      cast_list(arguments, i, device, dtype);
      continue;
    }
    Tensor& copy = singles_[num_singles_++];
    copy = cast_for(given[0], device, dtype);
    arguments.at[i] = &copy;
  }
}

CastArguments::CastArguments(CallContext ctx, Policy policy, Arguments arguments) {
  const DispatchKey key = ctx.keys.highest();
  const DispatchKeySet below = DispatchKeySet::below(key);
  const DeviceType device = key == DispatchKey::kAutocastCPU ? DeviceType::kCPU : DeviceType::kCUDA;
  keys_ = ctx.keys & below;
  if (policy == Policy::kNone) return;
  const Seen seen = look_at(arguments, device);
  if (!seen.any) return;
  if (policy == Policy::kBanned && seen.widest) refuse(ctx.op->name, device);
  off_.emplace(key);
  switch (policy) {
    case Policy::kLowerPrecisionFp:
      cast(arguments, device, autocast_dtype(device));
      break;
    case Policy::kFp32:
      cast(arguments, device, DType::kFloat32);
      break;
    case Policy::kPromote:
      cast(arguments, device, seen.widest.value_or(DType::kFloat32));
      break;
    case Policy::kFp32SetOptDtype:
      for (size_t i = 0; seen.first_castable && i < arguments.count; ++i)
        if (const auto* given = arguments.get_if<std::optional<DType>>(i); given && !*given)
          arguments.at[i] = &(dtype_given_ = DType::kFloat32);
      return;
    case Policy::kBanned:
    case Policy::kNone:
    case Policy::kAsIs:
      return;
  }
  keys_ = keys_of_call(*ctx.op, arguments) & below;
}

}  // namespace tessera::amp::internal
