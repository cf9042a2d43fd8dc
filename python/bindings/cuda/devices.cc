// Devices, streams, events, profiler ranges, NVIDIA's libraries. A stream is (device, handle); events are capsules.
#include <cuda_runtime_api.h>

#include "fft/cuda/plans.h"
#include "linalg/cuda/solver.h"
#include "python/bindings/cuda/calls.h"
#include "python/bindings/cuda/module.h"
#include "tensor/core/error.h"
#include "tensor/cuda/libraries/blas.h"
#include "tensor/cuda/libraries/dnn.h"
#include "tensor/cuda/library/library.h"
#include "tensor/cuda/runtime/architectures.h"
#include "tensor/cuda/runtime/nvtx.h"
#include "tensor/cuda/runtime/streams.h"

namespace tessera::python {
namespace {

using cuda::Stream;

struct PyEvent {
  static constexpr const char* kCapsule = "tessera._cuda.Event";
  cuda::Event event;
};

Stream stream_of(int device, uint64_t handle) { return {device, reinterpret_cast<cudaStream_t>(handle)}; }
uint64_t handle_of(const void* p) { return reinterpret_cast<uint64_t>(p); }

// --- devices ---

std::map<std::string, int64_t> properties(int device) {
  cuda::check_device(device);
  cudaDeviceProp p;
  cuda::check(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
  const auto bytes = [](size_t n) { return static_cast<int64_t>(n); };
  return {{"major", p.major},
          {"minor", p.minor},
          {"total_memory", bytes(p.totalGlobalMem)},
          {"multi_processor_count", p.multiProcessorCount},
          {"is_integrated", p.integrated},
          {"is_multi_gpu_board", p.isMultiGpuBoard},
          {"max_threads_per_multi_processor", p.maxThreadsPerMultiProcessor},
          {"max_threads_per_block", p.maxThreadsPerBlock},
          {"warp_size", p.warpSize},
          {"regs_per_multiprocessor", p.regsPerMultiprocessor},
          {"shared_memory_per_block", bytes(p.sharedMemPerBlock)},
          {"shared_memory_per_block_optin", bytes(p.sharedMemPerBlockOptin)},
          {"shared_memory_per_multiprocessor", bytes(p.sharedMemPerMultiprocessor)},
          {"L2_cache_size", p.l2CacheSize},
          {"memory_bus_width", p.memoryBusWidth},
          {"pci_bus_id", p.pciBusID},
          {"pci_device_id", p.pciDeviceID},
          {"pci_domain_id", p.pciDomainID}};
}
std::string device_name(int device) { return cuda::properties(device).name; }
Bytes device_uuid(int device) {
  cuda::check_device(device);
  cudaDeviceProp p;
  cuda::check(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
  return {std::string(p.uuid.bytes, sizeof p.uuid.bytes)};
}
int runtime_version() {
  int v = 0;
  cuda::check(cudaRuntimeGetVersion(&v), "cudaRuntimeGetVersion");
  return v;
}
int driver_version() {
  int v = 0;
  cuda::check(cudaDriverGetVersion(&v), "cudaDriverGetVersion");
  return v;
}
std::string architectures() {
  std::string text;
  for (const std::string& name : cuda::architectures()) text += (text.empty() ? "" : " ") + name;
  return text;
}
bool is_emulated() {
#ifdef TESSERA_CUDA_EMULATED
  return true;
#else
  return false;
#endif
}

// --- streams ---

uint64_t current_stream(int device) {
  cuda::check_device(device);
  return handle_of(cuda::current_stream(device).handle);
}
void set_current_stream(int device, uint64_t handle) { cuda::set_current_stream(stream_of(device, handle)); }
uint64_t stream_from_pool(int device, int priority) {
  return handle_of(cuda::stream_from_pool(device, priority).handle);
}
int stream_priority(int device, uint64_t handle) { return cuda::stream_priority(stream_of(device, handle)); }
bool stream_query(int device, uint64_t handle) { return cuda::query(stream_of(device, handle)); }
void stream_synchronize(int device, uint64_t handle) { cuda::synchronize(stream_of(device, handle)); }
bool stream_is_capturing(int device, uint64_t handle) { return cuda::is_capturing(stream_of(device, handle)); }

// --- events ---

std::unique_ptr<PyEvent> new_event(bool timing, bool blocking, bool interprocess, bool external) {
  return std::make_unique<PyEvent>(cuda::Event({timing, blocking, interprocess, external}));
}
std::unique_ptr<PyEvent> event_from_handle(int device, Bytes bytes) {
  cuda::check_device(device);
  cudaIpcEventHandle_t handle;
  TESSERA_CHECK_VALUE(bytes.data.size() == sizeof handle, "the handle of an event has ", sizeof handle, " bytes, got ",
                      bytes.data.size());
  bytes.data.copy(reinterpret_cast<char*>(&handle), sizeof handle);
  return std::make_unique<PyEvent>(cuda::Event(device, handle));
}
Bytes event_ipc_handle(PyEvent* e, int device) {
  const cudaIpcEventHandle_t handle = e->event.ipc_handle(device);
  return {std::string(reinterpret_cast<const char*>(&handle), sizeof handle)};
}
void event_record(PyEvent* e, int device, uint64_t handle) { e->event.record(stream_of(device, handle)); }
void event_wait(PyEvent* e, int device, uint64_t handle) { e->event.wait(stream_of(device, handle)); }
bool event_query(PyEvent* e) { return e->event.query(); }
void event_synchronize(PyEvent* e) { e->event.synchronize(); }
double event_elapsed(PyEvent* e, PyEvent* end) { return e->event.elapsed_ms(end->event); }
uint64_t event_handle(PyEvent* e) { return handle_of(e->event.handle()); }
int event_device(PyEvent* e) { return e->event.device(); }

// --- waiting ---

int sync_debug_mode() { return static_cast<int>(cuda::sync_debug_mode()); }
void set_sync_debug_mode(int mode) {
  TESSERA_CHECK(mode >= 0 && mode <= 2, "invalid value of debug_mode, expected one of `default`, `warn`, `error`");
  cuda::set_sync_debug_mode(static_cast<cuda::SyncDebugMode>(mode));
}
void warn(const std::string& message) {
  GilAcquire gil;
  if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) < 0) throw ErrorAlreadySet();
}

// --- NVIDIA's libraries ---

void set_linalg_library(int library) { cuda::set_linalg_library(static_cast<cuda::LinalgLibrary>(library)); }
uint64_t blas_handle() { return handle_of(cuda::blas_handle()); }
void set_blas(bool tf32, bool fp16_reduced, bool bf16_reduced) {
  cuda::set_blas_settings({tf32, fp16_reduced, bf16_reduced});
}
int64_t dnn_version() {
  const cuda::Dnn* dnn = cuda::find_dnn();
  return dnn ? static_cast<int64_t>(dnn->get_version()) : -1;
}
void set_dnn(bool enabled, bool benchmark, bool deterministic, bool tf32, int benchmark_limit) {
  cuda::set_dnn_settings({enabled, benchmark, deterministic, tf32, benchmark_limit});
}

// --- functions of the runtime that cudart() offers; each gives the runtime's number ---

std::string error_string(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }
int host_register(uint64_t address, uint64_t size, unsigned flags) {
  return cudaHostRegister(reinterpret_cast<void*>(address), size, flags);
}
int host_unregister(uint64_t address) { return cudaHostUnregister(reinterpret_cast<void*>(address)); }
std::pair<int, uint64_t> stream_create() {
  cudaStream_t s = nullptr;
  const int code = cudaStreamCreateWithFlags(&s, cudaStreamDefault);
  return {code, handle_of(s)};
}
int stream_destroy(uint64_t handle) { return cudaStreamDestroy(reinterpret_cast<cudaStream_t>(handle)); }

}  // namespace

void add_cuda_devices(PyObject* module) {
  cuda::set_sync_warning(&warn);
  add_functions(module, {function<cuda::device_count>("device_count"),
                         function<cuda::selected_device>("current_device"),
                         function<cuda::select_device>("select_device"),
                         function<cuda::check_device>("check_device"),
                         function<cuda::synchronize_device>("synchronize_device"),
                         function<cuda::is_forked>("is_forked"),
                         function<cuda::has_been_used>("has_been_used"),
                         function<cuda::can_access_peer>("can_access_peer"),
                         function<properties>("properties"),
                         function<device_name>("device_name"),
                         function<device_uuid>("device_uuid"),
                         function<runtime_version>("runtime_version"),
                         function<driver_version>("driver_version"),
                         function<architectures>("architectures"),
                         function<is_emulated>("is_emulated"),
                         function<current_stream>("current_stream"),
                         function<set_current_stream>("set_current_stream"),
                         function<stream_from_pool>("stream_from_pool"),
                         function<cuda::stream_priority_range>("stream_priority_range"),
                         function<stream_priority>("stream_priority"),
                         function<stream_query>("stream_query"),
                         function<stream_synchronize>("stream_synchronize"),
                         function<stream_is_capturing>("stream_is_capturing"),
                         function<new_event>("new_event"),
                         function<event_from_handle>("event_from_handle"),
                         function<event_ipc_handle>("event_ipc_handle"),
                         function<event_record>("event_record"),
                         function<event_wait>("event_wait"),
                         function<event_query>("event_query"),
                         function<event_synchronize>("event_synchronize"),
                         function<event_elapsed>("event_elapsed"),
                         function<event_handle>("event_handle"),
                         function<event_device>("event_device"),
                         function<sync_debug_mode>("sync_debug_mode"),
                         function<set_sync_debug_mode>("set_sync_debug_mode"),
                         function<cuda::range_push>("range_push"),
                         function<cuda::range_pop>("range_pop"),
                         function<cuda::range_start>("range_start"),
                         function<cuda::range_end>("range_end"),
                         function<cuda::mark>("mark"),
                         function<blas_handle>("blas_handle"),
                         function<set_blas>("set_blas"),
                         function<set_linalg_library>("set_linalg_library"),
                         function<cuda::release_blas_workspaces>("release_blas_workspaces"),
                         function<dnn_version>("dnn_version"),
                         function<set_dnn>("set_dnn"),
                         function<cuda::fft_plan_count>("fft_plan_count"),
                         function<cuda::fft_plan_limit>("fft_plan_limit"),
                         function<cuda::set_fft_plan_limit>("set_fft_plan_limit"),
                         function<cuda::clear_fft_plans>("clear_fft_plans"),
                         function<error_string>("error_string"),
                         function<host_register>("host_register"),
                         function<host_unregister>("host_unregister"),
                         function<stream_create>("stream_create"),
                         function<stream_destroy>("stream_destroy")});
}

}  // namespace tessera::python
