// The profiler for Python: module _C._profiler.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "python/bindings/common.h"
#include "profiler/profiler.h"

namespace tessera::python {

std::vector<PyMethodDef> profiler_functions();

// Functions of Python on this thread, as events of the thread's log: from record_frames on until end_frames, which
// gives what describes them (code objects; the lock is needed when it dies). hidden_files: a tuple of file names, whose
// functions are left out.
struct Frames;
void record_frames(PyObject* hidden_files);
std::shared_ptr<Frames> end_frames();
// "file.py(12): name" for an event of kind kFrame; valid as long as `frames`.
std::string_view frame_name(Frames& frames, const void* subject, PyObject* namer);

// Around a call of nn.Module, which asks modules_are_recorded first: "nn.Module: Linear_0".
extern constinit std::atomic<bool> g_modules_are_recorded;
inline bool modules_are_recorded() { return g_modules_are_recorded.load(std::memory_order_relaxed); }
profiler::RecordFunction record_module(PyObject* module);

}  // namespace tessera::python
