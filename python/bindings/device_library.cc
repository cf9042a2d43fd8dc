#include "python/bindings/device_library.h"

#include <array>
#include <type_traits>

#include "distributions/cpu/ops.h"
#include "nn/cpu/ops.h"
#include "python/bindings/autograd/autograd.h"
#include "python/bindings/device_api.h"
#include "python/bindings/types.h"
#include "special/cpu/ops.h"
#include "tensor/core/generator/philox.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/engine/random.h"
#include "tensor/ops/random_ops.h"

namespace tessera::python {
namespace {

// The generators of CUDA devices; seeded alike until somebody seeds them.
const Generator& default_cuda_generator(Device d) {
  static const auto* generators = [] {
    auto* g = new std::array<Generator, 64>;
    for (int i = 0; i < 64; ++i)
      (*g)[static_cast<size_t>(i)] = Generator(make_intrusive<PhiloxGeneratorImpl>(Device(DeviceType::kCUDA, i)));
    return g;
  }();
  return (*generators)[static_cast<size_t>(d.index < 0 ? 0 : d.index & 63)];
}

// Imports the library's module, which fills the tables; without a device, or without the library, they stay empty.
void load_library(DeviceType t) {
  if (t != DeviceType::kCUDA) return;
  GilAcquire gil;
  Ref module = checked_call(PyImport_ImportModule("tessera.cuda._library"));
  checked_call(PyObject_CallMethod(module.get(), "load", nullptr));
}

template <class Table>
Table* table_for(DeviceType t) {
  return &Table::of(t);
}
template <class... Tables>
constexpr TablesOf<Tables...> lookups(std::type_identity<TablesOf<Tables...>>) {
  return {table_for<Tables>...};
}
// What devices leave to the CPU (linalg/cuda/engines.h: HostEngines).
void fill_tables_of_cpu() {
  constexpr DeviceType kType = DeviceType::kCPU;
  linalg::EigenEngines::of(kType).run_eig = &cpu::run_eig;
  linalg::FactorEngines::of(kType).run_ldl_factor = &cpu::run_ldl_factor;
  linalg::FactorEngines::of(kType).run_ldl_solve = &cpu::run_ldl_solve;
}
// What composites take on devices, where it is an operator of its own.
void fill_tables_of_devices() {
  RandomEngines::of(DeviceType::kCUDA).drop_at_once = [](const Tensor& x, double p) {
    return std::get<0>(native_dropout(x, p, true));
  };
}
DeviceHooks* hooks_for(DeviceType t) { return &device_hooks(t); }
const PointwiseOp* const g_pointwise_ops[] = {
#define TESSERA_PW(name) &pw::name,
#include "python/bindings/device_pointwise_ops.inc"
#undef TESSERA_PW
};
const DeviceApi g_api{DeviceApi::kVersion,    lookups(std::type_identity<EngineTables>()),
                      table_for<DeviceTable>, hooks_for,
                      default_cuda_generator, g_pointwise_ops,
                      set_device_tracer};

PyObject* py_default_cuda_generator(PyObject*, PyObject* index) {
  return guarded([&] {
    const long i = PyLong_AsLong(index);
    if (i == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
    TESSERA_CHECK(i >= 0 && i < 64, "there is no CUDA device ", static_cast<int64_t>(i));
    return wrap(default_cuda_generator(Device(DeviceType::kCUDA, static_cast<int>(i))));
  });
}
PyMethodDef g_functions[] = {{"_default_cuda_generator", py_default_cuda_generator, METH_O,
                              "The generator that samplers use on a CUDA device; it exists without the device, too."},
                             {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_device_library(PyObject* module) {
  fill_tables_of_cpu();
  fill_tables_of_devices();
  set_device_loader(load_library);
  check(PyModule_AddObject(module, "_device_api",
                           check(PyCapsule_New(const_cast<DeviceApi*>(&g_api), "tessera._C._device_api", nullptr))));
  check(PyModule_AddFunctions(module, g_functions));
}

}  // namespace tessera::python
