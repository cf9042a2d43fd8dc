// What the transforms know of an operator: made from its schema and its rule in the op tables when it is first called
// inside of a transform.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "func/levels.h"
#include "tensor/dispatch/registry.h"
#include "tensor/dispatch/schema.h"

namespace tessera::func {

// How an operator is batched.
enum class Family : uint8_t {
  kDecompose,  // it is made of other operators: they are batched
  kPointwise,  // batch in front, ranks made equal behind it
  kFront,      // batch in front: leading dimensions are a batch anyway
  kShift,      // batch in front, dimensions count from behind it
  kFold,       // batch and the operator's own batch are one dimension
  kLike,       // a new tensor in the form of its argument
  kFactory,    // a new tensor, alike for the whole batch
  kRandom,     // by the level's mode of randomness
  kWritten,    // a function of rules/
  kLoop,       // one call for each element
  kForbidden,  // an Error: its result depends on data, or it has none that could be batched
};
const char* family_name(Family f);

// What an argument means to the rules.
enum class Role : uint8_t { kOther, kTensor, kTensorList, kDim, kDims, kSizes, kInputSizes, kGenerator };

struct Plan;

// One call of an operator with a batch among its arguments.
struct BatchCall {
  const OpHeader& op;
  const Plan& plan;
  std::span<const Value> args;
  Value* rets;
  size_t num_rets;
  int64_t level;
  int64_t batch;
  Randomness randomness;
};
// Fills rets. Of two kinds: those that work on values outside of the level, and those that are written with operators
// inside of it.
using Rule = void (*)(const BatchCall&);

struct Plan {
  FunctionSchema schema;
  std::vector<Role> roles;
  Family family = Family::kLoop;
  bool derived = true;     // nobody wrote anything for it
  bool composite = false;  // never seen by a level: what it calls is
  bool is_view = false;
  bool shares_memory = false;  // a view, or like one without a history of its own (detach)
  bool foreign = false;        // not in the library's own namespace
  bool inside = false;         // rule runs inside of the level
  int fold_rank = 0;           // kFold: dimensions of an image without a batch
  Rule rule = nullptr;
  uint32_t writes = 0;                   // bit k: argument k is written to
  const OpHeader* functional = nullptr;  // of an in-place form: the form that gives its result
  const OpHeader* copying = nullptr;     // of a view: the operator whose result is a copy
};

// A rule somebody wrote, for all overloads of `name` (without "aten::" and without the underscore of in-place forms),
// or for one: "sum.dim_IntList", "sum.".
struct WrittenRule {
  std::string_view name;
  Family family;
  Rule rule = nullptr;
  bool inside = false;
  int fold_rank = 0;
};
std::span<const WrittenRule> written_rules();

const Plan& plan_of(const OpHeader& op);

// How operators are found by their names ("aten::add.Tensor"); null if there is none. Without it no plan names others.
using FindOperator = const OpHeader* (*)(std::string_view qualified_name);
void set_operator_finder(FindOperator find);

}  // namespace tessera::func
