// One example of a data set.
#pragma once

#include <torch/types.h>

#include <utility>

namespace torch::data {
namespace example {
using NoTarget = void;
}

template <class Data = at::Tensor, class Target = at::Tensor>
struct Example {
  using DataType = Data;
  using TargetType = Target;
  Example() = default;
  Example(Data d, Target t) : data(std::move(d)), target(std::move(t)) {}
  Data data;
  Target target;
};
template <class Data>
struct Example<Data, example::NoTarget> {
  using DataType = Data;
  using TargetType = example::NoTarget;
  Example() = default;
  /* implicit */ Example(Data d) : data(std::move(d)) {}
  operator Data&() { return data; }
  operator const Data&() const { return data; }
  Data data;
};
using TensorExample = Example<at::Tensor, example::NoTarget>;

}  // namespace torch::data
