// Programs that tessera.export.save (or torch.export.save) wrote, run without Python:
//
//   exported::Program program = exported::load("model.pt2");
//   std::vector<Tensor> results = program({x});
//
// The program of C++ links the operators that they call: exported_operators() in tools/bazel/exported.bzl makes a
// library of the names, or of the files themselves.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serialization/file.h"
#include "tensor/dispatch/registry.h"
#include "tensor/dispatch/value.h"

namespace tessera::exported {

// Arguments and results as programs take and give them: values in tuples, lists and dicts. A named tuple or another
// registered class is a tuple of what is in it.
struct Tree {
  enum class Kind : uint8_t { kLeaf, kTuple, kList, kDict };

  Tree() = default;  // None
  Tree(Value v) : leaf(std::move(v)) {}
  Tree(const Tensor& t) : leaf(Value::of(Tensor(t))) {}
  static Tree tuple(std::vector<Tree> items) { return of(Kind::kTuple, std::move(items), {}); }
  static Tree list(std::vector<Tree> items) { return of(Kind::kList, std::move(items), {}); }
  static Tree dict(std::vector<std::string> keys, std::vector<Tree> items) {
    return of(Kind::kDict, std::move(items), std::move(keys));
  }

  Kind kind = Kind::kLeaf;
  Value leaf;
  std::vector<Tree> items;
  std::vector<std::string> keys;  // of a dict: its items' in turn; other keys than strings as JSON

 private:
  static Tree of(Kind kind, std::vector<Tree> items, std::vector<std::string> keys) {
    Tree t;
    t.kind = kind, t.items = std::move(items), t.keys = std::move(keys);
    return t;
  }
};

struct Plan;

// A program with its tensors. Copies share both. Calls from several threads at once are fine as long as the program
// writes to none of its buffers.
class Program {
 public:
  explicit Program(std::shared_ptr<Plan> plan) : plan_(std::move(plan)) {}

  // Results of the tensors among the arguments; arguments that are no tensors have the values of the exported call.
  // Error if the program takes other numbers, or returns something else than tensors.
  std::vector<Tensor> operator()(const std::vector<Tensor>& tensors) const;
  // All leaves of the arguments, in order, and all leaves of the result.
  std::vector<Value> run(std::vector<Value> leaves) const;
  // As the exported module is called. ValueError if the arguments have another structure.
  Tree call(const std::vector<Tree>& args, const std::vector<std::pair<std::string, Tree>>& kwargs = {}) const;
  // All of them check sizes and numbers as the module in Python does: Error "Guard failed: x.size()[0] == 4".

  // Parameters, buffers and constants by their paths; what the program writes to them stays.
  const std::map<std::string, Tensor>& state() const;
  // Names of the arguments' leaves, and of what the result is made of.
  const std::vector<std::string>& input_names() const;
  // The arguments that the program was exported with, where the file has them.
  std::optional<std::vector<Value>> example_inputs() const;

 private:
  std::shared_ptr<Plan> plan_;
};

// Reads a program. Nothing in the file is trusted: Error for a file that is no sound program, and for one that calls an
// operator which is not among `operators`; nothing of it is run. Tensors come to the devices that the file names.
Program load(serialization::Source& source, OpInfoList operators);
Program load(const std::string& path, OpInfoList operators);

// The operators that exported_operators() links into a program.
[[gnu::weak]] OpInfoList linked_operators();
// With these. Error if there are none.
Program load(const std::string& path);

}  // namespace tessera::exported
