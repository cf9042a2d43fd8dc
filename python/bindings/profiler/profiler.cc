#include "python/bindings/profiler/profiler.h"

#include <optional>
#include <unordered_map>

#include "python/bindings/calls.h"
#include "tensor/core/memory/observer.h"

namespace tessera {
OpInfoList all_registered_ops();
}

namespace tessera::python {

constinit std::atomic<bool> g_modules_are_recorded{false};

namespace {

namespace prof = profiler;

// What stop() gives: worked out when somebody asks.
struct Captured {
  prof::Capture capture;
  std::shared_ptr<Frames> frames;
  std::optional<prof::Recording> recording;

  prof::Recording& resolve(PyObject* namer) {
    if (recording) return *recording;
    prof::Recording r = capture.resolve();
    for (prof::Record& e : r.events)
      if (e.kind == prof::Kind::kFrame && frames) e.name = frame_name(*frames, e.subject, namer);
    recording = std::move(r);
    return *recording;
  }
};
constexpr char kCaptured[] = "tessera._C._profiler.Capture", kOpen[] = "tessera._C._profiler.Open";

template <class T, const char* name>
void destroy(PyObject* capsule) {
  delete static_cast<T*>(PyCapsule_GetPointer(capsule, name));
}
template <class T, const char* name>
PyObject* capsule_of(std::unique_ptr<T> object) {
  PyObject* capsule = check(PyCapsule_New(object.get(), name, destroy<T, name>));
  object.release();
  return capsule;
}
template <class T, const char* name>
T& object_in(PyObject* capsule) {
  auto* object = static_cast<T*>(PyCapsule_GetPointer(capsule, name));
  if (!object) throw ErrorAlreadySet();
  return *object;
}

// Numbers of modules in the order of their first calls, by class; the modules stay alive until the recording ends.
struct Modules {
  std::unordered_map<PyObject*, std::string> names;
  std::unordered_map<std::string, int> counts;
  std::vector<Ref> kept;
};
Modules* g_modules = nullptr;  // under the interpreter's lock

void forget_modules() {
  g_modules_are_recorded.store(false);
  delete std::exchange(g_modules, nullptr);
}

// start(shapes, memory, modules, operators, all_threads, devices, owners, hidden_files or None)
PyObject* py_start(PyObject*, CallArgs call) {
  PyObject* a[8];
  read_args(
      {"start", {"shapes", "memory", "modules", "operators", "all_threads", "devices", "owners", "hidden_files"}, 8, 8},
      call, a);
  prof::Options o;
  bool* const flags[] = {&o.shapes, &o.memory, &o.modules, &o.operators, &o.all_threads, &o.devices, &o.owners};
  for (int i = 0; i < 7; ++i) {
    const int truth = PyObject_IsTrue(a[i]);
    check(truth);
    *flags[i] = truth;
  }
  if (o.all_threads) o.operators_of_all_threads = all_registered_ops();
  prof::start(o);
  forget_modules();
  if (o.modules) {
    g_modules = new Modules;
    g_modules_are_recorded.store(true);
  }
  if (a[7] != Py_None) record_frames(a[7]);
  return none();
}

PyObject* py_stop(PyObject*, PyObject*) {
  return guarded([&] {
    std::shared_ptr<Frames> frames = end_frames();
    forget_modules();
    std::optional<prof::Capture> capture;
    {
      GilRelease unlocked;  // devices may have to be waited for
      capture = prof::stop();
    }
    return capsule_of<Captured, kCaptured>(std::make_unique<Captured>(Captured{*capture, std::move(frames), {}}));
  });
}

PyObject* py_set_enabled(PyObject*, PyObject* on) {
  return guarded([&] {
    const int truth = PyObject_IsTrue(on);
    check(truth);
    prof::set_enabled(truth);
    return none();
  });
}
PyObject* py_is_recording(PyObject*, PyObject*) { return to_python(prof::is_recording()); }

// begin(name[, args]): what end() takes; None while nobody records.
PyObject* py_begin(PyObject*, PyObject* name) {
  return guarded([&] {
    Py_ssize_t n = 0;
    const char* text = PyUnicode_AsUTF8AndSize(name, &n);
    if (!text) throw ErrorAlreadySet();
    auto open = std::make_unique<prof::RecordFunction>(std::string_view(text, static_cast<size_t>(n)));
    if (!open->active()) return none();
    return capsule_of<prof::RecordFunction, kOpen>(std::move(open));
  });
}
PyObject* py_end(PyObject*, PyObject* open) {
  return guarded([&] {
    if (open != Py_None) object_in<prof::RecordFunction, kOpen>(open).end();
    return none();
  });
}

// --- what was recorded --------------------------------------------------------------------------------------------

Ref numbers(const std::vector<int64_t>& v) {
  Ref list = Ref::steal(check(PyList_New(static_cast<Py_ssize_t>(v.size()))));
  for (size_t i = 0; i < v.size(); ++i)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), check(PyLong_FromLongLong(v[i])));
  return list;
}
template <class T, class F>
Ref list_from(const std::vector<T>& v, F make) {
  Ref list = Ref::steal(check(PyList_New(static_cast<Py_ssize_t>(v.size()))));
  for (size_t i = 0; i < v.size(); ++i)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), check(make(v[i]).release()));
  return list;
}

