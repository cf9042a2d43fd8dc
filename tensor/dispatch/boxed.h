// From boxed values to typed calls: one template, instantiated once per distinct C++ signature (not per op). The way
// back is ByAddress::gather (op.h).
#pragma once

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/dispatch/op.h"
#include "tensor/dispatch/value.h"

namespace tessera {

// Calls `op` with boxed arguments (as many as the schema has, defaults filled in). rets: room for the schema's results;
// default-constructed Values. redispatch_keys: null for an ordinary call.
using BoxedCall = void (*)(const OpHeader& op, const DispatchKeySet* redispatch_keys, const Value* args, Value* rets);

// A kernel that takes boxed values, held by the extension of an op (or as a fallback of a key).
using BoxedKernel = void (*)(void* context, const OpHeader& op, DispatchKeySet keys, const Value* args, size_t num_args,
                             Value* rets, size_t num_rets);
// The boxed kernel registered for the key that ctx stands for; throws if there is none.
void call_boxed_kernel(CallContext ctx, const Value* args, size_t num_args, Value* rets, size_t num_rets);

// How a signature is boxed, both ways.
struct Adapter {
  BoxedCall call;

  // A kernel that has the op's kernel signature, boxes its arguments and calls call_boxed_kernel(); null where the op
  // has boxed calls alone. It lies right behind, in TypedAdapter<>: addresses of typed functions are constants, casts
  // of them are not.
  AnyKernel trampoline() const { return *reinterpret_cast<const AnyKernel*>(this + 1); }
};
template <class Sig>
struct TypedAdapter;
template <class R, class... A>
struct TypedAdapter<R(A...)> : Adapter {
  R (*gather)(CallContext, A...);
};

namespace internal {

template <class T>
struct Unbox;
template <>
struct Unbox<Tensor> {
  static const Tensor& get(const Value& v) { return v.tensor(); }
};
template <>
struct Unbox<TensorList> {
  static TensorList get(const Value& v) { return v.tensor_list(); }
};
template <>
struct Unbox<IntList> {
  static IntList get(const Value& v) { return v.int_list(); }
};
template <>
struct Unbox<SymIntList> {
  static SymIntList get(const Value& v) { return v.int_list(); }
};
template <>
struct Unbox<std::span<const double>> {
  static std::span<const double> get(const Value& v) { return v.double_list(); }
};
template <>
struct Unbox<std::span<const bool>> {
  static std::span<const bool> get(const Value& v) { return v.bool_list(); }
};
template <>
struct Unbox<std::span<const Scalar>> {
  static std::span<const Scalar> get(const Value& v) { return v.scalar_list(); }
};
template <>
struct Unbox<int64_t> {
  static int64_t get(const Value& v) { return v.integer(); }
};
template <>
struct Unbox<SymInt> {
  static SymInt get(const Value& v) { return v.integer(); }
};
template <>
struct Unbox<double> {
  static double get(const Value& v) { return v.number(); }
};
template <>
struct Unbox<bool> {
  static bool get(const Value& v) { return v.boolean(); }
};
template <>
struct Unbox<Scalar> {
  static Scalar get(const Value& v) { return v.scalar(); }
};
template <>
struct Unbox<std::string_view> {
  static std::string_view get(const Value& v) { return v.string(); }
};
template <>
struct Unbox<DType> {
  static DType get(const Value& v) { return v.dtype(); }
};
template <>
struct Unbox<Layout> {
  static Layout get(const Value& v) { return v.layout(); }
};
template <>
struct Unbox<MemoryFormat> {
  static MemoryFormat get(const Value& v) { return v.memory_format(); }
};
template <>
struct Unbox<Device> {
  static Device get(const Value& v) { return v.device(); }
};
template <>
struct Unbox<Generator> {
  static const Generator& get(const Value& v) { return v.generator(); }
};
template <>
struct Unbox<Storage> {
  static Storage get(const Value& v) { return v.storage(); }
};
template <class T>
struct Unbox<std::optional<T>> {
  static std::optional<T> get(const Value& v) {
    return v.is_none() ? std::nullopt : std::optional<T>(Unbox<T>::get(v));
  }
};

// Results: owned.
inline Value box(const Tensor& t) { return Value::of(Tensor(t)); }
inline Value box(Tensor&& t) { return Value::of(std::move(t)); }
inline Value box(std::vector<Tensor>&& l) { return Value::of(std::move(l)); }
inline Value box(const Scalar& s) { return Value::of(s); }
inline Value box(SymInt i) { return Value::of(i.guard_int()); }
template <class T>
requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) Value box(T v) { return Value::of(v); }
inline Value box(Device d) { return Value::of(d); }
inline Value box(IntVector&& l) { return Value::of(std::move(l)); }
inline Value box(std::string&& s) { return Value::of(std::move(s)); }

// Arguments on the way into a boxed kernel: borrowed.
inline Value lend(const Tensor& t) { return t.defined() ? Value::borrow(t.impl()) : Value::none(); }
inline Value lend(TensorList l) { return Value::borrow(l); }
inline Value lend(IntList l) { return Value::borrow(l); }
inline Value lend(SymIntList l) { return Value::borrow(l.ints()); }
inline Value lend(std::span<const double> l) { return Value::borrow(l); }
inline Value lend(std::span<const bool> l) { return Value::borrow(l); }
inline Value lend(std::span<const Scalar> l) { return Value::borrow(l); }
inline Value lend(std::string_view s) { return Value::borrow(s); }
inline Value lend(const Generator& g) { return Value::borrow(g); }
inline Value lend(const Storage& s) { return Value::of(s); }
inline Value lend(const Scalar& s) { return Value::of(s); }
inline Value lend(SymInt i) { return Value::of(i.guard_int()); }
inline Value lend(Device d) { return Value::of(d); }
template <class T>
requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) Value lend(T v) { return Value::of(v); }
template <class T>
Value lend(const std::optional<T>& o) {
  return o ? lend(*o) : Value::none();
}

