#include <torch/data/samplers.h>
