#pragma once
#include "ATen/core/function_schema.h"
