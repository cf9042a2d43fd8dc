// A network learns whether two of three inputs are set.
#include <cstdio>
#include <memory>
#include <vector>

#include "tessera/nn.h"
#include "tessera/optim.h"
#include "tessera/tensor.h"

int main() {
  namespace nn = tessera::nn;
  using tessera::DType, tessera::Tensor;
  const Tensor bits = tessera::arange(8, DType::kInt64);
  const Tensor x =
      tessera::stack(std::vector<Tensor>{bits.remainder(2), bits.div(2, "floor").remainder(2), bits.div(4, "floor")}, 1)
          .to(DType::kFloat32);
  const int64_t inputs[] = {1};
  const Tensor y = x.sum(inputs).ge(2).to(DType::kInt64);
  tessera::default_cpu_generator()->manual_seed(1);
  const auto net = nn::Sequential::make(
      {std::make_shared<nn::Linear>(3, 16), std::make_shared<nn::ReLU>(), std::make_shared<nn::Linear>(16, 2)});
  tessera::optim::Adam adam(net->parameters(), {.lr = 0.05});
  nn::CrossEntropyLoss loss;
  for (int i = 0; i < 100; ++i) {
    adam.zero_grad();
    loss((*net)(x), y).backward();
    adam.step();
  }
  std::printf("%d of 8 right\n", static_cast<int>(net->forward(x).argmax(1).eq(y).sum().item<int64_t>()));
}
