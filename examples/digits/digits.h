// What the C++ programs of this folder share: the data file, the model, the evaluation.
#pragma once

#include <memory>
#include <string>

#include "nn/modules/layers.h"
#include "tensor/core/tensor.h"

namespace digits {

struct Set {
  tessera::Tensor images;  // float32 (N, 8, 8), in [0, 1]
  tessera::Tensor labels;  // int64 (N)
};
struct Data {
  Set train, test;
};

// Reads digits.bin; every fifth image is for testing. Error if the file can't be read or is no digits file.
Data read(const std::string& path);

// The MLP of train.py.
std::shared_ptr<tessera::nn::Sequential> make_mlp();

// The index of the highest score in each row: (N, 10) -> number of rows where it is the label.
int64_t count_right(const tessera::Tensor& scores, const tessera::Tensor& labels);

// Command line: the value behind --NAME, or what to take without it.
std::string option(int argc, char** argv, const std::string& name, const std::string& otherwise);
// The same for whole numbers of at least 0. ValueError for anything else.
int64_t number_option(int argc, char** argv, const std::string& name, int64_t otherwise);

inline constexpr char kDefaultData[] = "examples/digits/digits.bin";

}  // namespace digits
