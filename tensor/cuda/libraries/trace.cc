#include "tensor/cuda/libraries/trace.h"

#include <cuda_runtime_api.h>
#include <cxxabi.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tensor/cuda/libraries/cupti.h"
#include "tensor/cuda/runtime/allocator.h"
#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {
namespace {

using namespace cupti;
using Kind = DeviceActivity::Kind;

constexpr size_t kBufferBytes = 4 << 20;
constexpr RecordKind kKinds[] = {RecordKind::kKernel,  RecordKind::kCopy,   RecordKind::kPeerCopy, RecordKind::kSet,
                                 RecordKind::kRuntime, RecordKind::kDriver, RecordKind::kOwner};

// One reading of both clocks.
struct Clocks {
  uint64_t cupti = 0;
  int64_t monotonic = 0;
};

struct Noted {
  DeviceActivity activity;
  std::string name;
  bool by_driver = false;  // of calls
};

// Buffers come back on threads of CUPTI's.
struct Trace {
  std::mutex mutex;
  std::vector<Noted> all;
  std::unordered_map<uint32_t, uint64_t> owners;  // by correlation
  Clocks start;
};
Trace& trace() {
  static Trace& t = *new Trace;
  return t;
}

int64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}
// Of several readings that whose two of the system's clock lie closest together.
Clocks read_clocks(const Functions& f) {
  Clocks best;
  int64_t width = -1;
  for (int i = 0; i < 5; ++i) {
    uint64_t there = 0;
    const int64_t before = monotonic_ns();
    f.now(&there);
    const int64_t after = monotonic_ns();
    if (width >= 0 && after - before >= width) continue;
    width = after - before;
    best = {there, before + width / 2};
  }
  return best;
}

std::string readable(const char* mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string name = status == 0 && text ? text : mangled;
  std::free(text);
  return name;
}

const char* memory_name(MemoryKind kind) {
  constexpr const char* kNames[] = {"Unknown", "Pageable", "Pinned", "Device", "Array", "Managed"};
  const auto i = static_cast<size_t>(kind);
  return i < std::size(kNames) ? kNames[i] : kNames[0];
}
std::string copy_name(const CopyRecord& r) {
  const char* direction = "";
  switch (r.copy) {
    case CopyKind::kToDevice:
      direction = "HtoD ";
      break;
    case CopyKind::kToHost:
      direction = "DtoH ";
      break;
    case CopyKind::kOnDevice:
      direction = "DtoD ";
      break;
    case CopyKind::kOnHost:
      direction = "HtoH ";
      break;
    case CopyKind::kBetweenDevices:
      direction = "PtoP ";
      break;
  }
  return std::string("Memcpy ") + direction + "(" + memory_name(r.from) + " -> " + memory_name(r.to) + ")";
}

// Times stay CUPTI's until stop() knows the scale.
template <class R>
Noted work(Kind kind, const R& r, uint32_t correlation, std::string name) {
  Noted n;
  DeviceActivity& a = n.activity;
  a.kind = kind;
  a.device = static_cast<int32_t>(r.device);
  a.context = static_cast<int32_t>(r.context);
  a.place = r.stream;
  a.correlation = correlation;
  a.start_ns = static_cast<int64_t>(r.start);
  a.end_ns = static_cast<int64_t>(r.end);
  n.name = std::move(name);
  return n;
}

Noted kernel(const KernelRecord& r) {
  Noted n = work(Kind::kKernel, r, r.correlation, readable(r.name ? r.name : "kernel"));
  for (int i = 0; i < 3; ++i) {
    n.activity.grid[i] = static_cast<uint32_t>(r.grid[i]);
    n.activity.block[i] = static_cast<uint32_t>(r.block[i]);
  }
  n.activity.registers = r.registers;
  n.activity.shared_bytes = int64_t{r.static_shared} + r.dynamic_shared;
  return n;
}

