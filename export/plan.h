// A program as it runs: calls over registers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "export/numbers.h"
#include "export/program.h"
#include "tensor/dispatch/schema.h"

namespace tessera::exported {

inline constexpr uint32_t kNoRegister = UINT32_MAX;

struct Argument {
  enum class Kind : uint8_t {
    kConstant,
    kRegister,
    kTensors,  // lists of items
    kInts,
    kDoubles,
    kScalars,
    kWrapped,  // a number in a register where a tensor is wanted
  };
  Kind kind = Kind::kConstant;
  bool is_needed = false;  // a tensor that has to be there
  uint32_t place = kNoRegister;
  Value constant;
  std::vector<Argument> items;
  std::shared_ptr<const bool[]> bools;  // what a constant list of bools borrows
};

struct Graph;
struct Call;
// What is no operator of a registry: functions of numbers and sizes, control flow.
using Own = void (*)(const Call& call, std::vector<Value>& frame);

struct Call {
  const OpInfo* op = nullptr;
  Own own = nullptr;
  const NumberFunction* function = nullptr;
  std::string name;  // of the node, for messages
  std::vector<Argument> args;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<std::vector<Argument>> lists;  // of control flow: its operands
  size_t num_returns = 0;
  bool returns_list = false;
  std::vector<uint32_t> results;  // registers, in order; kNoRegister: nobody reads it
  std::vector<uint32_t> last;     // registers that nobody reads afterwards
  // Of control flow: operators that it calls itself.
  const OpInfo *stack = nullptr, *select = nullptr;
};

struct Graph {
  size_t num_inputs = 0, num_registers = 0;
  std::vector<Call> calls;
  std::vector<Argument> outputs;

  std::vector<Value> run(std::vector<Value> inputs) const;
};

// A size of an argument: a number, or an expression.
struct Size {
  int64_t fixed = 0;
  std::optional<Expression> expression;
};
struct Input {
  enum class Kind : uint8_t { kTensor, kNumber, kConstant };
  Kind kind = Kind::kTensor;
  std::string name;
  Value constant;
  std::vector<Size> sizes;  // of a number: one
};
struct Range {
  Expression expression;
  std::optional<int64_t> least, most;
};

struct Structure {
  Tree::Kind kind = Tree::Kind::kLeaf;
  bool is_other = false;  // a class of its own: any container
  std::vector<Structure> items;
  std::vector<std::string> keys;
  size_t leaves() const;
};

struct Plan {
  std::map<std::string, Tensor> state;
  Graph graph;
  std::vector<Tensor> held;   // the graph's first inputs: parameters, buffers, constants
  std::vector<Input> inputs;  // the others
  std::vector<std::string> names;
  struct Write {
    size_t output;
    Tensor held;              // what is written to, or
    size_t input = SIZE_MAX;  // an argument
  };
  std::vector<Write> writes;
  std::vector<size_t> results;  // places among the graph's outputs
  Symbols symbols;
  std::vector<Range> ranges;
  std::vector<Expression> guards;
  std::optional<Structure> in, out;
  std::optional<std::vector<Value>> examples;

  void check(const std::vector<Value>& leaves) const;
  std::vector<Value> run(std::vector<Value> leaves) const;
};

Value lend(const Value& v);  // borrowed, valid while v is
Value given(const Argument& a, const std::vector<Value>& frame);
void call_operator(const OpInfo& op, const Value* args, std::vector<Value>& rets);
// Functions of this library by their targets; null for others.
Own own_function(std::string_view target);
Own control_flow(std::string_view target);
std::shared_ptr<Plan> read_plan(serialization::Source& source, OpInfoList operators);

}  // namespace tessera::exported
