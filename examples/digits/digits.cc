#include "examples/digits/digits.h"

#include <cstdio>
#include <cstring>
#include <vector>

#include "tensor/ops/reduce_ops.h"

namespace digits {

using tessera::DType;
using tessera::Error;
using tessera::IntVector;
using tessera::Tensor;
namespace nn = tessera::nn;

namespace {

std::vector<uint8_t> read_bytes(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  TESSERA_CHECK(file, "can't open '", path, "'; give its path with --data");
  std::vector<uint8_t> bytes(1 << 20);  // more than the file has
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file.get()));
  return bytes;
}

Set empty_set(int64_t count) {
  return {tessera::empty_kernel(IntVector{count, 8, 8}, DType::kFloat32),
          tessera::empty_kernel(IntVector{count}, DType::kInt64)};
}

}  // namespace

Data read(const std::string& path) {
  constexpr size_t kHeader = 20, kRow = 65;
  const std::vector<uint8_t> bytes = read_bytes(path);
  uint32_t shape[3] = {};
  if (bytes.size() >= kHeader) std::memcpy(shape, &bytes[8], sizeof shape);
  TESSERA_CHECK(bytes.size() >= kHeader && std::memcmp(bytes.data(), "DIGITS1\n", 8) == 0 && shape[1] == 8 &&
                    shape[2] == 8 && bytes.size() == kHeader + kRow * shape[0],
                "'", path, "' is not a digits file of 8 x 8 images");
  const int64_t count = shape[0], tests = (count + 4) / 5;
  Data data{empty_set(count - tests), empty_set(tests)};
  for (int64_t i = 0, test = 0, train = 0; i < count; ++i) {
    const uint8_t* row = &bytes[kHeader + kRow * i];
    const Set& set = i % 5 == 0 ? data.test : data.train;
    const int64_t at = i % 5 == 0 ? test++ : train++;
    for (int64_t k = 0; k < 64; ++k) set.images.data<float>()[64 * at + k] = static_cast<float>(row[k]) / 16;
    set.labels.data<int64_t>()[at] = row[64];
  }
  return data;
}

std::shared_ptr<nn::Sequential> make_mlp() {
  return nn::Sequential::make({std::make_shared<nn::Flatten>(), std::make_shared<nn::Linear>(64, 256),
                               std::make_shared<nn::ReLU>(), std::make_shared<nn::Dropout>(0.3),
                               std::make_shared<nn::Linear>(256, 128), std::make_shared<nn::ReLU>(),
                               std::make_shared<nn::Linear>(128, 10)});
}

int64_t count_right(const Tensor& scores, const Tensor& labels) {
  const Tensor predicted = tessera::argmax(scores, 1);
  int64_t right = 0;
  for (int64_t i = 0; i < labels.numel(); ++i) right += predicted.data<int64_t>()[i] == labels.data<int64_t>()[i];
  return right;
}

std::string option(int argc, char** argv, const std::string& name, const std::string& otherwise) {
  for (int i = 1; i + 1 < argc; ++i)
    if (argv[i] == "--" + name) return argv[i + 1];
  return otherwise;
}

int64_t number_option(int argc, char** argv, const std::string& name, int64_t otherwise) {
  const std::string text = option(argc, argv, name, std::to_string(otherwise));
  TESSERA_CHECK_AS(ValueError,
                   !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos, "--",
                   name, " takes a whole number, not '", text, "'");
  return std::stoll(text);
}

}  // namespace digits
