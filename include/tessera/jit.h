// TorchScript archives: loading and calling.
#pragma once

#include "jit/archive.h"
#include "jit/interpreter.h"
