#include <torch/serialize/archive.h>
