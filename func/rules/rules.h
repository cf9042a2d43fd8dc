// Batching rules that somebody wrote, by family; written_rules() is the list of all.
#pragma once

#include "func/rules/batching.h"

namespace tessera::func {

std::span<const WrittenRule> product_rules();
std::span<const WrittenRule> matrix_rules();
std::span<const WrittenRule> shape_rules();
std::span<const WrittenRule> index_rules();
std::span<const WrittenRule> layer_rules();
std::span<const WrittenRule> norm_rules();
std::span<const WrittenRule> loss_rules();
std::span<const WrittenRule> random_rules();

// What random operators do by default, and those that are made of others.
void random_operator(const BatchCall& c);
void random_composite(const BatchCall& c);

// For rules that are written with operators inside of the level: the arguments as the function sees them.
inline const Tensor& tensor_at(const BatchCall& c, size_t i) { return c.args[i].tensor(); }
// The result of such a rule; of an in-place form it is written to `self`.
void give(const BatchCall& c, const Tensor& result);
// A check of values: a condition that does not hold everywhere. Those of tensors of other levels are not known.
bool known_to_fail(const Tensor& condition);
// Runs the operator's composite kernel with these arguments, inside of the level.
void decompose(const BatchCall& c, const std::vector<Value>& args);

}  // namespace tessera::func
