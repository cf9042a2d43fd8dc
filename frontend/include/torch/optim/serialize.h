#include <torch/optim/optimizer.h>
