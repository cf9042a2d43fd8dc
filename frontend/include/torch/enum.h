// Values that options choose from. Each is a type of its own, torch::enumtype::kMean, with one constant, torch::kMean;
// an option that takes some of them is a std::variant of their types.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include <ATen/ATen.h>

// clang-format off
#define TESSERA_FRONTEND_ENUM(X) \
  X(Linear) X(Conv1D) X(Conv2D) X(Conv3D) X(ConvTranspose1D) X(ConvTranspose2D) X(ConvTranspose3D) X(Sigmoid) \
  X(Tanh) X(ReLU) X(GELU) X(SiLU) X(Mish) X(LeakyReLU) X(FanIn) X(FanOut) X(Constant) X(Reflect) X(Replicate) \
  X(Circular) X(Nearest) X(NearestExact) X(Bilinear) X(Bicubic) X(Trilinear) X(Area) X(Sum) X(Mean) X(Max) X(None) \
  X(BatchMean) X(Zeros) X(Border) X(Reflection) X(RNN_TANH) X(RNN_RELU) X(LSTM) X(GRU) X(Valid) X(Same)
// clang-format on

namespace torch {
namespace enumtype {

#define TESSERA_DECLARE(name)                    \
  struct k##name {                               \
    static constexpr const char* id = "k" #name; \
  };
TESSERA_FRONTEND_ENUM(TESSERA_DECLARE)
#undef TESSERA_DECLARE

// "kMean"
template <class V>
std::string get_enum_name(const V& v) {
  return std::visit([](const auto& one) { return std::string(one.id); }, v);
}

// What operators call a reduction: 0 none, 1 mean, 2 sum.
template <class V>
int64_t reduction_get_enum(const V& v) {
  const std::string name = get_enum_name(v);
  if (name == "kNone") return 0;
  if (name == "kMean") return 1;
  TORCH_CHECK(name == "kSum", name, " is not a valid value for reduction");
  return 2;
}

}  // namespace enumtype

#define TESSERA_DECLARE(name) inline constexpr enumtype::k##name k##name{};
TESSERA_FRONTEND_ENUM(TESSERA_DECLARE)
#undef TESSERA_DECLARE
#undef TESSERA_FRONTEND_ENUM

}  // namespace torch
