// Inference from a checkpoint of Python, without TorchScript: the network is C++, its weights are a state dict that
// torch.save wrote.
//
//   classify CHECKPOINT INPUT
//
// INPUT is a file of one tensor, images (N, 3, H, W), that torch.save wrote. Prints the classes and their logarithms.
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace nn = torch::nn;

struct BlockImpl : nn::Module {
  BlockImpl(int64_t inside, int64_t outside, int64_t stride)
      : body(nn::Conv2d(nn::Conv2dOptions(inside, outside, 3).stride(stride).padding(1).bias(false)),
             nn::BatchNorm2d(outside), nn::SiLU(),
             nn::Conv2d(nn::Conv2dOptions(outside, outside, 3).padding(1).groups(2)), nn::GroupNorm(2, outside)),
        beside(nn::Conv2dOptions(inside, outside, 1).stride(stride)) {
    register_module("body", body);
    register_module("beside", beside);
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::silu(body->forward(x) + beside(x)); }

  nn::Sequential body;
  nn::Conv2d beside;
};
TORCH_MODULE(Block);

struct ClassifierImpl : nn::Module {
  explicit ClassifierImpl(int64_t classes)
      : blocks(Block(3, 8, 1), Block(8, 16, 2)),
        attention(nn::MultiheadAttentionOptions(16, 4)),
        norm(nn::LayerNormOptions({16})),
        head(16, classes) {
    register_module("blocks", blocks);
    register_module("attention", attention);
    register_module("norm", norm);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& images) {
    const auto tokens = blocks->forward(images).flatten(2).permute({2, 0, 1});
    const auto seen = std::get<0>(attention(tokens, tokens, tokens));
    return torch::log_softmax(head(norm(tokens + seen).mean(0)), 1);
  }

  nn::Sequential blocks;
  nn::MultiheadAttention attention;
  nn::LayerNorm norm;
  nn::Linear head;
};
TORCH_MODULE(Classifier);

torch::IValue read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return torch::pickle_load({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

// Every parameter and buffer gets the tensor of its name.
void load(nn::Module& net, const c10::Dict<torch::IValue, torch::IValue>& weights) {
  torch::NoGradGuard no_grad;
  const auto fill = [&](const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
    for (const auto& item : tensors) {
      TORCH_CHECK(weights.contains(item.key()), "the checkpoint has no ", item.key());
      item.value().copy_(weights.at(item.key()).toTensor());
    }
  };
  fill(net.named_parameters());
  fill(net.named_buffers());
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: classify CHECKPOINT INPUT\n");
    return 2;
  }
  const auto weights = read(argv[1]).toGenericDict();
  const torch::Tensor images = read(argv[2]).toTensor();
  Classifier net(weights.at("head.bias").toTensor().size(0));
  load(*net, weights);
  net->eval();
  const c10::InferenceMode inference;
  const auto [best, classes] = net(images).max(1);
  for (int64_t i = 0; i < images.size(0); ++i)
    std::printf("%lld %.9g\n", static_cast<long long>(classes[i].item<int64_t>()), best[i].item<double>());
}
