// A block's time as an event of the profiler: RECORD_FUNCTION("my_op", std::vector<c10::IValue>({x})).
#pragma once

#include "ATen/ATen.h"
#include "profiler/profiler.h"

namespace at {
enum class RecordScope { FUNCTION, BACKWARD_FUNCTION, TORCHSCRIPT_FUNCTION, USER_SCOPE };
}

// The inputs are not kept: shapes are recorded by the operators inside.
#define RECORD_FUNCTION(name, ...) const ::tessera::profiler::RecordFunction C10_ANONYMOUS_VARIABLE(recorded_)(name)
#define RECORD_USER_SCOPE(name) RECORD_FUNCTION(name)
