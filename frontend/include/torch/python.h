// Conversions for pybind11, and modules of the C++ front end as classes of Python.
#pragma once

#include <torch/csrc/utils/pybind.h>
