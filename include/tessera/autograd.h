// backward() and grad(), functions of one's own, hooks.
#pragma once

#include "autograd/autograd.h"
#include "autograd/function.h"
#include "autograd/hooks.h"
