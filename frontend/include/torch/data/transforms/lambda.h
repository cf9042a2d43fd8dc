#include <torch/data/transforms.h>
