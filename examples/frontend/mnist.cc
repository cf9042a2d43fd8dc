// Trains a small convolutional network on handwritten digits, with nothing but the documented C++ front end:
//
//   mnist FOLDER [EPOCHS] [BATCHES] [CHECKPOINT]
//
// FOLDER holds the four files of MNIST, unpacked; an epoch has all batches, or BATCHES of them. Prints the loss of
// every fifth batch and what is right of the test images; the network goes to CHECKPOINT.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

struct NetImpl : torch::nn::Module {
  NetImpl()
      : conv1(torch::nn::Conv2dOptions(1, 8, 5)),
        conv2(torch::nn::Conv2dOptions(8, 16, 5).bias(false)),
        norm(16),
        fc1(16 * 4 * 4, 32),
        fc2(32, 10) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("norm", norm);
    register_module("drop", drop);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::max_pool2d(torch::relu(norm(conv2(x))), 2);
    x = torch::relu(fc1(x.flatten(1)));
    x = fc2(drop(x));
    return torch::log_softmax(x, /*dim=*/1);
  }

  torch::nn::Conv2d conv1, conv2;
  torch::nn::BatchNorm2d norm;
  torch::nn::Dropout drop{0.25};
  torch::nn::Linear fc1, fc2;
};
TORCH_MODULE(Net);

template <class Loader>
void train(int epoch, int batches, Net& net, Loader& loader, torch::optim::Optimizer& optimizer) {
  net->train();
  int batch = 0;
  for (auto& example : loader) {
    if (batch == batches) break;
    optimizer.zero_grad();
    auto loss = torch::nll_loss(net(example.data), example.target);
    TORCH_CHECK(std::isfinite(loss.template item<float>()), "the loss is lost");
    loss.backward();
    optimizer.step();
    if (batch++ % 5 == 0) std::printf("epoch %d batch %d loss %.9g\n", epoch, batch, loss.template item<double>());
  }
}

template <class Loader>
void test(int batches, Net& net, Loader& loader) {
  torch::NoGradGuard no_grad;
  net->eval();
  double loss = 0;
  int64_t right = 0, of = 0;
  for (const auto& example : loader) {
    if (batches-- == 0) break;
    const auto output = net(example.data);
    loss += torch::nll_loss(output, example.target, /*weight=*/{}, at::Reduction::Sum).template item<double>();
    right += output.argmax(1).eq(example.target).sum().template item<int64_t>();
    of += example.data.size(0);
  }
  std::printf("%lld of %lld right, loss %.9g\n", static_cast<long long>(right), static_cast<long long>(of), loss / of);
}

int main(int argc, char** argv) {
  namespace data = torch::data;
  if (argc < 2) {
    std::fprintf(stderr, "usage: mnist FOLDER [EPOCHS] [BATCHES] [CHECKPOINT]\n");
    return 2;
  }
  torch::manual_seed(1);
  const auto prepared = [&](data::datasets::MNIST::Mode mode) {
    return data::datasets::MNIST(argv[1], mode)
        .map(data::transforms::Normalize<>(0.1307, 0.3081))
        .map(data::transforms::Stack<>());
  };
  auto images = data::make_data_loader<data::samplers::SequentialSampler>(prepared(data::datasets::MNIST::Mode::kTrain),
                                                                          data::DataLoaderOptions().batch_size(16));
  auto others = data::make_data_loader<data::samplers::SequentialSampler>(prepared(data::datasets::MNIST::Mode::kTest),
                                                                          /*batch_size=*/50);
  Net net;
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
  torch::optim::StepLR schedule(optimizer, /*step_size=*/1, /*gamma=*/0.5);
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 1, batches = argc > 3 ? std::atoi(argv[3]) : -1;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    schedule.step();  // the first changes nothing
    train(epoch, batches, net, *images, optimizer);
    test(batches, net, *others);
  }
  if (argc > 4) torch::save(net, argv[4]);
}
