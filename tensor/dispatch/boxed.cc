#include "tensor/dispatch/boxed.h"

#include <new>

#include "tensor/dispatch/runtime_state.h"

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

// Makes of a value the argument of type T in a place of 40 bytes, if it is not in the value already; its address.
template <class T>
const void* unbox_at(const Value& value, void* room) {
  if constexpr (is_owner_v<T>) {
    return nullptr;
  } else if constexpr (std::is_reference_v<decltype(Unbox<T>::get(value))>) {
    return &Unbox<T>::get(value);
  } else {
    static_assert(std::is_trivially_destructible_v<T> && sizeof(T) <= 40 && alignof(T) <= 8);
    return new (room) T(Unbox<T>::get(value));
  }
}
template <class... T>
constexpr std::array<const void* (*)(const Value&, void*), sizeof...(T)> unboxers(TypeList<T...>) {
  return {&unbox_at<T>...};
}
constexpr auto kUnboxers = unboxers(ArgumentTypes());

// The last argument that op writes, as in-place and out= forms return it.
const Tensor* written_argument(const OpHeader& op, Arguments arguments) {
  for (size_t i = arguments.count; i-- > 0;)
    if (op.mutable_args >> i & 1)
      if (const Tensor* t = arguments.get_if<Tensor>(i)) return t;
  return nullptr;
}

// Whether a call that no typed kernel took is one for plain copies of tensors with lazy bits: find_kernel's order.
bool materialises(CallContext ctx) {
  const DispatchKey key = ctx.keys.highest();
  if (key != DispatchKey::kConjugate && key != DispatchKey::kNegative) return false;
  const RuntimeKernel* own = extension_kernel(*ctx.op, key);
  return !own || own->fallthrough;
}
Resolved below_bits(CallContext ctx) {
  constexpr DispatchKeySet bits = DispatchKeySet(DispatchKey::kConjugate) | DispatchKey::kNegative;
  return resolve_kernel(*ctx.op, ctx.keys - bits, nullptr);
}

}  // namespace

template <class R>
R Gathered<R>::call(CallContext ctx, Arguments arguments, InvokeAt<R> invoke) {
  if (materialises(ctx)) {
    const PlainArguments plain(arguments, ctx.op->mutable_args);
    const Resolved below = below_bits(ctx);
    const CallContext context{ctx.op, below.keys};
    if constexpr (std::is_void_v<R>) {
      invoke(below.kernel, context, arguments.at);
      return plain.finish();
    } else {
      R r = invoke(below.kernel, context, arguments.at);
      plain.finish();
      if constexpr (std::is_same_v<R, const Tensor&>)
        return plain.written(r);
      else
        return r;
    }
  }
  const LentArguments lent(arguments);
  if constexpr (std::is_void_v<R>) {
    call_boxed_kernel(ctx, lent.data(), arguments.count, nullptr, 0);
  } else {
    Value rets[Result<R>::kCount];
    call_boxed_kernel(ctx, lent.data(), arguments.count, rets, Result<R>::kCount);
    return Result<R>::take(rets, written_argument(*ctx.op, arguments));
  }
}

// All that operators give back (tools/opgen/cpp_types.cc).
template struct Gathered<void>;
template struct Gathered<bool>;
template struct Gathered<int64_t>;
template struct Gathered<double>;
template struct Gathered<Scalar>;
template struct Gathered<const Tensor&>;
template struct Gathered<Tensor>;
template struct Gathered<std::vector<Tensor>>;
template struct Gathered<std::tuple<Tensor, Tensor>>;
template struct Gathered<std::tuple<Tensor, Tensor, Tensor>>;
template struct Gathered<std::tuple<Tensor, Tensor, Tensor, Tensor>>;
template struct Gathered<std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>>;

UnboxedArguments::UnboxedArguments(const Value* values, const ArgumentKind* kinds, size_t count) {
  const void** at = few_at_;
  Room* rooms = few_;
  if (count > kFew) {
    more_at_.resize(count);
    more_.resize(count);
    at = more_at_.data();
    rooms = more_.data();
  }
  for (size_t i = 0; i < count; ++i) at[i] = kUnboxers[kinds[i]](values[i], &rooms[i]);
}

LentArguments::LentArguments(Arguments arguments) {
  if (arguments.count > kFew) more_.resize(arguments.count);
  Value* out = more_.empty() ? few_ : more_.data();
  for (size_t i = 0; i < arguments.count; ++i) out[i] = kLenders[arguments.kinds[i]](arguments.at[i]);
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
