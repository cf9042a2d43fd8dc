// The parts of Python classes (nn.Module, optim.Optimizer, learning-rate schedules) that run at every call and are
// therefore written in C++.
#pragma once

#include <vector>

#include "python/bindings/common.h"

namespace tessera::python {

std::vector<PyMethodDef> module_shell_functions();
std::vector<PyMethodDef> optimizer_shell_functions();
std::vector<PyMethodDef> schedule_functions();  // of the module _C._schedules
std::vector<PyMethodDef> lbfgs_functions();     // of the module _C._lbfgs

}  // namespace tessera::python