Ref dims(const prof::Input& in, std::vector<int64_t> prof::Input::Dims::*member) {
  if (in.tag == prof::Input::Tag::kTensorList)
    return list_from(in.tensors, [&](const prof::Input::Dims& d) { return numbers(d.*member); });
  return numbers(in.tensors.empty() ? std::vector<int64_t>() : in.tensors[0].*member);
}
Ref concrete(const prof::Input& in) {
  using Tag = prof::Input::Tag;
  switch (in.tag) {
    case Tag::kBool:
      return Ref::borrow(in.ints[0] ? Py_True : Py_False);
    case Tag::kInt:
      return Ref::steal(PyLong_FromLongLong(in.ints[0]));
    case Tag::kDouble:
      return Ref::steal(PyFloat_FromDouble(in.number));
    case Tag::kIntList:
      return numbers(in.ints);
    default:
      return Ref::borrow(Py_None);
  }
}
// (shapes, strides, dtypes, numbers), an entry for each argument in each.
Ref inputs(const std::vector<prof::Input>& all) {
  if (all.empty()) return Ref::borrow(Py_None);
  Ref shapes = list_from(all, [](const prof::Input& in) { return dims(in, &prof::Input::Dims::sizes); });
  Ref strides = list_from(all, [](const prof::Input& in) { return dims(in, &prof::Input::Dims::strides); });
  Ref types = list_from(all, [](const prof::Input& in) { return to_python_string(prof::input_type(in)); });
  Ref values = list_from(all, concrete);
  return Ref::steal(check(PyTuple_Pack(4, shapes.get(), strides.get(), types.get(), values.get())));
}

const char* kind_name(prof::Kind kind) {
  switch (kind) {
    case prof::Kind::kOperator:
      return "operator";
    case prof::Kind::kEvaluate:
      return "evaluate";
    case prof::Kind::kNode:
      return "node";
    case prof::Kind::kAnnotation:
      return "annotation";
    case prof::Kind::kModule:
      return "module";
    case prof::Kind::kFrame:
      return "frame";
  }
  return "";
}

const char* kind_name(DeviceActivity::Kind kind) {
  switch (kind) {
    case DeviceActivity::Kind::kKernel:
      return "kernel";
    case DeviceActivity::Kind::kCopy:
      return "copy";
    case DeviceActivity::Kind::kSet:
      return "set";
    case DeviceActivity::Kind::kCall:
      return "call";
  }
  return "";
}

using Texts = std::unordered_map<std::string_view, Ref>;
PyObject* text(Texts& texts, std::string_view s) {
  Ref& made = texts[s];
  if (!made) made = to_python_string(s);
  return made.get();
}