template <class R>
struct Result {
  static constexpr size_t kCount = 1;
  static void put(R&& r, Value* out) { out[0] = box(std::move(r)); }
  static R take(Value* in, const Tensor*) {
    if constexpr (std::is_same_v<R, Tensor>)
      return in[0].tensor();
    else if constexpr (std::is_same_v<R, std::vector<Tensor>>) {
      TensorList l = in[0].tensor_list();
      return {l.begin(), l.end()};
    } else
      return Unbox<R>::get(in[0]);
  }
};
template <>
struct Result<const Tensor&> {
  static constexpr size_t kCount = 1;
  static void put(const Tensor& r, Value* out) { out[0] = box(r); }
  static const Tensor& take(Value*, const Tensor* written) { return *written; }
};
template <class... T>
struct Result<std::tuple<T...>> {
  static constexpr size_t kCount = sizeof...(T);
  static void put(std::tuple<T...>&& r, Value* out) {
    std::apply(
        [&](auto&&... e) {
          size_t i = 0;
          ((out[i++] = box(std::forward<decltype(e)>(e))), ...);
        },
        std::move(r));
  }
  template <size_t... I>
  static std::tuple<T...> take_all(Value* in, std::index_sequence<I...>) {
    return {Result<std::remove_cvref_t<T>>::take(in + I, nullptr)...};
  }
  static std::tuple<T...> take(Value* in, const Tensor*) { return take_all(in, std::index_sequence_for<T...>()); }
};

// Arguments on their way into a boxed kernel.
class LentArguments {
 public:
  explicit LentArguments(Arguments arguments);
  const Value* data() const { return more_.empty() ? few_ : more_.data(); }

 private:
  static constexpr size_t kFew = 12;
  Value few_[kFew];
  std::vector<Value> more_;  // all of them, where they are many
};
// The keys of an ordinary call of op.
DispatchKeySet keys_of_call(const OpHeader& op, const Value* args, size_t num_args);

template <class Sig>
struct Boxing;
template <class R, class... A>
struct Boxing<R(A...)> {
  template <size_t... I>
  static R invoke(const OpHeader& header, const DispatchKeySet* keys, const Value* args, std::index_sequence<I...>) {
    const auto& op = static_cast<const Op<R(A...)>&>(header);
    return op.redispatch(keys ? *keys : keys_of_call(header, args, sizeof...(A)),
                         Unbox<std::remove_cvref_t<A>>::get(args[I])...);
  }
  static void call(const OpHeader& header, const DispatchKeySet* keys, const Value* args, Value* rets) {
    if constexpr (std::is_void_v<R>)
      invoke(header, keys, args, std::index_sequence_for<A...>());
    else
      Result<R>::put(invoke(header, keys, args, std::index_sequence_for<A...>()), rets);
  }
};

// Arguments that own memory where they are made of a value: UnboxedArguments do not hold them.
template <class T>
inline constexpr bool is_owner_v = std::is_same_v<T, Storage> || std::is_same_v<T, std::optional<Storage>>;

// Typed arguments made of values, for calls by addresses.
class UnboxedArguments {
 public:
  // Error if a value is of another type than its argument.
  UnboxedArguments(const Value* values, const ArgumentKind* kinds, size_t count);
  const void* const* at() const { return more_at_.empty() ? few_at_ : more_at_.data(); }

 private:
  struct Room {
    alignas(8) char bytes[40];
  };
  static constexpr size_t kFew = 16;
  const void* few_at_[kFew];
  Room few_[kFew];
  std::vector<const void*> more_at_;  // all of them, where they are many
  std::vector<Room> more_;
};

// BoxedCall for signatures of operators that cost more than their calls: a loop over the kinds of arguments.
template <class R>
struct CompactCall {
  static void call(const OpHeader& op, const DispatchKeySet* keys, const Value* args, Value* rets,
                   const ArgumentKind* kinds, size_t count, InvokeAt<R> invoke, AnyKernel gather) {
    const UnboxedArguments unboxed(args, kinds, count);
    const Resolved r = kernel_for(op, keys ? *keys : keys_of_call(op, args, count), gather);
    const CallContext ctx{&op, r.keys};
    if constexpr (std::is_void_v<R>)
      invoke(r.kernel, ctx, unboxed.at());
    else
      Result<R>::put(invoke(r.kernel, ctx, unboxed.at()), rets);
  }
};
template <class Sig>
struct CompactBoxing;
template <class R, class... A>
struct CompactBoxing<R(A...)> {
  static void call(const OpHeader& header, const DispatchKeySet* keys, const Value* args, Value* rets) {
    if constexpr ((... || is_owner_v<std::remove_cvref_t<A>>))
      Boxing<R(A...)>::call(header, keys, args, rets);
    else
      CompactCall<R>::call(header, keys, args, rets, kKindsOf<A...>, sizeof...(A), &ByAddress<R(A...)>::invoke,
                           ByAddress<R(A...)>::gatherer());
  }
};

}  // namespace internal

template <class Sig>
inline constexpr TypedAdapter<Sig> kAdapter = {{&internal::Boxing<Sig>::call}, &internal::ByAddress<Sig>::gather};
// Half of the code, for some nanoseconds for each argument of a call.
template <class Sig>
inline constexpr TypedAdapter<Sig> kCompactAdapter = {{&internal::CompactBoxing<Sig>::call},
                                                      &internal::ByAddress<Sig>::gather};

}  // namespace tessera
