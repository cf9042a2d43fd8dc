// What the program is told: a name and options as text.
#pragma once

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/modules/modules.h"
#include "optim/optimizers/lr_scheduler.h"

namespace tessera::agreement {

// Options by Python's names, in Python's writing: 3, 1e-05, True, None, 3,4 for a tuple. An option that is not given
// has the default of the C++ class. What is asked for is noted, so that a maker that runs without options tells which
// there are.
class Told {
 public:
  explicit Told(std::map<std::string, std::string> texts) : texts_(std::move(texts)) {}

  std::vector<double> numbers(const std::string& name, std::vector<double> otherwise) {
    const std::string* text = find(name);
    if (!text) return otherwise;
    std::vector<double> found;
    for (size_t at = 0; at < text->size();) {
      const size_t end = std::min(text->find(',', at), text->size());
      double value = 0;
      if (std::from_chars(text->data() + at, text->data() + end, value).ptr != text->data() + end)
        throw ValueError(str_cat(name, ": expected numbers, got ", *text));
      found.push_back(value);
      at = end + 1;
    }
    return found;
  }
  double real(const std::string& name, double otherwise) { return numbers(name, {otherwise}).at(0); }
  int64_t integer(const std::string& name, int64_t otherwise) {
    return static_cast<int64_t>(real(name, static_cast<double>(otherwise)));
  }
  IntVector integers(const std::string& name, IntList otherwise) {
    IntVector found;
    for (const double v : numbers(name, {otherwise.begin(), otherwise.end()})) found.push_back(static_cast<int64_t>(v));
    return found;
  }
  nn::Size2d size(const std::string& name, nn::Size2d otherwise) {
    const std::vector<double> found =
        numbers(name, {static_cast<double>(otherwise.v[0]), static_cast<double>(otherwise.v[1])});
    return {static_cast<int64_t>(found.front()), static_cast<int64_t>(found.back())};
  }
  std::string word(const std::string& name, const std::string& otherwise) {
    const std::string* text = find(name);
    return text ? *text : otherwise;
  }
  bool truth(const std::string& name, bool otherwise) { return word(name, otherwise ? "True" : "False") == "True"; }
  DType dtype(DType otherwise) { return word("dtype", "") == "float64" ? DType::kFloat64 : otherwise; }
  bool is_none(const std::string& name) { return word(name, "") == "None"; }
  bool given(const std::string& name) { return find(name) != nullptr; }

  const std::vector<std::string>& asked() const { return asked_; }

 private:
  const std::string* find(const std::string& name) {
    if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) asked_.push_back(name);
    const auto at = texts_.find(name);
    return at == texts_.end() ? nullptr : &at->second;
  }

  std::map<std::string, std::string> texts_;
  std::vector<std::string> asked_;
};

// Every class of nn/modules and of optim/optimizers/lr_scheduler.h by its name.
const std::map<std::string, std::function<std::shared_ptr<nn::Module>(Told&)>>& layers();
// The rates after each of some steps, from the rate `lr` on.
std::vector<double> rates(const std::string& schedule, Told& told, int steps);
std::vector<std::string> schedule_names();

}  // namespace tessera::agreement