Ref event(Texts& texts, const prof::Record& e) {
  Ref in = inputs(e.inputs);
  return Ref::steal(
      check(Py_BuildValue("OOOiiLLLiOOLL", text(texts, e.name), text(texts, e.overload), text(texts, kind_name(e.kind)),
                          e.thread, e.parent, static_cast<long long>(e.start_ns), static_cast<long long>(e.end_ns),
                          static_cast<long long>(e.sequence), e.forward, e.finished ? Py_True : Py_False, in.get(),
                          static_cast<long long>(e.memory), static_cast<long long>(e.self_memory))));
}

Ref device_record(Texts& texts, const prof::DeviceRecord& d) {
  return Ref::steal(
      check(Py_BuildValue("OOLLiiLIiL", text(texts, d.name), text(texts, kind_name(d.kind)),
                          static_cast<long long>(d.start_ns), static_cast<long long>(d.end_ns), d.event, d.device,
                          static_cast<long long>(d.place), d.correlation, d.thread, static_cast<long long>(d.bytes))));
}

// events(capture, namer): {"events": [(name, overload, kind, thread, parent, start_ns, end_ns, sequence, forward,
// finished, inputs, memory, self_memory)], "memory": [(time_ns, bytes, total, address, event, thread)], "device":
// [(name, kind, start_ns, end_ns, event, device, place, correlation, thread, bytes)], "threads": [(system_id, name)],
// "start_ns", "end_ns"}
PyObject* py_events(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"events", {"capture", "namer"}, 2, 2}, call, a);
  const prof::Recording& r = object_in<Captured, kCaptured>(a[0]).resolve(a[1]);
  Texts texts;
  Ref events = list_from(r.events, [&](const prof::Record& e) { return event(texts, e); });
  Ref memory = list_from(r.memory, [](const prof::MemoryRecord& m) {
    return Ref::steal(Py_BuildValue("LLLKii", static_cast<long long>(m.time_ns), static_cast<long long>(m.bytes),
                                    static_cast<long long>(m.total), static_cast<unsigned long long>(m.address),
                                    m.event, m.thread));
  });
  Ref device = list_from(r.device, [&](const prof::DeviceRecord& d) { return device_record(texts, d); });
  Ref threads = list_from(r.threads, [](const prof::ThreadRecord& t) {
    return Ref::steal(Py_BuildValue("Ls", static_cast<long long>(t.system_id), t.name.c_str()));
  });
  return check(Py_BuildValue("{sOsOsOsOsLsL}", "events", events.get(), "memory", memory.get(), "device", device.get(),
                             "threads", threads.get(), "start_ns", static_cast<long long>(r.start_ns), "end_ns",
                             static_cast<long long>(r.end_ns)));
}

// chrome_trace(capture, namer, fields, call_stacks): the text of the file.
PyObject* py_chrome_trace(PyObject*, CallArgs call) {
  PyObject* a[4];
  read_args({"chrome_trace", {"capture", "namer", "fields", "call_stacks"}, 4, 4}, call, a);
  const bool call_stacks = bool_arg("chrome_trace", "call_stacks", a[3], false);
  const prof::Recording& r = object_in<Captured, kCaptured>(a[0]).resolve(a[1]);
  Ref list = Ref::steal(check(PySequence_Tuple(a[2])));
  std::vector<std::string> fields;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i)
    fields.push_back(from_python_string(PyTuple_GET_ITEM(list.get(), i)));
  std::string trace;
  {
    GilRelease unlocked;
    trace = r.chrome_trace(fields, call_stacks);
  }
  return to_python_string(trace).release();
}

// --- ranges for other profilers -----------------------------------------------------------------------------------

// The Python functions of one emitter; it never dies, since threads may be inside of it.
struct PythonEmitter {
  prof::Emitter emitter;
  Ref push, pop;
};
thread_local PythonEmitter* t_emitter = nullptr;

void call_python(PyObject* f, const char* name) {
  PyObject *type, *value, *trace;  // an operator may just be failing
  PyErr_Fetch(&type, &value, &trace);
  Ref done = Ref::steal(name ? PyObject_CallFunction(f, "s", name) : PyObject_CallNoArgs(f));
  if (!done) PyErr_WriteUnraisable(f);
  PyErr_Restore(type, value, trace);
}

