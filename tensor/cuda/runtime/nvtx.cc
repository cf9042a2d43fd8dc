#include "tensor/cuda/runtime/nvtx.h"

#include <nvtx3/nvToolsExt.h>

namespace tessera::cuda {

int range_push(const std::string& text) { return nvtxRangePushA(text.c_str()); }
int range_pop() { return nvtxRangePop(); }
uint64_t range_start(const std::string& text) { return nvtxRangeStartA(text.c_str()); }
void range_end(uint64_t id) { nvtxRangeEnd(id); }
void mark(const std::string& text) { nvtxMarkA(text.c_str()); }

}  // namespace tessera::cuda
