#include "export/program.h"

#include <algorithm>

#include "export/plan.h"

namespace tessera::exported {
namespace {

[[noreturn]] void wrong_structure(const char* wanted) {
  throw ValueError(str_cat("the arguments have another structure than the exported call's: expected ", wanted));
}
void flatten(const Tree& tree, const Structure& s, std::vector<Value>* leaves) {
  if (s.kind == Tree::Kind::kLeaf) {
    if (tree.kind != Tree::Kind::kLeaf) wrong_structure("a value, got a container");
    leaves->push_back(tree.leaf);
    return;
  }
  if (tree.kind == Tree::Kind::kLeaf || (!s.is_other && tree.kind != s.kind))
    wrong_structure(s.kind == Tree::Kind::kDict ? "a dict" : s.kind == Tree::Kind::kList ? "a list" : "a tuple");
  if (tree.items.size() != s.items.size()) wrong_structure("another number of items");
  for (size_t i = 0; i < s.items.size(); ++i) {
    size_t at = i;
    if (s.kind == Tree::Kind::kDict) {
      const auto it = std::find(tree.keys.begin(), tree.keys.end(), s.keys[i]);
      if (it == tree.keys.end()) wrong_structure(str_cat("the key '", s.keys[i], "'").c_str());
      at = static_cast<size_t>(it - tree.keys.begin());
      if (at >= tree.items.size()) wrong_structure("a value for each key");
    }
    flatten(tree.items[at], s.items[i], leaves);
  }
}
Tree unflatten(std::vector<Value>& leaves, size_t& next, const Structure& s) {
  if (s.kind == Tree::Kind::kLeaf) return Tree(std::move(leaves[next++]));
  std::vector<Tree> items;
  for (const Structure& item : s.items) items.push_back(unflatten(leaves, next, item));
  return s.kind == Tree::Kind::kDict   ? Tree::dict(s.keys, std::move(items))
         : s.kind == Tree::Kind::kList ? Tree::list(std::move(items))
                                       : Tree::tuple(std::move(items));
}

}  // namespace

std::vector<Tensor> Program::operator()(const std::vector<Tensor>& tensors) const {
  std::vector<Value> leaves;
  size_t next = 0;
  for (const Input& input : plan_->inputs) {
    if (input.kind == Input::Kind::kConstant) {
      leaves.push_back(input.constant);
      continue;
    }
    TESSERA_CHECK_VALUE(input.kind == Input::Kind::kTensor, "the program takes the number '", input.name,
                        "': call run() or call()");
    TESSERA_CHECK_VALUE(next < tensors.size(), "the program takes more than ", tensors.size(), " tensors");
    leaves.push_back(Value::of(Tensor(tensors[next++])));
  }
  TESSERA_CHECK_VALUE(next == tensors.size(), "the program takes ", next, " tensors, got ", tensors.size());
  std::vector<Tensor> found;
  for (const Value& v : plan_->run(std::move(leaves))) {
    TESSERA_CHECK_TYPE(v.is_tensor(), "the program returns something else than tensors: call run() or call()");
    found.push_back(v.tensor());
  }
  return found;
}

std::vector<Value> Program::run(std::vector<Value> leaves) const { return plan_->run(std::move(leaves)); }

Tree Program::call(const std::vector<Tree>& args, const std::vector<std::pair<std::string, Tree>>& kwargs) const {
  TESSERA_CHECK_VALUE(plan_->in && plan_->out, "the file does not say how the arguments are structured: call run()");
  std::vector<std::string> names;
  std::vector<Tree> values;
  for (const auto& [name, value] : kwargs) names.push_back(name), values.push_back(value);
  std::vector<Value> leaves;
  flatten(Tree::tuple({Tree::tuple(args), Tree::dict(std::move(names), std::move(values))}), *plan_->in, &leaves);
  std::vector<Value> results = plan_->run(std::move(leaves));
  size_t next = 0;
  return unflatten(results, next, *plan_->out);
}

const std::map<std::string, Tensor>& Program::state() const { return plan_->state; }
const std::vector<std::string>& Program::input_names() const { return plan_->names; }
std::optional<std::vector<Value>> Program::example_inputs() const { return plan_->examples; }

Program load(serialization::Source& source, OpInfoList operators) { return Program(read_plan(source, operators)); }
Program load(const std::string& path, OpInfoList operators) {
  serialization::FileSource source(path);
  return load(source, operators);
}
Program load(const std::string& path) {
  TESSERA_CHECK(&linked_operators != nullptr,
                "no operators are linked: add a library of exported_operators() (tools/bazel/exported.bzl) to the "
                "program's dependencies");
  return load(path, linked_operators());
}

}  // namespace tessera::exported
