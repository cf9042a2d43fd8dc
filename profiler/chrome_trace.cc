// The trace event format (Chrome's, which Perfetto reads as well).
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "profiler/session.h"

namespace tessera::profiler {
namespace {

class Writer {
 public:
  explicit Writer(int64_t base_ns) : base_(base_ns) {}
  std::string text;

  void string(std::string_view s) {
    text += '"';
    for (const char c : s) {
      const auto u = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text += '\\';
        text += c;
      } else if (u < 0x20) {
        char code[8];
        std::snprintf(code, sizeof code, "\\u%04x", u);
        text += code;
      } else {
        text += c;
      }
    }
    text += '"';
  }
  void number(int64_t n) { text += std::to_string(n); }
  void microseconds(int64_t ns) {
    char t[40];
    std::snprintf(t, sizeof t, "%s%" PRId64 ".%03d", ns < 0 ? "-" : "", std::abs(ns) / 1000,
                  static_cast<int>(std::abs(ns) % 1000));
    text += t;
  }
  // After the trace's base: a reader's double keeps the nanoseconds of that, not of a time since 1970.
  void time(int64_t ns) { microseconds(ns - base_); }
  void key(std::string_view name) {
    const char last = text.empty() ? '{' : text.back();
    if (last != '{') text += ',';
    string(name);
    text += ':';
  }
  void numbers(const std::vector<int64_t>& list) {
    text += '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) text += ',';
      number(list[i]);
    }
    text += ']';
  }
  // One member of every argument: f writes it.
  template <class F>
  void of_inputs(std::string_view name, const std::vector<Input>& inputs, F f) {
    key(name);
    text += '[';
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i) text += ',';
      f(inputs[i]);
    }
    text += ']';
  }

 private:
  int64_t base_;
};

const char* category(Kind kind) {
  switch (kind) {
    case Kind::kAnnotation:
      return "user_annotation";
    case Kind::kModule:
    case Kind::kFrame:
      return "python_function";
    default:
      return "cpu_op";
  }
}

std::string concrete(const Input& in) {
  switch (in.tag) {
    case Input::Tag::kBool:
      return in.ints[0] ? "True" : "False";
    case Input::Tag::kInt:
      return std::to_string(in.ints[0]);
    case Input::Tag::kDouble: {
      char t[40];
      std::snprintf(t, sizeof t, "%.17g", in.number);
      return t;
    }
    case Input::Tag::kIntList: {
      std::string t = "[";
      for (size_t i = 0; i < in.ints.size(); ++i) t += (i ? ", " : "") + std::to_string(in.ints[i]);
      return t + "]";
    }
    default:
      return "";
  }
}

void write_inputs(Writer& w, const std::vector<Input>& inputs) {
  const auto dims = [&](const Input& in, std::vector<int64_t> Input::Dims::*member) {
    if (in.tag == Input::Tag::kTensorList) {
      w.text += '[';
      for (size_t i = 0; i < in.tensors.size(); ++i) {
        if (i) w.text += ',';
        w.numbers(in.tensors[i].*member);
      }
      w.text += ']';
    } else {
      w.numbers(in.tensors.empty() ? std::vector<int64_t>() : in.tensors[0].*member);
    }
  };
  w.of_inputs("Input Dims", inputs, [&](const Input& in) { dims(in, &Input::Dims::sizes); });
  w.of_inputs("Input Strides", inputs, [&](const Input& in) { dims(in, &Input::Dims::strides); });
  w.of_inputs("Input type", inputs, [&](const Input& in) { w.string(input_type(in)); });
  w.of_inputs("Concrete Inputs", inputs, [&](const Input& in) { w.string(concrete(in)); });
}

struct Place {
  int64_t process, thread;
};

void open(Writer& w, const char* phase, std::string_view name, const Place& at, int64_t ns) {
  if (w.text.back() != '[') w.text += ",\n";
  w.text += '{';
  w.key("ph");
  w.string(phase);
  w.key("name");
  w.string(name);
  w.key("pid");
  w.number(at.process);
  w.key("tid");
  w.number(at.thread);
  w.key("ts");
  w.time(ns);
}

