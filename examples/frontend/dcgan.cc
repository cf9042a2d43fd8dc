// Two networks learn from each other: one draws images, the other tells them from MNIST's; the documented C++ API.
//
//   dcgan FOLDER [BATCHES] [SAMPLES]
//
// FOLDER holds MNIST's training files. Prints both losses of every batch; SAMPLES gets what the first network draws in
// the end, as a tensor.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

constexpr int64_t kNoise = 16, kBatch = 16;

struct GeneratorImpl : torch::nn::Module {
  explicit GeneratorImpl(int64_t noise)
      : conv1(torch::nn::ConvTranspose2dOptions(noise, 32, 4).bias(false)),
        norm1(32),
        conv2(torch::nn::ConvTranspose2dOptions(32, 16, 3).stride(2).padding(1).bias(false)),
        norm2(16),
        conv3(torch::nn::ConvTranspose2dOptions(16, 8, 4).stride(2).padding(1).bias(false)),
        norm3(8),
        conv4(torch::nn::ConvTranspose2dOptions(8, 1, 4).stride(2).padding(1).bias(false)) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("conv3", conv3);
    register_module("conv4", conv4);
    register_module("norm1", norm1);
    register_module("norm2", norm2);
    register_module("norm3", norm3);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(norm1(conv1(x)));
    x = torch::relu(norm2(conv2(x)));
    x = torch::relu(norm3(conv3(x)));
    return torch::tanh(conv4(x));
  }

  torch::nn::ConvTranspose2d conv1;
  torch::nn::BatchNorm2d norm1;
  torch::nn::ConvTranspose2d conv2;
  torch::nn::BatchNorm2d norm2;
  torch::nn::ConvTranspose2d conv3;
  torch::nn::BatchNorm2d norm3;
  torch::nn::ConvTranspose2d conv4;
};
TORCH_MODULE(Generator);

// One after the other: the order in which a call's arguments draw their weights is the compiler's.
torch::nn::Sequential make_discriminator() {
  using namespace torch::nn;
  Sequential net;
  net->push_back(Conv2d(Conv2dOptions(1, 8, 4).stride(2).padding(1).bias(false)));
  net->push_back(LeakyReLU(LeakyReLUOptions().negative_slope(0.2)));
  net->push_back(Conv2d(Conv2dOptions(8, 16, 4).stride(2).padding(1).bias(false)));
  net->push_back(BatchNorm2d(16));
  net->push_back(LeakyReLU(LeakyReLUOptions().negative_slope(0.2)));
  net->push_back("judge", Conv2d(Conv2dOptions(16, 1, 7).stride(1).padding(0).bias(false)));
  net->push_back(Flatten());
  net->push_back(Sigmoid());
  return net;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: dcgan FOLDER [BATCHES] [SAMPLES]\n");
    return 2;
  }
  const int batches = argc > 2 ? std::atoi(argv[2]) : 100;
  torch::manual_seed(3);
  const torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
  Generator generator(kNoise);
  torch::nn::Sequential discriminator = make_discriminator();
  generator->to(device);
  discriminator->to(device);

  auto images = torch::data::datasets::MNIST(argv[1])
                    .map(torch::data::transforms::Normalize<>(0.5, 0.5))
                    .map(torch::data::transforms::Stack<>());
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      std::move(images), torch::data::DataLoaderOptions().batch_size(kBatch).workers(1));
  torch::optim::Adam draws(generator->parameters(), torch::optim::AdamOptions(2e-3).betas({0.5, 0.9}));
  torch::optim::Adam tells(discriminator->parameters(), torch::optim::AdamOptions(2e-3).betas({0.5, 0.9}));

  int done = 0;
  for (torch::data::Example<>& batch : *loader) {
    if (done == batches) break;
    discriminator->zero_grad();
    const auto real = batch.data.to(device);
    const auto real_labels = torch::empty(real.size(0), device).uniform_(0.8, 1.0);
    const auto real_loss = torch::binary_cross_entropy(discriminator->forward(real).flatten(), real_labels);
    real_loss.backward();
    const auto fake = generator->forward(torch::randn({real.size(0), kNoise, 1, 1}, device));
    const auto fake_labels = torch::zeros(real.size(0), device);
    const auto fake_loss = torch::binary_cross_entropy(discriminator->forward(fake.detach()).flatten(), fake_labels);
    fake_loss.backward();
    tells.step();

    generator->zero_grad();
    const auto judged = discriminator->forward(fake).flatten();
    const auto loss = torch::binary_cross_entropy(judged, torch::ones_like(judged));
    loss.backward();
    draws.step();
    std::printf("batch %d: %.9g %.9g\n", ++done, (real_loss + fake_loss).item<double>(), loss.item<double>());
  }
  torch::NoGradGuard no_grad;
  generator->eval();
  const torch::Tensor samples = generator->forward(torch::randn({4, kNoise, 1, 1}, device));
  std::printf("samples %.9g\n", samples.abs().mean().item<double>());
  if (argc > 3) torch::save(samples, argv[3]);
}
