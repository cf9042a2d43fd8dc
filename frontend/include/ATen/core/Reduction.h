#pragma once

namespace at::Reduction {
// What losses do with their values, as operators number it.
enum Reduction { None, Mean, Sum, END };
}  // namespace at::Reduction
