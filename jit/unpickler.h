// The pickles of archives: values of programs, instances of their classes, tensors. Nothing in them names code to run.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "jit/function.h"

namespace tessera::jit {

struct PickleHooks {
  virtual ~PickleHooks() = default;
  virtual TypePtr type(const std::string& qualified) = 0;   // a class of the program; null: none
  virtual TypePtr parse_type(const std::string& text) = 0;  // "List[int]"
  virtual Storage storage(const std::string& key, DType dtype, int64_t numel) = 0;
};
// Empty containers and those of mixed contents get the types that `t` says, ints that stand for floats their kind.
void settle(Value& v, TypePtr t, int depth = 0);
// Error for a broken stream, or anything that is no value of a program.
Value unpickle(std::span<const uint8_t> data, PickleHooks& hooks);
// Protocol 2. `storages` gets those that are mentioned, in the order of their keys.
std::string pickle(const Value& v, std::vector<Storage>* storages);

}  // namespace tessera::jit
