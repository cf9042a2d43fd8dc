#include <torch/data/datasets.h>
