#include "tensor/cuda/runtime/graph.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "tensor/core/error.h"
#include "tensor/cuda/runtime/allocator_internal.h"

namespace tessera::cuda {
namespace {

// The number of the capture that a stream takes part in; 0: none.
unsigned long long capture_id(cudaStream_t stream) {
  if (!stream) return 0;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  check(cudaStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr, nullptr), "cudaStreamGetCaptureInfo");
  return status == cudaStreamCaptureStatusActive ? id : 0;
}

// The graphs that are recorded now.
std::atomic<int> num_recording{0};
std::mutex recording_mutex;
std::vector<Graph*> recording;

}  // namespace

template <typename F>
void Graph::with_recording(const F& f) {
  const unsigned long long id = capture_id(current_stream());
  if (id == 0) return;
  std::lock_guard lock(recording_mutex);
  const auto graph = std::ranges::find_if(recording, [&](const Graph* g) { return g->id_ == id; });
  if (graph != recording.end()) f(**graph);
}

ReplayedWords* replayed_words(const void* owner, const ReplayedWords::Next& next) {
  if (num_recording.load(std::memory_order_relaxed) == 0) [[likely]]
    return nullptr;
  ReplayedWords* words = nullptr;
  Graph::with_recording([&](Graph& graph) {
    for (const auto& w : graph.words_)
      if (w->owner == owner) words = w.get();
    if (words) return;
    graph.words_.push_back(std::make_unique<ReplayedWords>(owner, next, Buffer(2 * sizeof(uint64_t))));
    words = graph.words_.back().get();
  });
  return words;
}

void hold_for_replays(const void* address) {
  Graph::with_recording([&](Graph& graph) {
    if (hold_pinned(address)) graph.held_.push_back(address);
  });
}

Graph::~Graph() {
  try {
    reset();
  } catch (const Error&) {  // the device is gone
  }
}

void Graph::begin_capture(PoolId pool, cudaStreamCaptureMode mode) {
  TESSERA_CHECK(
      !exec_ && !graph_,
      "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.");
  TESSERA_CHECK(!capturing_, "This CUDAGraph instance is being captured already.");
  device_ = selected_device();
  stream_ = current_stream(device_);
  TESSERA_CHECK(stream_.handle,
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them "
                "on the default stream.)");
  OpDevice on(device_);
  report_slot();  // it cannot be made while a stream is captured
  pool_ = pool == PoolId{0, 0} ? new_pool_id(false) : pool;
  const auto id = std::make_shared<unsigned long long>(0);
  begin_pool(device_, pool_, [id](cudaStream_t s) { return *id != 0 && capture_id(s) == *id; });
  uses_pool_ = true;
  if (const cudaError_t e = cudaStreamBeginCapture(stream_.handle, mode); e != cudaSuccess) {
    end_pool(device_, pool_);
    reset();
    check(e, "cudaStreamBeginCapture");
  }
  id_ = *id = capture_id(stream_.handle);
  capturing_ = true;
  std::lock_guard lock(recording_mutex);
  recording.push_back(this);
  ++num_recording;
}

void Graph::end_recording() {
  capturing_ = false;
  std::lock_guard lock(recording_mutex);
  std::erase(recording, this);
  --num_recording;
}

size_t Graph::end_capture() {
  TESSERA_CHECK(capturing_, "capture_end() without a preceding capture_begin()");
  TESSERA_CHECK(current_stream(device_) == stream_, "Capture must end on the same stream it began on.");
  OpDevice on(device_);
  end_recording();
  const cudaError_t e = cudaStreamEndCapture(stream_.handle, &graph_);
  end_pool(device_, pool_);
  check(e, "cudaStreamEndCapture");
  TESSERA_CHECK(graph_, "Invalid capture.");
  size_t count = 0;
  check(cudaGraphGetNodes(graph_, nullptr, &count), "cudaGraphGetNodes");
  if (!keep_) {
    instantiate();
    if (!debug_) drop_recorded();
  }
  return count;
}

void Graph::instantiate() {
  TESSERA_CHECK(graph_, "capture_end() must have been called before calling instantiate");
  OpDevice on(device_);
  if (exec_) check(cudaGraphExecDestroy(std::exchange(exec_, nullptr)), "cudaGraphExecDestroy");
  check(cudaGraphInstantiate(&exec_, graph_, 0), "cudaGraphInstantiate");
}

void Graph::replay() {
  TESSERA_CHECK(graph_ || exec_, "Called CUDAGraph::replay without a preceding successful capture.");
  if (!exec_) instantiate();
  OpDevice on(device_);
  for (const auto& w : words_) {
    const std::array<uint64_t, 2> values = w->next(w->used);
    copy_to_device(w->memory.get(), values.data(), sizeof values);
  }
  check(cudaGraphLaunch(exec_, current_stream(device_).handle), "cudaGraphLaunch");
}

void Graph::drop_recorded() {
  if (graph_) check(cudaGraphDestroy(std::exchange(graph_, nullptr)), "cudaGraphDestroy");
}

void Graph::reset() {
  if (capturing_) {
    end_recording();
    OpDevice on(device_);
    if (cudaStreamEndCapture(stream_.handle, &graph_) != cudaSuccess) cudaGetLastError();
    end_pool(device_, pool_);
  }
  if (exec_) check(cudaGraphExecDestroy(std::exchange(exec_, nullptr)), "cudaGraphExecDestroy");
  drop_recorded();
  words_.clear();
  for (const void* address : std::exchange(held_, {})) drop_pinned(address);
  if (std::exchange(uses_pool_, false)) release_pool(device_, pool_);
}

PoolId Graph::pool() const {
  TESSERA_CHECK(uses_pool_, "Called CUDAGraph::pool() without a preceding successful capture.");
  return pool_;
}

cudaGraph_t Graph::raw_graph() const {
  TESSERA_CHECK(keep_,
                "You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=true");
  TESSERA_CHECK(graph_, "You cannot access the raw cudaGraph_t instance until capture_end() has been called");
  return graph_;
}

void Graph::debug_dump(const std::string& path) {
  TESSERA_CHECK(debug_ || keep_, "CUDA Graphs debug not enabled, set with CUDAGraph::enable_debug_mode");
  TESSERA_CHECK(graph_, "CUDA Graphs debug: nothing has been captured");
  check(cudaGraphDebugDotPrint(graph_, path.c_str(), cudaGraphDebugDotFlagsVerbose), "cudaGraphDebugDotPrint");
  if (!keep_) drop_recorded();
}

}  // namespace tessera::cuda
