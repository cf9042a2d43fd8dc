#include "tensor/cuda/emulation/cupti.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "tensor/cuda/emulation/activity.h"

namespace tessera::cuda::emulation {
namespace {

using namespace cupti;

constexpr uint64_t kEpoch = 1'000'000'000'000'000;  // its clock is not the system's

constexpr const char* kFunctions[] = {
    "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020",       "cudaMemcpy2DAsync_v3020",     "cudaMemsetAsync_v3020",
    "cudaGraphLaunch_v10000", "cudaDeviceSynchronize_v3020", "cudaStreamSynchronize_v3020", "cudaMalloc_v3020"};

struct State {
  std::mutex mutex;
  GiveBuffer give = nullptr;
  TakeBuffer take = nullptr;
  std::set<RecordKind> enabled;
  uint8_t* buffer = nullptr;
  size_t bytes = 0, used = 0;
  uint32_t threads = 0;
};
State& state() {
  static State& s = *new State;
  return s;
}
thread_local std::vector<uint64_t> owners;

uint64_t on_clock(int64_t ns) { return static_cast<uint64_t>(ns) + kEpoch; }

// As NVIDIA's records are: of eight bytes' alignment, each kind of a size of its own.
size_t size_of(const Record* r) {
  switch (r->kind) {
    case RecordKind::kKernel:
      return 216;
    case RecordKind::kCopy:
    case RecordKind::kPeerCopy:
      return 96;
    case RecordKind::kSet:
      return 88;
    case RecordKind::kRuntime:
    case RecordKind::kDriver:
      return sizeof(CallRecord);
    case RecordKind::kOwner:
      return sizeof(OwnerRecord);
  }
  return 0;
}

void give_back(State& s) {
  if (s.buffer) s.take(nullptr, 0, s.buffer, s.bytes, s.used);
  s.buffer = nullptr;
  s.bytes = s.used = 0;
}
template <class R>
void add(const R& record) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto* r = reinterpret_cast<const Record*>(&record);
  if (!s.enabled.count(r->kind)) return;
  const size_t n = size_of(r);
  if (s.buffer && s.used + n > s.bytes) give_back(s);
  if (!s.buffer) {
    size_t most = 0;
    s.give(&s.buffer, &s.bytes, &most);
    if (!s.buffer) return;  // dropped
  }
  std::memset(s.buffer + s.used, 0xCD, n);
  std::memcpy(s.buffer + s.used, &record, sizeof record);
  s.used += n;
}

void on_begin(uint32_t correlation) {
  if (!owners.empty()) add(OwnerRecord{RecordKind::kOwner, kOwners, owners.back(), correlation, 0});
}
void on_call(const char* name, uint32_t correlation, int64_t start, int64_t end) {
  CallRecord r{};
  r.kind = RecordKind::kRuntime;
  for (uint32_t i = 0; i < std::size(kFunctions); ++i) {
    const std::string_view full = kFunctions[i];
    if (full.substr(0, full.rfind("_v")) == name) r.function = i + 1;
  }
  r.start = on_clock(start);
  r.end = on_clock(end);
  r.process = static_cast<uint32_t>(getpid());
  r.thread = state().threads == kSystemThreads ? static_cast<uint32_t>(syscall(SYS_gettid)) : 0;
  r.correlation = correlation;
  add(r);
}

template <class R>
R work_record(RecordKind kind, Where where, uint32_t correlation, int64_t start, int64_t end) {
  R r{};
  r.kind = kind;
  r.start = on_clock(start);
  r.end = on_clock(end);
  r.device = static_cast<uint32_t>(where.device);
  r.context = static_cast<uint32_t>(where.device) + 1;
  r.stream = where.stream + 7;  // as of NVIDIA's default one
  r.correlation = correlation;
  return r;
}
void on_kernel(const ActivityListener::Work& w, uint32_t correlation, int64_t start, int64_t end) {
  auto r = work_record<KernelRecord>(RecordKind::kKernel, w.where, correlation, start, end);
  const auto put = [](int32_t* to, dim3 d) {
    to[0] = static_cast<int32_t>(d.x);
    to[1] = static_cast<int32_t>(d.y);
    to[2] = static_cast<int32_t>(d.z);
  };
  put(r.grid, w.blocks);
  put(r.block, w.threads);
  r.registers = 32;
  r.dynamic_shared = static_cast<int32_t>(w.shared_bytes);
  r.name = w.name;
  add(r);
}
void on_work(const ActivityListener::Work& w, uint32_t correlation, int64_t start, int64_t end) {
  if (w.kind == WorkKind::kKernel) return on_kernel(w, correlation, start, end);
  if (w.kind == WorkKind::kSet) {
    auto r = work_record<SetRecord>(RecordKind::kSet, w.where, correlation, start, end);
    r.bytes = w.bytes;
    r.memory = static_cast<uint16_t>(MemoryKind::kDevice);
    return add(r);
  }
  const bool peers = w.from >= 0 && w.to >= 0 && w.from != w.to;
  auto r = work_record<CopyRecord>(peers ? RecordKind::kPeerCopy : RecordKind::kCopy, w.where, correlation, start, end);
  r.bytes = w.bytes;
  r.from = w.from >= 0 ? MemoryKind::kDevice : MemoryKind::kPageable;
  r.to = w.to >= 0 ? MemoryKind::kDevice : MemoryKind::kPageable;
  r.copy = peers        ? CopyKind::kBetweenDevices
           : w.from < 0 ? (w.to < 0 ? CopyKind::kOnHost : CopyKind::kToDevice)
           : w.to < 0   ? CopyKind::kToHost
                        : CopyKind::kOnDevice;
  if (!peers) return add(r);
  r.correlation = static_cast<uint32_t>(w.from);
  add(PeerCopyRecord{r, 1, static_cast<uint32_t>(w.to), 1, correlation});
}

constexpr ActivityListener kListener = {on_begin, on_call, on_work};

Status set_buffers(GiveBuffer give, TakeBuffer take) {
  state().give = give;
  state().take = take;
  return Status::kSuccess;
}
Status enable(RecordKind kind) {
  if (const char* wish = std::getenv("TESSERA_EMULATED_CUPTI"); wish && std::string_view(wish) == "refused")
    return Status::kNoPrivileges;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.enabled.insert(kind);
  activity_listener = &kListener;
  return Status::kSuccess;
}
Status disable(RecordKind kind) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.enabled.erase(kind);
  if (s.enabled.empty()) activity_listener = nullptr;
  return Status::kSuccess;
}
Status flush(uint32_t) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  give_back(s);
  return Status::kSuccess;
}
Status next_record(uint8_t* buffer, size_t valid_bytes, Record** record) {
  auto* next = reinterpret_cast<uint8_t*>(*record);
  next = next ? next + size_of(*record) : buffer;
  if (next >= buffer + valid_bytes) return Status::kNoMoreRecords;
  *record = reinterpret_cast<Record*>(next);
  return Status::kSuccess;
}
Status push(uint32_t, uint64_t owner) {
  owners.push_back(owner);
  return Status::kSuccess;
}
Status pop(uint32_t, uint64_t* owner) {
  if (owners.empty()) return Status::kNoMoreRecords;
  *owner = owners.back();
  owners.pop_back();
  return Status::kSuccess;
}
Status read_clock(uint64_t* ns) {
  *ns = on_clock(activity_now());
  return Status::kSuccess;
}
Status set_threads(uint32_t type) {
  state().threads = type;
  return Status::kSuccess;
}
Status function_name(Domain domain, uint32_t function, const char** name) {
  if (domain != Domain::kRuntime || function == 0 || function > std::size(kFunctions)) return Status::kNotInitialized;
  *name = kFunctions[function - 1];
  return Status::kSuccess;
}
Status text_of(Status status, const char** text) {
  *text = status == Status::kNoPrivileges ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_UNKNOWN";
  return Status::kSuccess;
}

}  // namespace

Library<Functions> cupti_library() {
  if (const char* wish = std::getenv("TESSERA_EMULATED_CUPTI"); wish && std::string_view(wish) == "none")
    return {{}, false, "libcupti.so.13: cannot open shared object file: No such file or directory"};
  return {
      {set_buffers, enable, disable, flush, next_record, push, pop, read_clock, set_threads, function_name, text_of},
      true,
      {}};
}

}  // namespace tessera::cuda::emulation
