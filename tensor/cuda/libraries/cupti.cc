#include "tensor/cuda/libraries/cupti.h"

#include "tensor/cuda/libraries/libraries.h"
#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/cupti.h"
#endif

namespace tessera::cuda::cupti {
namespace {

#if TESSERA_CUDA_EMULATED
Library<Functions> load() { return emulation::cupti_library(); }
#else
Library<Functions> load() {
  return load_library<Functions>({"libcupti.so.13", "libcupti.so.12", "libcupti.so"},
                                 [](Functions& f, const FunctionsOf& get) {
                                   get(f.set_buffers, "cuptiActivityRegisterCallbacks");
                                   get(f.enable, "cuptiActivityEnable");
                                   get(f.disable, "cuptiActivityDisable");
                                   get(f.flush, "cuptiActivityFlushAll");
                                   get(f.next_record, "cuptiActivityGetNextRecord");
                                   get(f.push, "cuptiActivityPushExternalCorrelationId");
                                   get(f.pop, "cuptiActivityPopExternalCorrelationId");
                                   get(f.now, "cuptiGetTimestamp");
                                   get(f.set_threads, "cuptiSetThreadIdType");
                                   get(f.function_name, "cuptiGetCallbackName");
                                   get(f.text_of, "cuptiGetResultString");
                                 });
}
#endif

}  // namespace

const Functions* functions(const char** why) {
  static const auto& l = *new Library<Functions>(load());
  if (!l.found && why) *why = l.why.c_str();
  return l.found ? &l.functions : nullptr;
}

}  // namespace tessera::cuda::cupti
