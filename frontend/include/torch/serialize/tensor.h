#include <torch/serialize.h>
