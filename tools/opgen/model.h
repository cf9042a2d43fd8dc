// What opgen knows about the tables after reading and checking them; the generators only read this.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tensor/dispatch/schema.h"
#include "tools/opgen/op_table.pb.h"

namespace tessera::opgen {

// Collects messages "file:line: reason".
class Diagnostics {
 public:
  void error(const std::string& path, int line, const std::string& reason);
  bool ok() const { return messages_.empty(); }
  const std::vector<std::string>& messages() const { return messages_; }

 private:
  std::vector<std::string> messages_;
};

struct Entry;

enum class Form { kFunctional, kInplace, kOut };

// One op object: an overload, its in-place form or its out= form.
struct OpForm {
  const Entry* entry = nullptr;
  Form form = Form::kFunctional;
  bool derived = false;   // made from the functional schema, not written in the table
  FunctionSchema schema;  // name without namespace
  std::string id;         // "add__Tensor": the C++ name of the op object
  std::string cpp_name;   // "add_": the C++ function and method
  std::string python_name;
  bool python_function = false;
  bool python_method = false;
  bool cpp_method = false;
  bool has_autograd = false;                             // its autograd slot names a symbol
  size_t cpp_required = 0;                               // leading arguments of the C++ function that get no default
  std::vector<const SchemaArgument*> api_order() const;  // arguments of the C++ function: the out= tensors first
  std::vector<int> outs() const;                         // indices of the arguments that are written (in order)
};

// What a derivative formula keeps from the forward call.
struct Saved {
  enum class Kind { kTensor, kTensorList, kOutput, kPlain, kDatum };
  Kind kind = Kind::kPlain;
  int index = 0;          // argument, or output for kOutput
  std::string name;       // member without its trailing underscore: "self", "result", "alpha", "self_sizes"
  std::string type;       // C++ type of the member
  std::string init;       // C++ expression that gives its value in the forward call (not for kOutput)
  std::set<int> used_by;  // indices of the derivatives that need it
  std::string shown;      // the node's attribute without "_saved_"; empty: none
};

// How forward mode gets the tangents of an op's results: from a derivative's inputs, or of the whole op (Entry).
enum class ForwardRule {
  kZero,         // the derivative is 0
  kRefused,      // nobody wrote the derivative: asking for it raises
  kElementwise,  // the formula of the gradient with (conjugate) tangents for gradients; of an op: the sum of the
                 // inputs'
  kSymmetric,    // the formula as it is with the tangent for the gradient
  kReduction,    // the formula for ones gives the weights of a sum of tangents
  kLinear,       // the op on the tangent
  kExpression,   // of the table
  kTwice,        // twice through the gradient: the fallback
  kJoint,        // (of an op) the op on all tangents
  kView,         // (of an op) the view of the tangent
  kDecomposed,   // (of an op) through what the composite calls
};

struct DerivativeDef {
  std::vector<int> inputs;  // argument indices
  std::string formula;      // rewritten: saved names have their underscore
  std::string original;
  bool uses_grad = false, uses_grads = false, uses_mask = false;
  int line = 0;
  std::string forward;  // of the table
  ForwardRule rule = ForwardRule::kElementwise;
};

struct Entry {
  Op op;
  std::string path;
  int line = 0;           // of the schema
  std::string qualified;  // "add.Tensor"
  FunctionSchema schema;
  std::vector<OpForm> forms;
  std::string id() const { return forms[0].id; }
  // Derivatives.
  std::vector<DerivativeDef> derivatives;
  std::vector<Saved> saved;
  std::string node;  // "AddBackward0"
  struct NumberNode {
    int argument;
    std::string name;
  };
  std::vector<NumberNode> number_nodes;  // what it is called where an argument is a plain number
  bool has_derivatives() const { return !derivatives.empty(); }
  ForwardRule forward = ForwardRule::kElementwise;
  const OpForm* find(Form f) const;
  // Tagged inplace_view: gives its tensor another shape, and writes to none.
  bool is_inplace_view() const {
    return std::find(op.tags().begin(), op.tags().end(), "inplace_view") != op.tags().end();
  }
  // Lines of fields, for messages.
  std::map<std::string, int> field_lines;
  int line_of(const std::string& field) const;
};

struct Family {
  std::string name;  // "arithmetic" of tensor/ops/tables/arithmetic.textproto
  std::string path;
  OpTable table;  // entries are moved out of it
  std::vector<std::unique_ptr<Entry>> entries;
};

// The words after the device in Op::autocast.
inline constexpr char kAutocastPolicies[] = "lower_precision_fp, fp32, promote, fp32_set_opt_dtype, banned";
bool is_autocast_policy(const std::string& word);
bool has_optional_dtype(const FunctionSchema& schema);

// Reads and checks one table. Errors go to `diagnostics`.
Family read_table(const std::string& path, const std::string& text, Diagnostics* diagnostics);
// Checks that cross tables: duplicates, targets of SCALAR_OVERLOAD, C++ overloads that can't be told apart. Also
// numbers the node names.
void check_families(std::vector<Family>* families, Diagnostics* diagnostics);
// "log_softmax" -> "LogSoftmax", "max_pool2d" -> "MaxPool2D", "_to_copy" -> "ToCopy": the start of a node's name.
std::string title(const std::string& name);
// Fills entry->derivatives and entry->saved, and finds the rules of forward mode.
void analyse_derivatives(Entry* entry, Diagnostics* diagnostics);
// Where an entry's rule of forward mode comes from, for OpInfo::forward: "derived", "written", "fallback" or "".
std::string forward_text(const Entry& e);

}  // namespace tessera::opgen
