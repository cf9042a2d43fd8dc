// CUDA graphs: capsules.
#include "python/bindings/cuda/calls.h"
#include "python/bindings/cuda/module.h"
#include "tensor/core/error.h"
#include "tensor/cuda/runtime/graph.h"

namespace tessera::python {
namespace {

struct PyGraph {
  static constexpr const char* kCapsule = "tessera._cuda.CUDAGraph";
  explicit PyGraph(bool keep) : graph(keep) {}
  cuda::Graph graph;
};

cudaStreamCaptureMode mode_of(const std::string& name) {
  if (name == "global") return cudaStreamCaptureModeGlobal;
  if (name == "thread_local") return cudaStreamCaptureModeThreadLocal;
  TESSERA_CHECK(name == "relaxed", "Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got ",
                name);
  return cudaStreamCaptureModeRelaxed;
}

std::unique_ptr<PyGraph> new_graph(bool keep) { return std::make_unique<PyGraph>(keep); }
void begin(PyGraph* g, cuda::PoolId pool, std::string mode) { g->graph.begin_capture(pool, mode_of(mode)); }
uint64_t end(PyGraph* g) { return g->graph.end_capture(); }
void instantiate(PyGraph* g) { g->graph.instantiate(); }
void replay(PyGraph* g) { g->graph.replay(); }
void reset(PyGraph* g) { g->graph.reset(); }
cuda::PoolId pool(PyGraph* g) { return g->graph.pool(); }
uint64_t raw(PyGraph* g) { return reinterpret_cast<uint64_t>(g->graph.raw_graph()); }
void keep_for_debugging(PyGraph* g) { g->graph.keep_for_debugging(); }
void debug_dump(PyGraph* g, std::string path) { g->graph.debug_dump(path); }

}  // namespace

void add_cuda_graphs(PyObject* module) {
  add_functions(module,
                {function<new_graph>("new_graph"), function<begin>("graph_begin"), function<end>("graph_end"),
                 function<instantiate>("graph_instantiate"), function<replay>("graph_replay"),
                 function<reset>("graph_reset"), function<pool>("graph_pool"), function<raw>("graph_raw"),
                 function<keep_for_debugging>("graph_keep_for_debugging"), function<debug_dump>("graph_debug_dump")});
}

}  // namespace tessera::python
