// CUDA graphs: the work of a stream, recorded once and replayed as a whole, on memory of a private pool that stays
// where it is.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensor/cuda/runtime/allocator.h"
#include "tensor/cuda/runtime/streams.h"

namespace tessera::cuda {

// Two words of device memory that recorded kernels read, and that change from replay to replay: where a generator
// stands.
struct ReplayedWords {
  using Next = std::function<std::array<uint64_t, 2>(uint64_t used)>;
  const void* owner;
  Next next;  // gives the words before each replay, and may move on what they stand for by `used`
  Buffer memory;
  uint64_t used = 0;  // counted by those who record the kernels
};
// Those of `owner` in the graph that current_stream() is recorded into; null if nothing is recorded.
ReplayedWords* replayed_words(const void* owner, const ReplayedWords::Next& next);
// The block of pinned memory that holds `address` is not used for anything else while the graph lives that
// current_stream() is recorded into. Nothing for memory that others pinned.
void hold_for_replays(const void* address);

class Graph {
 public:
  // keep: the recorded graph is kept beside the executable one, which is made by instantiate() or the first replay.
  explicit Graph(bool keep = false) : keep_(keep) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Records what is given to the current stream, which must not be the default one, and to streams that wait for it.
  // Allocations of those streams come from `pool`, (0, 0): a new one. mode: which other calls are refused meanwhile.
  void begin_capture(PoolId pool = {0, 0}, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal);
  // Ends it, on the same stream. Returns the number of recorded pieces of work.
  size_t end_capture();
  void instantiate();
  void replay();  // on the current stream
  void reset();   // drops all, and the graph's use of its pool
  PoolId pool() const;
  cudaGraph_t raw_graph() const;
  void keep_for_debugging() { debug_ = true; }  // before the capture
  void debug_dump(const std::string& path);     // as a DOT file; drops the recorded graph

 private:
  friend ReplayedWords* replayed_words(const void* owner, const ReplayedWords::Next& next);
  friend void hold_for_replays(const void* address);
  // f(the graph that current_stream() is recorded into), if there is one; no other thread changes it meanwhile.
  template <typename F>
  static void with_recording(const F& f);
  void drop_recorded();
  void end_recording();
  bool keep_, debug_ = false;
  bool capturing_ = false, uses_pool_ = false;
  int device_ = 0;
  Stream stream_;
  PoolId pool_{0, 0};
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  unsigned long long id_ = 0;  // of the capture
  std::vector<std::unique_ptr<ReplayedWords>> words_;
  std::vector<const void*> held_;  // pinned blocks, by any address in them
};

}  // namespace tessera::cuda