Noted copy(const CopyRecord& r, uint32_t correlation) {
  Noted n = work(Kind::kCopy, r, correlation, copy_name(r));
  n.activity.bytes = static_cast<int64_t>(r.bytes);
  return n;
}

Noted set(const SetRecord& r) {
  Noted n = work(Kind::kSet, r, r.correlation,
                 std::string("Memset (") + memory_name(static_cast<MemoryKind>(r.memory)) + ")");
  n.activity.bytes = static_cast<int64_t>(r.bytes);
  return n;
}

// "cudaLaunchKernel" of "cudaLaunchKernel_v7000".
std::string function_name(const Functions& f, Domain domain, uint32_t function) {
  const char* name = nullptr;
  if (f.function_name(domain, function, &name) != Status::kSuccess || !name) return "a call of the runtime";
  std::string_view text = name;
  if (const size_t at = text.rfind("_v"); at != text.npos && text.find_first_not_of("0123456789", at + 2) == text.npos)
    text = text.substr(0, at);
  return std::string(text);
}

Noted call(const Functions& f, const CallRecord& r) {
  Noted n;
  const bool by_driver = r.kind == RecordKind::kDriver;
  n.activity.kind = Kind::kCall;
  n.activity.place = r.thread;
  n.activity.correlation = r.correlation;
  n.activity.start_ns = static_cast<int64_t>(r.start);
  n.activity.end_ns = static_cast<int64_t>(r.end);
  n.by_driver = by_driver;
  n.name = function_name(f, by_driver ? Domain::kDriver : Domain::kRuntime, r.function);
  return n;
}

void note(const Functions& f, Trace& t, const Record* r) {
  switch (r->kind) {
    case RecordKind::kKernel:
      t.all.push_back(kernel(*reinterpret_cast<const KernelRecord*>(r)));
      break;
    case RecordKind::kCopy: {
      const auto& c = *reinterpret_cast<const CopyRecord*>(r);
      t.all.push_back(copy(c, c.correlation));
      break;
    }
    case RecordKind::kPeerCopy: {
      const auto& c = *reinterpret_cast<const PeerCopyRecord*>(r);
      t.all.push_back(copy(c.first, c.correlation));
      break;
    }
    case RecordKind::kSet:
      t.all.push_back(set(*reinterpret_cast<const SetRecord*>(r)));
      break;
    case RecordKind::kRuntime:
    case RecordKind::kDriver:
      t.all.push_back(call(f, *reinterpret_cast<const CallRecord*>(r)));
      break;
    case RecordKind::kOwner: {
      const auto& o = *reinterpret_cast<const OwnerRecord*>(r);
      if (o.owners == kOwners) t.owners[o.correlation] = o.owner;
      break;
    }
  }
}

void give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0;
  *most_records = 0;  // as many as have room
}
void take_buffer(void*, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  if (const Functions* f = functions(nullptr)) {
    Trace& t = trace();
    const std::lock_guard lock(t.mutex);
    Record* r = nullptr;
    while (valid_bytes && f->next_record(buffer, valid_bytes, &r) == Status::kSuccess) note(*f, t, r);
  }
  std::free(buffer);
}

const char* kept_forever(std::string text) { return (new std::string(std::move(text)))->c_str(); }

// Why a call failed, with what helps.
const char* failure(const Functions& f, const char* what, Status status) {
  const char* text = nullptr;
  f.text_of(status, &text);
  std::string why = std::string("CUPTI answered ") + (text ? text : "with an error") + " to " + what;
  if (status == Status::kNoPrivileges)
    why += "; the driver lets administrators alone trace devices (NVreg_RestrictProfilingToAdminUsers)";
  return kept_forever(std::move(why));
}

void disable_all(const Functions& f) {
  for (const RecordKind kind : kKinds) f.disable(kind);
}

