// CUDA graphs: the work of a stream, recorded once and replayed as a whole, on memory of a private pool that stays where it is.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "tensor/cuda/allocator.h"
#include "tensor/cuda/streams.h"

namespace tessera::cuda {

class Graph {
 public:
  // keep: the recorded graph is kept beside the executable one, which is made by instantiate() or the first replay.
  explicit Graph(bool keep = false) : keep_(keep) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Records what is given to the current stream, which must not be the default one, and to streams that wait for it. Allocations of those streams come from `pool`,
  // (0, 0): a new one. mode: which other calls are refused meanwhile.
  void begin_capture(PoolId pool = {0, 0}, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal);
  // Ends it, on the same stream. Returns the number of recorded pieces of work.
  size_t end_capture();
  void instantiate();
  void replay();  // on the current stream
  void reset();   // drops all, and the graph's use of its pool
  PoolId pool() const;
  cudaGraph_t raw_graph() const;
  void keep_for_debugging() { debug_ = true; }      // before the capture
  void debug_dump(const std::string& path);         // as a DOT file; drops the recorded graph

 private:
  void drop_recorded();
  bool keep_, debug_ = false;
  bool capturing_ = false, uses_pool_ = false;
  int device_ = 0;
  Stream stream_;
  PoolId pool_{0, 0};
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace tessera::cuda
