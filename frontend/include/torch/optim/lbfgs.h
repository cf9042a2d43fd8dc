#include <torch/optim/optimizers.h>
