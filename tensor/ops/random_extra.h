// What the callees and expressions of random.textproto refer to.
#pragma once

#include <optional>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

// New tensors filled by a sampler, whatever their device.
Tensor new_uniform(const Tensor& t, const Generator& generator);
Tensor new_normal(const Tensor& t, double mean, double std, const Generator& generator);
Tensor new_integers(const Tensor& t, int64_t low, int64_t high, const Generator& generator);
Tensor new_bernoulli(const Tensor& t, double p, const Generator& generator);
Tensor new_permutation(int64_t n, const Generator& generator, DType dtype, Device device);
Tensor new_tensor(SymIntList size, std::optional<DType> dtype, std::optional<Device> device, DType fallback);

using Dt = std::optional<DType>;
using Lo = std::optional<Layout>;
using De = std::optional<Device>;
using Pin = std::optional<bool>;
inline Tensor rand_generator_factory(SymIntList size, const Generator& g, Dt dtype, Lo, De device, Pin) {
  return new_uniform(new_tensor(size, dtype, device, default_dtype()), g);
}
inline Tensor rand_factory(SymIntList size, Dt dtype, Lo, De device, Pin) {
  return new_uniform(new_tensor(size, dtype, device, default_dtype()), {});
}
inline Tensor randn_generator_factory(SymIntList size, const Generator& g, Dt dtype, Lo, De device, Pin) {
  return new_normal(new_tensor(size, dtype, device, default_dtype()), 0, 1, g);
}
inline Tensor randn_factory(SymIntList size, Dt dtype, Lo, De device, Pin) {
  return new_normal(new_tensor(size, dtype, device, default_dtype()), 0, 1, {});
}
inline Tensor randint_low_generator_factory(SymInt low, SymInt high, SymIntList size, const Generator& g, Dt dtype, Lo,
                                            De device, Pin) {
  return new_integers(new_tensor(size, dtype, device, DType::kInt64), low.guard_int(), high.guard_int(), g);
}
inline Tensor randint_low_factory(SymInt low, SymInt high, SymIntList size, Dt dtype, Lo l, De device, Pin p) {
  return randint_low_generator_factory(low, high, size, {}, dtype, l, device, p);
}
inline Tensor randint_generator_factory(SymInt high, SymIntList size, const Generator& g, Dt dtype, Lo l, De device,
                                        Pin p) {
  return randint_low_generator_factory(0, high, size, g, dtype, l, device, p);
}
inline Tensor randint_factory(SymInt high, SymIntList size, Dt dtype, Lo l, De device, Pin p) {
  return randint_low_generator_factory(0, high, size, {}, dtype, l, device, p);
}
inline Tensor randperm_generator_factory(SymInt n, const Generator& g, Dt dtype, Lo, De device, Pin) {
  return new_permutation(n.guard_int(), g, dtype.value_or(DType::kInt64), device.value_or(Device()));
}
inline Tensor randperm_factory(SymInt n, Dt dtype, Lo l, De device, Pin p) {
  return randperm_generator_factory(n, {}, dtype, l, device, p);
}

// An out= argument at its size.
const Tensor& sized(const Tensor& out, SymIntList size);
void permutation_into(const Tensor& out, SymInt n, const Generator& generator);
void multinomial_into(const Tensor& out, const Tensor& self, SymInt num_samples, bool replacement,
                      const Generator& generator);
int64_t scalar_of(const Tensor& high);
Tensor bernoulli_like(const Tensor& self, double p, const Generator& generator);

// What native_dropout multiplies the kept elements by.
inline double kept_scale(double p, std::optional<bool> train) {
  return !train.value_or(true) ? 1.0 : p == 1.0 ? 0.0 : 1.0 / (1.0 - p);
}

// What dropout multiplies with and adds: noise alone, or for the alpha kind noise and its shift. Undefined noise:
// nothing is dropped.
struct DropNoise {
  Tensor scale, shift;
};
DropNoise make_drop_noise(const Tensor& input, double p, bool train, bool features, bool alpha);
Tensor apply_drop(const Tensor& input, const DropNoise& noise);
const Tensor& apply_drop_inplace(const Tensor& self, const DropNoise& noise);
template <bool kFeatures, bool kAlpha>
Tensor dropped(const Tensor& input, double p, bool train) {
  return apply_drop(input, make_drop_noise(input, p, train, kFeatures, kAlpha));
}
template <bool kFeatures, bool kAlpha>
const Tensor& drop_inplace(const Tensor& self, double p, bool train) {
  return apply_drop_inplace(self, make_drop_noise(self, p, train, kFeatures, kAlpha));
}

}  // namespace tessera::kernels