std::string frames_around(const Recording& r, const Record& e) {
  std::string text;
  for (int32_t p = e.parent; p >= 0; p = r.events[static_cast<size_t>(p)].parent) {
    const Record& around = r.events[static_cast<size_t>(p)];
    if (around.kind == Kind::kFrame) text.insert(0, std::string(around.name) + (text.empty() ? "" : ";\n"));
  }
  return text;
}

void write_event(Writer& w, const Recording& r, size_t i, const Place& at, bool call_stacks) {
  const Record& e = r.events[i];
  open(w, "X", e.name, at, e.start_ns);
  w.key("dur");
  w.microseconds(e.duration_ns());
  w.key("cat");
  w.string(category(e.kind));
  w.key("args");
  w.text += '{';
  w.key("External id");
  w.number(static_cast<int64_t>(i) + 1);
  if (!e.overload.empty()) {
    w.key("Overload");
    w.string(e.overload);
  }
  if (e.sequence >= 0) {
    w.key("Sequence number");
    w.number(e.sequence);
  }
  if (e.forward >= 0) {
    w.key("Fwd thread id");
    w.number(r.threads[static_cast<size_t>(r.events[static_cast<size_t>(e.forward)].thread)].system_id);
  }
  if (!e.finished) {
    w.key("finished");
    w.text += "false";
  }
  if (!e.inputs.empty()) write_inputs(w, e.inputs);
  if (call_stacks && e.kind != Kind::kFrame) {
    w.key("Call stack");
    w.string(frames_around(r, e));
  }
  w.key("Ev Idx");
  w.number(static_cast<int64_t>(i));
  w.text += "}}";
}

struct End {
  Place at;
  int64_t ns;
};
// An arrow: from an operator to the node that it made, from a call to the device's work.
void write_arrow(Writer& w, const char* what, const End& from, const End& to, int64_t id) {
  for (const bool begins : {true, false}) {
    open(w, begins ? "s" : "f", what, begins ? from.at : to.at, begins ? from.ns : to.ns);
    w.key("cat");
    w.string(what);
    w.key("id");
    w.number(id);
    if (!begins) {
      w.key("bp");
      w.string("e");
    }
    w.text += '}';
  }
}

const char* category(DeviceActivity::Kind kind) {
  switch (kind) {
    case DeviceActivity::Kind::kKernel:
      return "kernel";
    case DeviceActivity::Kind::kCopy:
      return "gpu_memcpy";
    case DeviceActivity::Kind::kSet:
      return "gpu_memset";
    case DeviceActivity::Kind::kCall:
      return "cuda_runtime";
  }
  return "";
}

void write_work(Writer& w, const DeviceRecord& d) {
  w.key("device");
  w.number(d.device);
  w.key("context");
  w.number(d.context);
  w.key("stream");
  w.number(d.place);
  if (d.kind == DeviceActivity::Kind::kKernel) {
    w.key("registers per thread");
    w.number(d.registers);
    w.key("shared memory");
    w.number(d.shared_bytes);
    w.key("grid");
    w.numbers({d.grid[0], d.grid[1], d.grid[2]});
    w.key("block");
    w.numbers({d.block[0], d.block[1], d.block[2]});
    return;
  }
  w.key("bytes");
  w.number(d.bytes);
  char rate[40];  // bytes in a nanosecond are gigabytes in a second
  std::snprintf(rate, sizeof rate, "%.6g",
                static_cast<double>(d.bytes) / static_cast<double>(std::max<int64_t>(d.duration_ns(), 1)));
  w.key("memory bandwidth (GB/s)");
  w.text += rate;
}

void write_device(Writer& w, const DeviceRecord& d, const Place& at) {
  open(w, "X", d.name, at, d.start_ns);
  w.key("dur");
  w.microseconds(d.duration_ns());
  w.key("cat");
  w.string(category(d.kind));
  w.key("args");
  w.text += '{';
  if (d.event >= 0) {
    w.key("External id");
    w.number(d.event + 1);
  }
  w.key("correlation");
  w.number(d.correlation);
  if (d.kind != DeviceActivity::Kind::kCall) write_work(w, d);
  w.text += "}}";
}

