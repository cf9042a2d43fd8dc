// A call's arguments as tagged addresses. Signatures are many (five hundred) and the types in them few: what a layer
// does with arguments whatever the operator is (boxes them, casts them, brings them to plain memory) is written once
// over these, so that a signature costs a few instructions that take addresses, and not a copy of the layer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "tensor/core/tensor.h"

namespace tessera::internal {

template <class... T>
struct TypeList {};

// All that signatures of operators are made of (tools/opgen/cpp_types.cc). An optional tensor is an undefined one.
using ArgumentTypes =
    TypeList<Tensor, TensorList, IntList, SymIntList, std::span<const double>, std::span<const bool>,
             std::span<const Scalar>, Scalar, int64_t, SymInt, double, bool, DType, Layout, MemoryFormat, Device,
             std::string_view, Storage, Generator, std::optional<TensorList>, std::optional<IntList>,
             std::optional<SymIntList>, std::optional<std::span<const double>>, std::optional<std::span<const bool>>,
             std::optional<std::span<const Scalar>>, std::optional<Scalar>, std::optional<int64_t>,
             std::optional<SymInt>, std::optional<double>, std::optional<bool>, std::optional<DType>,
             std::optional<Layout>, std::optional<MemoryFormat>, std::optional<Device>, std::optional<std::string_view>,
             std::optional<Storage>>;

using ArgumentKind = uint8_t;  // place in ArgumentTypes

template <class T, class... All>
consteval ArgumentKind place_of(TypeList<All...>) {
  ArgumentKind place = 0;
  const bool found = (... || (std::is_same_v<T, All> || (++place, false)));
  return found ? place : 255;
}
template <class A>
consteval ArgumentKind kind_of() {
  constexpr ArgumentKind kind = place_of<std::remove_cvref_t<A>>(ArgumentTypes());
  static_assert(kind != 255, "no operator has an argument of this type: add it to ArgumentTypes");
  return kind;
}
template <class... A>
inline constexpr ArgumentKind kKindsOf[sizeof...(A) + 1] = {kind_of<A>()..., 255};

struct Arguments {
  const ArgumentKind* kinds;
  const void** at;  // a layer puts the addresses of what it made in their places
  size_t count;

  template <class T>
  const T* get_if(size_t i) const {
    return kinds[i] == kind_of<T>() ? static_cast<const T*>(at[i]) : nullptr;
  }
  // The tensors of argument i, none if it has no tensors.
  TensorList tensors(size_t i) const {
    if (const Tensor* t = get_if<Tensor>(i)) return TensorList(t, 1);
    if (const TensorList* l = get_if<TensorList>(i)) return *l;
    if (const auto* l = get_if<std::optional<TensorList>>(i)) return *l ? **l : TensorList();
    return {};
  }
};

template <class A>
const std::remove_cvref_t<A>& argument_at(const void* p) {
  return *static_cast<const std::remove_cvref_t<A>*>(p);
}

}  // namespace tessera::internal
