// Reads lines "layer NAME OPTION=VALUE ..." and "schedule NAME OPTION=VALUE ...", and writes what the C++ classes make
// of them, numbers as the bytes that they are; "list" says which there are, with the options that they take. Besides
// its options a layer is told `seed`, the sizes of its `input` and, if a loss, of its `target`: drawn from the normal
// distribution, or the numbers from 0 on modulo N for "N:SIZES".
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "tensor/ops/api.h"
#include "tests/agreement/told.h"

namespace tessera::agreement {
namespace {

void show(const std::string& what, const Tensor& tensor) {
  const Tensor t = tensor.contiguous();
  std::printf("%s ", what.c_str());
  for (size_t i = 0; i < t.sizes().size(); ++i) std::printf(i ? ",%lld" : "%lld", static_cast<long long>(t.sizes()[i]));
  std::printf(" ");
  const auto* bytes = static_cast<const unsigned char*>(t.data_ptr());
  for (size_t i = 0; i < static_cast<size_t>(t.numel() * item_size(t.dtype())); ++i) std::printf("%02x", bytes[i]);
  std::printf("\n");
}

Tensor example(const std::string& text, DType dtype) {
  const size_t colon = text.find(':');
  const bool counted = colon != std::string::npos;
  Told sizes({{"sizes", counted ? text.substr(colon + 1) : text}});
  const Tensor t = empty_kernel(sizes.integers("sizes", {}), counted ? DType::kInt64 : dtype);
  if (!counted) return nn::init::normal_(t);
  const int64_t n = std::stoll(text.substr(0, colon));
  for (int64_t i = 0; i < t.numel(); ++i) t.data<int64_t>()[i] = i % n;
  return t;
}

void run_layer(const std::string& name, Told& told) {
  default_cpu_generator()->manual_seed(static_cast<uint64_t>(told.integer("seed", 0)));
  const std::shared_ptr<nn::Module> layer = layers().at(name)(told);
  layer->requires_grad_(false);
  std::printf("repr %s\n", layer->repr().c_str());
  for (const auto& [path, t] : layer->named_parameters()) show("parameter " + path, t);
  for (const auto& [path, t] : layer->named_buffers()) show("buffer " + path, t);
  const DType dtype = told.dtype(DType::kFloat32);
  const Tensor input = example(told.word("input", ""), dtype);
  if (auto* loss = dynamic_cast<nn::Loss*>(layer.get())) {
    show("training", loss->forward(input, example(told.word("target", ""), dtype)));
  } else {
    for (const bool training : {true, false}) {
      layer->train(training);
      show(training ? "training" : "evaluation", layer->forward(input.clone()));
    }
  }
  for (const auto& [path, t] : layer->named_buffers()) show("then " + path, t);
}

void list() {
  const auto line = [](const std::string& head, const Told& told) {
    std::string options;
    for (const std::string& option : told.asked()) options += " " + option;
    std::printf("%s%s\n", head.c_str(), options.c_str());
  };
  for (const auto& [name, make] : layers()) {
    Told told({});
    make(told);
    line("layer " + name, told);
  }
  for (const std::string& name : schedule_names()) {
    Told told({});
    rates(name, told, 0);
    line("schedule " + name, told);
  }
}

void follow(const std::string& text) {
  std::istringstream words(text);
  std::string what, name, word;
  words >> what >> name;
  std::map<std::string, std::string> options;
  while (words >> word) options[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  Told told(options);
  if (what == "list") return list();
  if (what == "layer") return run_layer(name, told);
  for (const double rate : rates(name, told, static_cast<int>(told.integer("steps", 0)))) std::printf("%a\n", rate);
}

}  // namespace
}  // namespace tessera::agreement

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      tessera::agreement::follow(line);
    } catch (const std::exception& e) { std::printf("error %s\n", e.what()); }
    std::printf("end\n");
  }
}
