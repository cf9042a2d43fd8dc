#include "tensor/dispatch/op.h"

#include <algorithm>
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

namespace internal {

PlainArguments::PlainArguments(Arguments arguments, uint32_t mutable_args) {
  for (size_t i = 0; i < arguments.count; ++i) {
    const bool writes = mutable_args >> i & 1;
    const Tensor* single = arguments.get_if<Tensor>(i);
    if (single && writes) written_ = single;
    const TensorList tensors = arguments.tensors(i);
    const auto has_bits = [](const Tensor& t) { return t.defined() && (t.is_conj() || t.is_neg()); };
    if (std::none_of(tensors.begin(), tensors.end(), has_bits)) continue;
    Copies& c = copies_.emplace_back(Copies{tensors, {}, writes});
    for (const Tensor& t : tensors) c.plain.push_back(has_bits(t) ? materialize_bits(t) : t);
    c.list = c.plain;
    if (single)
      arguments.at[i] = c.plain.data();
    else if (arguments.get_if<TensorList>(i))
      arguments.at[i] = &c.list;
    else
      arguments.at[i] = &c.optional_list.emplace(c.list);
  }
}

void PlainArguments::finish() const {
  for (const Copies& c : copies_)
    for (size_t i = 0; c.is_written && i < c.plain.size(); ++i)
      if (!c.plain[i].is_same(c.originals[i])) write_back(c.originals[i], c.plain[i]);
}

}  // namespace internal

Resolved resolve_kernel(const OpHeader& op, DispatchKeySet keys, AnyKernel gather) {
  const internal::Found found = internal::find_kernel(op, keys, [](DispatchKey) {});
  if (found.what == internal::kNoKernel) throw_no_kernel(op, keys.highest());
  return {found.what == internal::kMaterialised ? gather : found.kernel, keys};
}

}  // namespace tessera
