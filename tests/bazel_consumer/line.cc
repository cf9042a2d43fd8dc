// A line through noisy points, by the documented C++ API of PyTorch.
#include <torch/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(0);
  const torch::Tensor x = torch::linspace(-1, 1, 64).unsqueeze(1), y = 3 * x - 1 + 0.01 * torch::randn({64, 1});
  torch::nn::Linear line(torch::nn::LinearOptions(1, 1));
  torch::optim::SGD optimizer(line->parameters(), torch::optim::SGDOptions(0.3).momentum(0.5));
  for (int i = 0; i < 60; ++i) {
    optimizer.zero_grad();
    torch::mse_loss(line(x), y).backward();
    optimizer.step();
  }
  std::printf("%.1f x + %.1f\n", line->weight.item<double>(), line->bias.item<double>());
}
