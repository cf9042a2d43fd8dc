// Random generators.
#pragma once

#include "c10/core/DispatchKeySet.h"
#include "c10/core/Device.h"
#include "tensor/core/generator/generator.h"

namespace at {

class Tensor;
using c10::Device;
using CPUGeneratorImpl = tessera::CpuGeneratorImpl;

class Generator : public tessera::Generator {
 public:
  Generator() = default;
  Generator(const tessera::Generator& g) : tessera::Generator(g) {}
  void set_current_seed(uint64_t seed) { get()->manual_seed(seed); }
  uint64_t current_seed() const { return get()->initial_seed(); }
  uint64_t seed() { return get()->seed(); }
  void set_offset(uint64_t offset) { get()->set_offset(offset); }
  uint64_t get_offset() const { return get()->get_offset(); }
  std::mutex& mutex() const { return get()->mutex(); }
  Device device() const { return get()->device(); }
  Generator clone() const { return tessera::Generator(get()->clone()); }
  Tensor get_state() const;
  void set_state(const Tensor& state);
  bool is_same(const Generator& o) const { return *this == o; }
  template <class T>
  T* get() const {
    return static_cast<T*>(tessera::Generator::get());
  }
  tessera::GeneratorImpl* get() const { return tessera::Generator::get(); }
};

template <class Impl, class... A>
Generator make_generator(A&&... args) {
  return tessera::Generator(tessera::make_intrusive<Impl>(std::forward<A>(args)...));
}

namespace detail {
inline Generator createCPUGenerator(uint64_t seed = tessera::kDefaultSeed) { return tessera::make_cpu_generator(seed); }
inline const Generator& getDefaultCPUGenerator() {
  return static_cast<const Generator&>(tessera::default_cpu_generator());
}
}  // namespace detail

}  // namespace at