// set_emitter(push, pop, shapes), or set_emitter(None, None, False): no more.
PyObject* py_set_emitter(PyObject*, CallArgs call) {
  PyObject* a[3];
  read_args({"set_emitter", {"push", "pop", "shapes"}, 3, 3}, call, a);
  if (a[0] == Py_None) {
    prof::set_emitter(nullptr);
    return none();
  }
  auto made = std::make_unique<PythonEmitter>();
  made->push = Ref::borrow(a[0]);
  made->pop = Ref::borrow(a[1]);
  made->emitter = {[](const char* name) {
                     GilAcquire gil;
                     call_python(t_emitter->push.get(), name);
                   },
                   [] {
                     GilAcquire gil;
                     call_python(t_emitter->pop.get(), nullptr);
                   },
                   PyObject_IsTrue(a[2]) == 1};
  prof::set_emitter(&made->emitter);
  t_emitter = made.release();
  return none();
}

// --- memory -------------------------------------------------------------------------------------------------------

PyObject* py_memory_stats(PyObject*, PyObject*) {
  return guarded([&] {
    const CpuMemoryStats s = cpu_memory_stats();
    const std::pair<const char*, int64_t> all[] = {
        {"allocation.all.current", s.blocks},
        {"allocation.all.allocated", s.blocks_allocated},
        {"allocation.all.freed", s.blocks_freed},
        {"allocated_bytes.all.current", s.bytes},
        {"allocated_bytes.all.peak", s.bytes_peak},
        {"allocated_bytes.all.allocated", s.bytes_allocated},
        {"allocated_bytes.all.freed", s.bytes_freed},
        {"requested_bytes.all.current", s.requested},
        {"requested_bytes.all.allocated", s.requested_allocated},
        {"requested_bytes.all.freed", s.requested_freed},
        {"cached_bytes.all.current", s.cached},
        {"num_alloc_retries", s.retries},
        {"num_ooms", s.failures},
    };
    Ref dict = Ref::steal(check(PyDict_New()));
    for (const auto& [name, value] : all)
      check(PyDict_SetItemString(dict.get(), name, Ref::steal(check(PyLong_FromLongLong(value))).get()));
    return dict.release();
  });
}
template <void (*f)()>
PyObject* py_do(PyObject*, PyObject*) {
  return guarded([] {
    f();
    return none();
  });
}

}  // namespace

prof::RecordFunction record_module(PyObject* module) {
  std::string name = "nn.Module";
  if (g_modules) {
    std::string& known = g_modules->names[module];
    if (known.empty()) {
      const char* full = Py_TYPE(module)->tp_name;
      const char* dot = std::strrchr(full, '.');
      const std::string type = dot ? dot + 1 : full;
      known = "nn.Module: " + type + "_" + std::to_string(g_modules->counts[type]++);
      g_modules->kept.push_back(Ref::borrow(module));
    }
    name = known;
  }
  return prof::RecordFunction(name, prof::Kind::kModule);
}

std::vector<PyMethodDef> profiler_functions() {
  return {
      function<"start", py_start>(),
      {"stop", py_stop, METH_NOARGS, nullptr},
      {"set_enabled", py_set_enabled, METH_O, nullptr},
      {"is_recording", py_is_recording, METH_NOARGS, nullptr},
      {"begin", py_begin, METH_O, nullptr},
      {"end", py_end, METH_O, nullptr},
      function<"events", py_events>(),
      function<"chrome_trace", py_chrome_trace>(),
      function<"set_emitter", py_set_emitter>(),
      {"memory_stats", py_memory_stats, METH_NOARGS, nullptr},
      {"reset_peak_memory", py_do<reset_peak_cpu_memory>, METH_NOARGS, nullptr},
      {"reset_accumulated_memory", py_do<reset_accumulated_cpu_memory>, METH_NOARGS, nullptr},
      {"empty_cache", py_do<empty_cpu_cache>, METH_NOARGS, nullptr},
  };
}

}  // namespace tessera::python
