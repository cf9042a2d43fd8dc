#include <torch/data/dataloader.h>
