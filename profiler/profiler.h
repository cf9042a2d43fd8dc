// Records what a program does: operators with their arguments, nodes of backward, annotations, memory.
//
//   profiler::Profile profile({.shapes = true});
//   train();
//   const profiler::Recording r = profile.stop();
//   std::cout << r.table();
//
// While nobody records, an operator pays nothing: recording is a fallback of the dispatch key Profiler, which a thread
// includes for that time. Operators of a program without the registry (OpInfo) are not seen.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/log.h"
#include "tensor/core/rare/device_tracer.h"
#include "tensor/dispatch/registry.h"

namespace tessera::profiler {

struct Options {
  bool operators = true;  // false: annotations alone
  bool shapes = false;    // sizes, strides and dtypes of arguments, and the numbers among them
  bool memory = false;    // CPU memory that tensors take and give back
  bool modules = false;   // calls of nn.Module, which the binding reports
  // What CUDA devices do; a warning says why where that cannot be.
  bool devices = false;
  // Operators tell the device's tracer of themselves. False: work is given to operators by the time at which it was
  // asked for alone, which costs them less.
  bool owners = true;
  // Other threads than the one that starts are recorded, too: for the operators in this list.
  bool all_threads = false;
  OpInfoList operators_of_all_threads = {};
};

struct Record {
  std::string_view name;
  std::string_view overload;  // of operators
  Kind kind = Kind::kOperator;
  int32_t thread = 0;  // index into Recording::threads
  int32_t parent = -1;
  int64_t start_ns = 0, end_ns = 0;  // since 1970
  int64_t sequence = -1;             // links an operator to the node that it made
  int32_t forward = -1;              // of a node: the operator that made it, if it was recorded
  bool finished = true;              // false: it was still open when the recording ended
  const void* subject = nullptr;     // of frames
  std::vector<Input> inputs;
  int64_t memory = 0, self_memory = 0;  // bytes taken less bytes given back, with and without the events inside

  int64_t duration_ns() const { return end_ns - start_ns; }
};
struct MemoryRecord {
  int64_t time_ns, bytes, total;  // total: of all CPU tensors, after it
  uint64_t address;
  int32_t event;  // -1: in none
  int32_t thread;
};
// Work of a device, or the call of its runtime that asked for it.
struct DeviceRecord : DeviceActivity {
  int32_t event = -1;   // that asked for it, -1: none
  int32_t thread = -1;  // of calls; -1: one that was not recorded
  int64_t duration_ns() const { return end_ns - start_ns; }
};
struct ThreadRecord {
  int64_t system_id;
  std::string name;
};
struct Average {
  std::string_view name;
  int64_t count = 0, total_ns = 0, self_ns = 0, memory = 0, self_memory = 0;
  int64_t device_ns = 0, self_device_ns = 0;
};

class Recording {
 public:
  std::vector<ThreadRecord> threads;
  std::vector<Record> events;  // in the order of their beginnings, each after its parent
  std::vector<MemoryRecord> memory;
  std::vector<DeviceRecord> device;  // in the order of their beginnings
  int64_t start_ns = 0, end_ns = 0;

  // By name, the one with the most time of its own first. Time of an event inside of one of the same name counts once.
  std::vector<Average> averages() const;
  std::string table(size_t rows = 100) const;
  // The file that Perfetto and chrome://tracing read. `fields`: further members of the top level, as "\"key\": value".
  // call_stacks: events tell the frames around them, too.
  std::string chrome_trace(std::span<const std::string> fields = {}, bool call_stacks = false) const;

  std::shared_ptr<const void> texts;  // keeps what names point to
};

class Session;
// What was recorded, not yet worked out: that takes time, and may be left to when somebody asks.
class Capture {
 public:
  explicit Capture(std::shared_ptr<Session> s) : session_(std::move(s)) {}
  Recording resolve() const;

 private:
  std::shared_ptr<Session> session_;
};

bool is_recording();  // on this thread
// Recording begins on this thread; Error if it has begun already, here or on another one.
void start(const Options& options);
// Recording goes on, or pauses, in the session that has begun. Error if there is none.
void set_enabled(bool on);
// Error if nothing was started.
Capture stop();

class Profile {
 public:
  explicit Profile(const Options& options = {}) { start(options); }
  ~Profile() {
    if (running_) profiler::stop();
  }
  Recording stop() {
    running_ = false;
    return profiler::stop().resolve();
  }
  Profile(const Profile&) = delete;

 private:
  bool running_ = true;
};

// An event around a block. Free of cost but for one load while nobody records.
class RecordFunction {
 public:
  explicit RecordFunction(std::string_view name, Kind kind = Kind::kAnnotation);
  ~RecordFunction() { end(); }
  void end();
  RecordFunction(RecordFunction&& o) noexcept
      : log_(std::move(o.log_)), event_(std::exchange(o.event_, nullptr)), emitted_(std::exchange(o.emitted_, false)) {}
  RecordFunction& operator=(RecordFunction&&) = delete;
  bool active() const { return event_ || emitted_; }  // somebody records it

 private:
  std::shared_ptr<Log> log_;
  Event* event_ = nullptr;
  bool emitted_ = false;
};

// The log of this thread, or null if it is not being recorded. For the binding, which reports frames of Python.
Log* this_log();

// Ranges for other profilers (NVTX, ITT): operators, nodes and annotations of this thread push and pop them.
struct Emitter {
  void (*push)(const char* name);
  void (*pop)();
  bool shapes;  // names tell sizes
};
// One at a time on a thread: Error if there is one. Null takes it away.
void set_emitter(const Emitter* emitter);

}  // namespace tessera::profiler
