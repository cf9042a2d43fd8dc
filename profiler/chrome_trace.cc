// The trace event format (Chrome's, which Perfetto reads as well).
#include <unistd.h>

#include <cinttypes>
#include <cstdio>

#include "profiler/session.h"

namespace tessera::profiler {
namespace {

class Writer {
 public:
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
    std::snprintf(t, sizeof t, "%" PRId64 ".%03d", ns / 1000, static_cast<int>(ns % 1000));
    text += t;
  }
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
  w.microseconds(ns);
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

// An arrow from the operator to the node that it made.
void write_link(Writer& w, const Recording& r, size_t i, const Place& from, const Place& to, int64_t id) {
  const Record& node = r.events[i];
  const Record& made_by = r.events[static_cast<size_t>(node.forward)];
  for (const bool begins : {true, false}) {
    open(w, begins ? "s" : "f", "fwdbwd", begins ? from : to, begins ? made_by.start_ns : node.start_ns);
    w.key("cat");
    w.string("fwdbwd");
    w.key("id");
    w.number(id);
    if (!begins) {
      w.key("bp");
      w.string("e");
    }
    w.text += '}';
  }
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

}  // namespace

std::string Recording::chrome_trace(std::span<const std::string> fields, bool call_stacks) const {
  Writer w;
  w.text = "{";
  w.key("schemaVersion");
  w.number(1);
  for (const std::string& f : fields) w.text += ",\n" + f;
  w.text += ",\n\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":0,\n\"traceEvents\":[";
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
    if (events[i].kind == Kind::kNode && events[i].forward >= 0)
      write_link(w, *this, i, place(events[static_cast<size_t>(events[i].forward)].thread), place(events[i].thread),
                 ++links);
  }
  for (const MemoryRecord& m : memory) write_memory(w, m, place(m.thread));
  w.text += "\n]}\n";
  return std::move(w.text);
}

}  // namespace tessera::profiler
