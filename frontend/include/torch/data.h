#include <torch/data/dataloader.h>
#include <torch/data/transforms.h>
