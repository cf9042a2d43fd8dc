// backward() and grad().
#pragma once

#include "autograd/autograd.h"