void write_memory(Writer& w, const MemoryRecord& m, const Place& at) {
  open(w, "i", "[memory]", at, m.time_ns);
  w.key("s");
  w.string("t");
  w.key("cat");
  w.string("cpu_instant_event");
  w.key("args");
  w.text += '{';
  w.key("Total Reserved");
  w.number(0);
  w.key("Total Allocated");
  w.number(m.total);
  w.key("Bytes");
  w.number(m.bytes);
  w.key("Addr");
  w.text += std::to_string(m.address);
  w.key("Device Type");
  w.number(0);
  w.key("Device Id");
  w.number(-1);
  w.text += "}}";
}

void write_label(Writer& w, const char* what, const char* member, std::string_view value, const Place& at, int64_t ns) {
  open(w, "M", what, at, ns);
  w.key("args");
  w.text += '{';
  w.key(member);
  w.string(value);
  w.text += "}}";
}

// A row for each stream, labels in front, arrows from the calls.
void write_devices(Writer& w, const Recording& r, int64_t process) {
  const auto place = [&](const DeviceRecord& d) {
    return d.kind == DeviceActivity::Kind::kCall ? Place{process, d.place} : Place{d.device, d.place};
  };
  std::map<int32_t, std::set<int64_t>> streams;
  std::map<uint32_t, const DeviceRecord*> calls;
  for (const DeviceRecord& d : r.device) {
    if (d.kind == DeviceActivity::Kind::kCall)
      calls[d.correlation] = &d;
    else
      streams[d.device].insert(d.place);
  }
  for (const auto& [device, of_device] : streams) {
    const std::string label = "GPU " + std::to_string(device);
    write_label(w, "process_name", "name", "python", {device, 0}, r.start_ns);
    write_label(w, "process_labels", "labels", label, {device, 0}, r.start_ns);
    for (const int64_t stream : of_device)
      write_label(w, "thread_name", "name", "stream " + std::to_string(stream), {device, stream}, r.start_ns);
  }
  for (const DeviceRecord& d : r.device) {
    write_device(w, d, place(d));
    if (d.kind == DeviceActivity::Kind::kCall) continue;
    if (const auto call = calls.find(d.correlation); call != calls.end())
      write_arrow(w, "ac2g", {place(*call->second), call->second->start_ns}, {place(d), d.start_ns}, d.correlation);
  }
}

}  // namespace

std::string Recording::chrome_trace(std::span<const std::string> fields, bool call_stacks) const {
  Writer w(start_ns);
  w.text = "{";
  w.key("schemaVersion");
  w.number(1);
  for (const std::string& f : fields) w.text += ",\n" + f;
  w.text +=
      ",\n\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":" + std::to_string(start_ns) + ",\n\"traceEvents\":[";
  const int64_t process = getpid();
  const auto place = [&](int32_t thread) { return Place{process, threads[static_cast<size_t>(thread)].system_id}; };
  write_label(w, "process_name", "name", "python", {process, 0}, start_ns);
  write_label(w, "process_labels", "labels", "CPU", {process, 0}, start_ns);
  for (const ThreadRecord& t : threads)
    write_label(w, "thread_name", "name", "thread " + std::to_string(t.system_id) + " (" + t.name + ")",
                {process, t.system_id}, start_ns);
  int64_t links = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    write_event(w, *this, i, place(events[i].thread), call_stacks);
    if (events[i].kind != Kind::kNode || events[i].forward < 0) continue;
    const Record& made_by = events[static_cast<size_t>(events[i].forward)];
    write_arrow(w, "fwdbwd", {place(made_by.thread), made_by.start_ns}, {place(events[i].thread), events[i].start_ns},
                ++links);
  }
  write_devices(w, *this, process);
  for (const MemoryRecord& m : memory) write_memory(w, m, place(m.thread));
  w.text += "\n]}\n";
  return std::move(w.text);
}

}  // namespace tessera::profiler
