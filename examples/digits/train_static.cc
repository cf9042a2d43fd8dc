// Trains the MLP of train.py, with the same seed, batches and numbers: train_static [--data FILE] [--out CHECKPOINT]
// [--epochs N] [--seed N]
#include <cstdio>

#include "autograd/autograd.h"
#include "data/loader.h"
#include "examples/digits/digits.h"
#include "nn/loss_ops.h"
#include "optim/optimizers/adam.h"
#include "optim/optimizers/lr_scheduler.h"
#include "serialization/checkpoint.h"

namespace {

using namespace tessera;

constexpr int64_t kBatch = 32;

void train(nn::Module& model, const digits::Data& data, int64_t epochs) {
  optim::Adam optimizer(model.parameters(), {.lr = 2e-3});
  optim::CosineAnnealingLR scheduler(optimizer, epochs);
  const data::TensorDataset set({data.train.images, data.train.labels});
  const data::DataLoader loader(set, {.batch_size = kBatch, .shuffle = true});
  for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
    model.train();
    double total = 0;
    for (const data::Fields& batch : loader) {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy_loss(model(batch[0]), batch[1]);
      loss.backward();
      optimizer.step();
      total += double{loss.item<float>()} * static_cast<double>(batch[1].numel());
    }
    scheduler.step();
    model.eval();
    NoGradGuard no_grad;
    const Tensor scores = model(data.test.images);
    const double test_loss = cross_entropy_loss(scores, data.test.labels).item<float>();
    const double accuracy = static_cast<double>(digits::count_right(scores, data.test.labels)) /
                            static_cast<double>(data.test.labels.numel());
    std::printf("mlp epoch %2d  loss %.4f  test loss %.4f  test accuracy %.2f %%\n", static_cast<int>(epoch),
                total / static_cast<double>(data.train.labels.numel()), test_loss, 100 * accuracy);
    std::fflush(stdout);
  }
}

int run(int argc, char** argv) {
  const digits::Data data = digits::read(digits::option(argc, argv, "data", digits::kDefaultData));
  const int64_t epochs = digits::number_option(argc, argv, "epochs", 30);
  TESSERA_CHECK_AS(ValueError, epochs > 0, "--epochs must be at least 1");
  default_cpu_generator()->manual_seed(static_cast<uint64_t>(digits::number_option(argc, argv, "seed", 1)));
  const auto model = digits::make_mlp();
  std::printf("%s\n%d images to learn from, %d to test with\n", model->repr().c_str(),
              static_cast<int>(data.train.labels.numel()), static_cast<int>(data.test.labels.numel()));
  train(*model, data, epochs);
  const std::string out = digits::option(argc, argv, "out", "");
  if (!out.empty()) serialization::save(model->state_dict(), out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_static: %s\n", error.what());
    return 1;
  }
}
