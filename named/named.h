// Named dimensions: where names are kept, how they are checked, and how they go through operators.
//
// A tensor has the key Named while one of its dimensions has a name; others never come here. The first name that is
// set installs one boxed fallback at that key: it finds the names of an operator's results by the rule of the operator
// (named/rules.h), runs the operator with the key excluded, and sets the names on the results.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/core/tensor.h"

namespace tessera::named {

// One for each dimension, "" where there is none; the whole list is empty for a tensor without names.
using Names = std::vector<std::string>;

std::span<const std::string> names_of(const Tensor& t);
bool has_names(const Tensor& t);
// Error unless there are as many names as dimensions, each an identifier (or ""), none twice. Names that are all ""
// (or an empty list) take the names away.
void set_names(const Tensor& t, Names names);
// The place of `name`; Error if the tensor has no such dimension.
int64_t dim_by_name(const Tensor& t, std::string_view name);
// "Tensor['N', None]".
std::string describe(const Tensor& t);

}  // namespace tessera::named
