// Graphs as a compact code over registers, and what runs it: without the host, on any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jit/function.h"

namespace tessera::jit {

// What a program raised or an operator threw, with the lines of the program that led there.
class RunError : public Error {
 public:
  RunError(const std::string& message, const std::string& plain, bool raised)
      : Error(message), plain_(plain), raised_(raised) {}
  const std::string& plain() const { return plain_; }
  bool raised() const { return raised_; }  // by the program itself

 private:
  std::string plain_;
  bool raised_;
};

std::unique_ptr<Code> compile_code(Function& f);
// Runs a function: as many arguments as it has.
Value run(Function& f, const Value* args, size_t n);
// Runs a graph once.
Value run_graph(const Graph& g, const Value* args, size_t n);

// A call as a program outside writes it: positional arguments, then defaults. Error where they do not fit.
Value call(Function& f, std::vector<Value> args);
// The same with arguments by name; the first one of a method is its instance.
Value call(Function& f, std::vector<Value> args, const std::vector<std::pair<std::string, Value>>& named);

}  // namespace tessera::jit
