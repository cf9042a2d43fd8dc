// What an extension of Python includes: the C++ front end, pybind11, and the conversions between them.
#pragma once

#include <torch/all.h>
#include <torch/python.h>
