// The extension module tessera._cuda: the CUDA library, and what tessera.cuda needs of it.
#include "python/bindings/cuda/module.h"

#include "python/bindings/device_api.h"
#include "distributions/cuda/pointwise_engines.h"
#include "fft/cuda/engines.h"
#include "foreach/cuda/foreach.h"
#include "linalg/cuda/engines.h"
#include "nn/cuda/attention/attention_engines.h"
#include "nn/cuda/conv_engines.h"
#include "nn/cuda/embedding_engines.h"
#include "nn/cuda/loss_engines.h"
#include "nn/cuda/norm_engines.h"
#include "nn/cuda/pointwise_engines.h"
#include "nn/cuda/pool_engines.h"
#include "nn/cuda/resample_engines.h"
#include "nn/cuda/rnn_engines.h"
#include "optim/cuda/optim.h"
#include "special/cuda/pointwise_engines.h"
#include "tensor/cuda/functions/engines.h"
#include "tensor/cuda/gemm/engines.h"
#include "tensor/cuda/index/engines.h"
#include "tensor/cuda/libraries/libraries.h"
#include "tensor/cuda/library/library.h"
#include "tensor/cuda/pointwise/engines.h"
#include "tensor/cuda/random/engines.h"
#include "tensor/cuda/reduce/engines.h"
#include "tensor/cuda/sort/engines.h"
#include "tensor/cuda/libraries/trace.h"

namespace tessera::python {
namespace {

template <class Table>
Table* table_of(const DeviceApi& api, DeviceType t) {
  return std::get<Table* (*)(DeviceType)>(api.engines)(t);
}

// _connect(capsule, folders): gives the core the library's functions. False without a device, or a text that says why
// the system's devices cannot be used.
PyObject* py_connect(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *capsule, *folders;
    if (!PyArg_ParseTuple(args, "OO!", &capsule, &PyList_Type, &folders)) return nullptr;
    auto* api = static_cast<const DeviceApi*>(PyCapsule_GetPointer(capsule, "tessera._C._device_api"));
    if (!api) return nullptr;
    TESSERA_CHECK(api->version == DeviceApi::kVersion,
                  "tessera._cuda and tessera._C come from different builds: version ", DeviceApi::kVersion, " against ",
                  api->version);
    std::vector<std::string> paths;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(folders); ++i) {
      const char* text = PyUnicode_AsUTF8(PyList_GET_ITEM(folders, i));
      if (!text) return nullptr;
      paths.emplace_back(text);
    }
    cuda::set_library_paths(std::move(paths));
    cuda::set_pointwise_ops(pointwise_standins(), api->pointwise_ops);
    constexpr DeviceType kType = DeviceType::kCUDA;
    DeviceHooks& hooks = *api->hooks(kType);
    if (!cuda::connect(*api->device(kType), hooks, api->default_generator))
      return hooks.problem ? PyUnicode_FromString(hooks.problem) : PyBool_FromLong(0);
    const auto& eigen = *table_of<linalg::EigenEngines>(*api, DeviceType::kCPU);
    const auto& factor = *table_of<linalg::FactorEngines>(*api, DeviceType::kCPU);
    cuda::set_host_engines({eigen.run_eig, factor.run_ldl_factor, factor.run_ldl_solve});
    std::apply([](auto... table) { (cuda::connect(*table(kType)), ...); }, api->engines);
    api->set_tracer(kType, &cuda::tracer());
    cuda::add_distribution_pointwise_tables();
    cuda::add_nn_pointwise_tables();
    cuda::add_special_pointwise_tables();
    return PyBool_FromLong(1);
  });
}

PyMethodDef g_functions[] = {
    {"_connect", py_connect, METH_VARARGS,
     "Gives the core the library's functions. False without a device, or what is wrong with it."},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef g_module = {PyModuleDef_HEAD_INIT,
                        "tessera._cuda",
                        "Tessera's CUDA library.",
                        -1,
                        g_functions,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr};

}  // namespace
}  // namespace tessera::python

PyMODINIT_FUNC PyInit__cuda() {
  using namespace tessera::python;
  PyObject* module = PyModule_Create(&g_module);
  if (!module) return nullptr;
  if (guarded_int([&] { add_cuda_parts(module); }) < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
