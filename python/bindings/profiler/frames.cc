// Functions of Python as events: CPython tells of each call and return on the thread that asked for it.
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/bindings/profiler/profiler.h"

#include <frameobject.h>  // after Python.h; PyFrame_GetBack is in it before 3.11

namespace tessera::python {

struct Frames {
  struct Code {
    Ref object;
    bool hidden;       // the profiler's own
    std::string name;  // once somebody asked
  };
  std::unordered_map<const void*, Code> codes;
  Ref hidden_files;  // a tuple of their names

  // Whether the function belongs into the recording.
  bool shows(PyCodeObject* code) {
    const auto [at, is_new] = codes.try_emplace(code);
    if (is_new) {
      at->second.object = Ref::borrow(reinterpret_cast<PyObject*>(code));
      const int found = PySequence_Contains(hidden_files.get(), code->co_filename);
      if (found < 0) PyErr_Clear();
      at->second.hidden = found > 0;
    }
    return !at->second.hidden;
  }
};

namespace {

// Of the recording that runs; under the interpreter's lock.
std::shared_ptr<Frames> g_frames;
unsigned long g_thread = 0;

int on_call(PyObject*, PyFrameObject* frame, int what, PyObject*) {
  if (what != PyTrace_CALL && what != PyTrace_RETURN) return 0;
  profiler::Log* log = profiler::this_log();
  if (!log || !g_frames) return 0;
  Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  auto* c = reinterpret_cast<PyCodeObject*>(code.get());
  if (!g_frames->shows(c)) return 0;
  if (what == PyTrace_CALL)
    log->begin(profiler::Kind::kFrame, c, 0, profiler::kNoSequence);
  else
    log->end_frame(c);
  return 0;
}

}  // namespace

void record_frames(PyObject* hidden_files) {
  auto frames = std::make_shared<Frames>();
  frames->hidden_files = Ref::borrow(hidden_files);
  g_frames = frames;
  g_thread = PyThread_get_thread_ident();
  // Those that run already, from the outermost on.
  std::vector<Ref> running;
  for (Ref f = Ref::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame())); f;
       f = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(f.get())))))
    running.push_back(f);
  profiler::Log* log = profiler::this_log();
  for (size_t i = running.size(); log && i-- > 0;) {
    Ref code =
        Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(reinterpret_cast<PyFrameObject*>(running[i].get()))));
    auto* c = reinterpret_cast<PyCodeObject*>(code.get());
    if (frames->shows(c)) log->begin(profiler::Kind::kFrame, c, 0, profiler::kNoSequence);
  }
  PyEval_SetProfile(on_call, nullptr);
}

std::shared_ptr<Frames> end_frames() {
  if (!g_frames || g_thread != PyThread_get_thread_ident()) return std::exchange(g_frames, nullptr);
  PyEval_SetProfile(nullptr, nullptr);
  if (profiler::Log* log = profiler::this_log()) {
    for (profiler::Event* e = log->current(); e;) {
      profiler::Event* outer = e->parent.load(std::memory_order_relaxed);
      if (e->kind == profiler::Kind::kFrame) log->end(e);
      e = outer;
    }
  }
  return std::exchange(g_frames, nullptr);
}

std::string_view frame_name(Frames& frames, const void* subject, PyObject* namer) {
  const auto at = frames.codes.find(subject);
  if (at == frames.codes.end()) return "?";
  Frames::Code& code = at->second;
  if (code.name.empty())
    code.name = from_python_string(Ref::steal(check(PyObject_CallOneArg(namer, code.object.get()))).get());
  return code.name;
}

}  // namespace tessera::python
