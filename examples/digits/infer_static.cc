// Reads the checkpoint of the MLP, whichever language wrote it, and tests it: infer_static CHECKPOINT [--data FILE]
#include <cstdio>

#include "examples/digits/digits.h"
#include "serialization/checkpoint.h"

namespace {

int run(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: infer_static CHECKPOINT [--data FILE]\n");
    return 2;
  }
  const digits::Data data = digits::read(digits::option(argc, argv, "data", digits::kDefaultData));
  const auto model = digits::make_mlp();
  model->load_state_dict(tessera::serialization::load_state_dict(argv[1]));
  model->eval();
  const int64_t right = digits::count_right((*model)(data.test.images), data.test.labels),
                count = data.test.labels.numel();
  std::printf("%s: test accuracy %.2f %% (%d of %d)\n", argv[1],
              100.0 * static_cast<double>(right) / static_cast<double>(count), static_cast<int>(right),
              static_cast<int>(count));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "infer_static: %s\n", error.what());
    return 1;
  }
}
