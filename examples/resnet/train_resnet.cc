// Goes on training a ResNet-18 from a checkpoint of its state dict as torch.save wrote it (names and shapes of
// torchvision's resnet18):
//
//   train_resnet CHECKPOINT DATA [--epochs 1] [--batch 32] [--lr 0.01] [--out CHECKPOINT]
//
// DATA is a checkpoint of a dict of images (N, 3, H, W), of bytes or floats, and labels (N). Prints the loss of every
// step and at last how many images it gets right. What it writes loads into torchvision's class again.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/autograd.h"
#include "nn/activation_ops.h"
#include "nn/conv_ops.h"
#include "nn/loss_ops.h"
#include "nn/norm_ops.h"
#include "nn/pool_ops.h"
#include "optim/optimizers/sgd.h"
#include "serialization/checkpoint.h"
#include "tensor/ops/api.h"

namespace {

using namespace tessera;

// The checkpoint's tensors are the model's: nothing is drawn, nothing copied.
class State {
 public:
  explicit State(const std::string& path) : all(serialization::load_state_dict(path, /*mapped=*/true)) {
    for (const auto& [name, t] : all) by_name_[name] = t;
  }
  Tensor buffer(const std::string& name) const {
    const auto found = by_name_.find(name);
    TESSERA_CHECK(found != by_name_.end(), "the checkpoint has no tensor '", name, "'");
    return found->second;
  }
  Tensor parameter(const std::string& name) {
    parameters.push_back(buffer(name).requires_grad_());
    return parameters.back();
  }
  bool has(const std::string& name) const { return by_name_.count(name) != 0; }

  serialization::StateDict all;
  std::vector<Tensor> parameters;

 private:
  std::unordered_map<std::string, Tensor> by_name_;
};

// A convolution and the normalisation behind it.
class ConvNorm {
 public:
  ConvNorm(State& s, const std::string& conv, const std::string& norm, int64_t stride)
      : kernel_(s.parameter(conv + ".weight")),
        weight_(s.parameter(norm + ".weight")),
        bias_(s.parameter(norm + ".bias")),
        mean_(s.buffer(norm + ".running_mean")),
        var_(s.buffer(norm + ".running_var")),
        batches_(s.buffer(norm + ".num_batches_tracked")),
        stride_(stride) {}
  Tensor operator()(const Tensor& x, bool training) const {
    const int64_t padding = kernel_.size(2) / 2;
    if (training) batches_.add_(1);
    return batch_norm(conv2d(x, kernel_, {}, IntVector{stride_, stride_}, IntVector{padding, padding}), weight_, bias_,
                      mean_, var_, training, 0.1, 1e-5, false);
  }

 private:
  Tensor kernel_, weight_, bias_, mean_, var_, batches_;
  int64_t stride_;
};

class Block {
 public:
  Block(State& s, const std::string& name, int64_t stride)
      : first_(s, name + ".conv1", name + ".bn1", stride), second_(s, name + ".conv2", name + ".bn2", 1) {
    if (s.has(name + ".downsample.0.weight"))
      shortcut_.emplace_back(s, name + ".downsample.0", name + ".downsample.1", stride);
  }
  Tensor operator()(const Tensor& x, bool training) const {
    const Tensor past = second_(relu(first_(x, training)), training);
    return relu(past.add(shortcut_.empty() ? x : shortcut_[0](x, training)));
  }

 private:
  ConvNorm first_, second_;
  std::vector<ConvNorm> shortcut_;
};

class ResNet18 {
 public:
  explicit ResNet18(State& s) : stem_(s, "conv1", "bn1", 2) {
    for (int stage = 1; stage <= 4; ++stage)
      for (int i = 0; i < 2; ++i)
        blocks_.emplace_back(s, "layer" + std::to_string(stage) + "." + std::to_string(i), stage > 1 && i == 0 ? 2 : 1);
    weight_ = s.parameter("fc.weight");
    bias_ = s.parameter("fc.bias");
  }
  Tensor operator()(const Tensor& images, bool training) const {
    const int64_t three[] = {3, 3}, two[] = {2, 2}, one[] = {1, 1};
    Tensor x = max_pool2d(relu(stem_(images, training)), three, two, one);
    for (const Block& block : blocks_) x = block(x, training);
    return linear(adaptive_avg_pool2d(x, IntVector{1, 1}).flatten(1), weight_, bias_);
  }

 private:
  ConvNorm stem_;
  std::vector<Block> blocks_;
  Tensor weight_, bias_;
};

std::string option(int argc, char** argv, const std::string& name, const std::string& otherwise) {
  for (int i = 3; i + 1 < argc; i += 2)
    if ("--" + name == argv[i]) return argv[i + 1];
  return otherwise;
}

void train(const ResNet18& net, optim::SGD& optimizer, const Tensor& images, const Tensor& labels, int64_t batch) {
  for (int64_t from = 0; from < images.size(0); from += batch) {
    const int64_t n = std::min(batch, images.size(0) - from);
    optimizer.zero_grad();
    const Tensor loss = cross_entropy_loss(net(images.narrow(0, from, n), true), labels.narrow(0, from, n));
    loss.backward();
    optimizer.step();
    std::printf("loss %.9g\n", static_cast<double>(loss.item<float>()));
    std::fflush(stdout);
  }
}

int64_t count_right(const ResNet18& net, const Tensor& images, const Tensor& labels, int64_t batch) {
  NoGradGuard no_grad;
  int64_t right = 0;
  for (int64_t from = 0; from < images.size(0); from += batch) {
    const int64_t n = std::min(batch, images.size(0) - from);
    right += net(images.narrow(0, from, n), false).argmax(1).eq(labels.narrow(0, from, n)).sum().item<int64_t>();
  }
  return right;
}

int run(int argc, char** argv) {
  TESSERA_CHECK_AS(ValueError, argc >= 3 && argc % 2 == 1, "usage: train_resnet CHECKPOINT DATA [--OPTION VALUE ...]");
  State state(argv[1]);
  const ResNet18 net(state);
  const serialization::Object data = serialization::load(argv[2]);
  Tensor images = data.at("images").as_tensor();
  if (images.dtype() == DType::kUInt8) images = images.to(DType::kFloat32).div(255);
  const Tensor labels = data.at("labels").as_tensor();
  const int64_t batch = std::atoll(option(argc, argv, "batch", "32").c_str());
  TESSERA_CHECK_AS(ValueError, batch > 0, "--batch must be positive");
  std::printf("%d images, %d tensors to learn\n", static_cast<int>(images.size(0)),
              static_cast<int>(state.parameters.size()));
  std::fflush(stdout);
  optim::SGD optimizer(state.parameters, {.lr = std::atof(option(argc, argv, "lr", "0.01").c_str()), .momentum = 0.9});
  for (int64_t epochs = std::atoll(option(argc, argv, "epochs", "1").c_str()); epochs > 0; --epochs)
    train(net, optimizer, images, labels, batch);
  std::printf("%d of %d right\n", static_cast<int>(count_right(net, images, labels, batch)),
              static_cast<int>(images.size(0)));
  if (const std::string out = option(argc, argv, "out", ""); !out.empty()) {
    serialization::StateDict plain;
    for (const auto& [name, t] : state.all) plain.emplace_back(name, t.detach());
    serialization::save(plain, out);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_resnet: %s\n", error.what());
    return 1;
  }
}