const char* start() {
  static const char* const missing = [] {
    const char* why = nullptr;
    return functions(&why) ? nullptr
                           : kept_forever(std::string("CUPTI, which traces CUDA devices, cannot be loaded: ") + why +
                                          ". It is in CUDA's toolkit and in the pip package nvidia-cuda-cupti");
  }();
  if (missing) return missing;
  const Functions& f = *functions(nullptr);
  static const Status ready = [&] {
    f.set_threads(kSystemThreads);
    return f.set_buffers(give_buffer, take_buffer);
  }();
  if (ready != Status::kSuccess) return failure(f, "being handed buffers", ready);
  for (const RecordKind kind : kKinds) {
    const Status status = f.enable(kind);
    if (status == Status::kSuccess) continue;
    disable_all(f);
    return failure(f, "the start of tracing", status);
  }
  f.flush(kForced);  // what came before
  Trace& t = trace();
  const std::lock_guard lock(t.mutex);
  t.all.clear();
  t.owners.clear();
  t.start = read_clocks(f);
  return nullptr;
}

void push(uint64_t owner) { functions(nullptr)->push(kOwners, owner); }
void pop() {
  uint64_t last;
  functions(nullptr)->pop(kOwners, &last);
}

// Calls that wait, take memory or begin work; those that only ask are of no interest.
bool shows(const Noted& n, const std::unordered_set<uint32_t>& began) {
  if (n.activity.kind != Kind::kCall || began.count(n.activity.correlation)) return true;
  if (n.by_driver) return false;
  for (const char* part : {"Synchronize", "Malloc", "Free", "HostAlloc", "Memcpy", "Memset", "Launch"})
    if (n.name.find(part) != std::string::npos) return true;
  return false;
}

// Only these can have work: a device that nobody used is not to be woken.
bool holds_memory(int device) {
  for (const auto& [key, value] : memory_stats(device))
    if (key == "reserved_bytes.all.current") return value > 0;
  return false;
}
void wait_for_devices() {
  for (int device = 0; device < device_count(); ++device) {
    if (device != op_device() && !holds_memory(device)) continue;
    const OpDevice on(device);
    cudaDeviceSynchronize();
    cudaGetLastError();  // the operators' to raise
  }
}

void stop(int64_t monotonic, int64_t wall, void (*take)(void* to, const DeviceActivity& activity), void* to) {
  const Functions& f = *functions(nullptr);
  f.disable(RecordKind::kRuntime);  // the calls that follow are ours
  f.disable(RecordKind::kDriver);
  wait_for_devices();
  disable_all(f);
  f.flush(kForced);
  Trace& t = trace();
  const std::lock_guard lock(t.mutex);
  const Clocks end = read_clocks(f);
  const double ticks = static_cast<double>(static_cast<int64_t>(end.cupti - t.start.cupti));
  const double rate = ticks > 0 ? static_cast<double>(end.monotonic - t.start.monotonic) / ticks : 1.0;
  const auto wall_ns = [&](int64_t time) {
    const auto since = static_cast<double>(time - static_cast<int64_t>(t.start.cupti)) * rate;
    return wall + (t.start.monotonic - monotonic) + static_cast<int64_t>(since);
  };
  std::unordered_set<uint32_t> began, runtime;
  for (const Noted& n : t.all) {
    if (n.activity.kind != Kind::kCall)
      began.insert(n.activity.correlation);
    else if (!n.by_driver)
      runtime.insert(n.activity.correlation);
  }
  for (Noted& n : t.all) {
    DeviceActivity& a = n.activity;
    const bool twice = n.by_driver && runtime.count(a.correlation);
    if (twice || !shows(n, began) || a.start_ns == 0) continue;
    a.name = n.name.c_str();
    a.start_ns = wall_ns(a.start_ns);
    a.end_ns = std::max(a.start_ns, wall_ns(a.end_ns));
    const auto owner = t.owners.find(a.correlation);
    a.owner = owner == t.owners.end() ? 0 : owner->second;
    take(to, a);
  }
  t.all.clear();
  t.owners.clear();
}

constexpr DeviceTracer kTracer = {start, push, pop, stop};

}  // namespace

const DeviceTracer& tracer() { return kTracer; }

}  // namespace tessera::cuda
