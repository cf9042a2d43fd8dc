// What is done to examples or batches on their way out of a data set.
#pragma once

#include <torch/data/example.h>

#include <functional>
#include <utility>
#include <vector>

namespace torch::data::transforms {

template <class InputBatch, class OutputBatch>
struct BatchTransform {
  using InputBatchType = InputBatch;
  using OutputBatchType = OutputBatch;
  virtual ~BatchTransform() = default;
  virtual OutputBatch apply_batch(InputBatch input_batch) = 0;
};
template <class Input, class Output>
struct Transform : BatchTransform<std::vector<Input>, std::vector<Output>> {
  using InputType = Input;
  using OutputType = Output;
  virtual Output apply(Input input) = 0;
  std::vector<Output> apply_batch(std::vector<Input> batch) override {
    std::vector<Output> result;
    result.reserve(batch.size());
    for (Input& one : batch) result.push_back(apply(std::move(one)));
    return result;
  }
};

template <class Input, class Output = Input>
struct Lambda : Transform<Input, Output> {
  using FunctionType = std::function<Output(Input)>;
  explicit Lambda(FunctionType f) : function_(std::move(f)) {}
  Output apply(Input input) override { return function_(std::move(input)); }

 private:
  FunctionType function_;
};
template <class Input, class Output = Input>
struct BatchLambda : BatchTransform<Input, Output> {
  using FunctionType = std::function<Output(Input)>;
  explicit BatchLambda(FunctionType f) : function_(std::move(f)) {}
  Output apply_batch(Input batch) override { return function_(std::move(batch)); }

 private:
  FunctionType function_;
};

template <class T, class BatchType = std::vector<T>>
using Collation = BatchTransform<BatchType, T>;
template <class T, class BatchType = std::vector<T>>
using Collate = BatchLambda<BatchType, T>;

// Examples as one, with a new first dimension.
template <class T = Example<>>
struct Stack;
template <>
struct Stack<Example<>> : Collation<Example<>> {
  Example<> apply_batch(std::vector<Example<>> examples) override {
    std::vector<Tensor> data, targets;
    for (Example<>& e : examples) {
      data.push_back(std::move(e.data));
      targets.push_back(std::move(e.target));
    }
    return {at::stack(data), at::stack(targets)};
  }
};
template <>
struct Stack<TensorExample> : Collation<TensorExample> {
  TensorExample apply_batch(std::vector<TensorExample> examples) override {
    std::vector<Tensor> data;
    for (TensorExample& e : examples) data.push_back(std::move(e.data));
    return TensorExample(at::stack(data));
  }
};

// A transform of the data alone.
template <class Target = Tensor>
struct TensorTransform : Transform<Example<Tensor, Target>, Example<Tensor, Target>> {
  using E = Example<Tensor, Target>;
  virtual Tensor operator()(Tensor input) = 0;
  E apply(E input) override {
    input.data = (*this)(std::move(input.data));
    return input;
  }
};
template <class Target = Tensor>
struct TensorLambda : TensorTransform<Target> {
  using FunctionType = std::function<Tensor(Tensor)>;
  explicit TensorLambda(FunctionType f) : function_(std::move(f)) {}
  Tensor operator()(Tensor input) override { return function_(std::move(input)); }

 private:
  FunctionType function_;
};
// (input - mean) / stddev, one number or one for each channel.
template <class Target = Tensor>
struct Normalize : TensorTransform<Target> {
  Normalize(ArrayRef<double> mean, ArrayRef<double> stddev) : mean(channels(mean)), stddev(channels(stddev)) {}
  Tensor operator()(Tensor input) override { return input.sub(mean).div(stddev); }
  Tensor mean, stddev;

 private:
  static Tensor channels(ArrayRef<double> numbers) {
    const Tensor t = at::empty({int64_t(numbers.size()), 1, 1}, kFloat);
    std::copy(numbers.begin(), numbers.end(), t.data_ptr<float>());
    return t;
  }
};

}  // namespace torch::data::transforms
