#include "tensor/core/dispatch_key.h"

#include <string>

#include "tensor/core/error.h"

namespace tessera {

thread_local constinit ThreadState thread_state{};

namespace {
constexpr const char* kNames[] = {"Undefined",
                                  "CPU",
                                  "CUDA",
                                  "Meta",
                                  "MPS",
                                  "XPU",
                                  "HPU",
                                  "MTIA",
                                  "XLA",
                                  "Vulkan",
                                  "IPU",
                                  "Lazy",
                                  "MkldnnCPU",
                                  "FPGA",
                                  "MAIA",
                                  "VE",
                                  "PrivateUse1",
                                  "QuantizedCPU",
                                  "QuantizedCUDA",
                                  "QuantizedMeta",
                                  "SparseCPU",
                                  "SparseCUDA",
                                  "SparseMeta",
                                  "SparseCsrCPU",
                                  "SparseCsrCUDA",
                                  "SparseCsrMeta",
                                  "NestedTensorCPU",
                                  "NestedTensorCUDA",
                                  "NestedTensorMeta",
                                  "BackendSelect",
                                  "Python",
                                  "Fake",
                                  "FuncTorchDynamicLayerBackMode",
                                  "Functionalize",
                                  "Named",
                                  "Conjugate",
                                  "Negative",
                                  "ZeroTensor",
                                  "ADInplaceOrView",
                                  "AutogradOther",
                                  "AutogradNestedTensor",
                                  "AutogradCPU",
                                  "AutogradCUDA",
                                  "AutogradMeta",
                                  "AutogradXLA",
                                  "AutogradMPS",
                                  "AutogradXPU",
                                  "AutogradPrivateUse1",
                                  "Autograd",
                                  "Forward",
                                  "Tracer",
                                  "Profiler",
                                  "AutocastCPU",
                                  "AutocastCUDA",
                                  "AutocastXPU",
                                  "AutocastPrivateUse1",
                                  "Batched",
                                  "VmapMode",
                                  "FuncTorchGradWrapper",
                                  "FuncTorchBatched",
                                  "FuncTorchDynamicLayerFrontMode",
                                  "PreDispatch",
                                  "PythonTLSSnapshot",
                                  "PythonDispatcher"};
static_assert(sizeof(kNames) / sizeof(*kNames) == static_cast<size_t>(DispatchKey::kNumKeys));
constexpr const char* kAliases[] = {"CompositeImplicitAutograd", "CompositeExplicitAutograd",
                                    "CompositeExplicitAutogradNonFunctional", "CatchAll"};
}  // namespace

const char* key_name(DispatchKey k) {
  const int i = static_cast<int>(k);
  if (i < static_cast<int>(DispatchKey::kNumKeys)) return kNames[i];
  const int a = i - static_cast<int>(DispatchKey::kCompositeImplicitAutograd);
  return a >= 0 && a < 4 ? kAliases[a] : "unknown";
}

DispatchKey parse_key(std::string_view name) {
  for (int i = 0; i < static_cast<int>(DispatchKey::kNumKeys); ++i)
    if (name == kNames[i]) return static_cast<DispatchKey>(i);
  for (int i = 0; i < 4; ++i)
    if (name == kAliases[i])
      return static_cast<DispatchKey>(static_cast<int>(DispatchKey::kCompositeImplicitAutograd) + i);
  if (name == "AutogradFunctionality") return DispatchKey::kAutograd;  // another name for all of them
  std::string known;
  for (const char* n : kNames) known += std::string(known.empty() ? "" : ", ") + n;
  for (const char* n : kAliases) known += std::string(", ") + n;
  throw Error(str_cat("could not parse dispatch key: '", name, "'; known keys: ", known));
}

}  // namespace tessera
