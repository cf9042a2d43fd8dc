#include "tensor/dispatch/boxed.h"

namespace tessera::internal {
namespace {

template <class T>
Value lend_at(const void* argument) {
  return lend(*static_cast<const T*>(argument));
}
// How an argument of each type is lent, by its place in ArgumentTypes.
template <class... T>
constexpr std::array<Value (*)(const void*), sizeof...(T)> lenders(TypeList<T...>) {
  return {&lend_at<T>...};
}
constexpr auto kLenders = lenders(ArgumentTypes());

}  // namespace

LentArguments::LentArguments(Arguments arguments) {
  if (arguments.count > kFew) more_.resize(arguments.count);
  Value* out = more_.empty() ? few_ : more_.data();
  for (size_t i = 0; i < arguments.count; ++i) out[i] = kLenders[arguments.kinds[i]](arguments.at[i]);
}

const Tensor* written_argument(const OpHeader& op, Arguments arguments) {
  for (size_t i = arguments.count; i-- > 0;)
    if (op.mutable_args >> i & 1)
      if (const Tensor* t = arguments.get_if<Tensor>(i)) return t;
  return nullptr;
}

DispatchKeySet keys_of_call(const OpHeader& op, const Value* args, size_t num_args) {
  uint64_t bits = op.forced_keys | thread_state.included;
  for (size_t i = 0; i < num_args; ++i) {
    if (args[i].is_tensor())
      bits |= keys_of_arg(args[i].tensor()).bits();
    else if (args[i].is_tensor_list())
      bits |= keys_of_arg(args[i].tensor_list()).bits();
  }
  return DispatchKeySet::from_bits(bits & ~thread_state.excluded);
}

}  // namespace tessera::internal
