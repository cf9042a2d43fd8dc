#pragma once
#include "c10/util/intrusive_ptr.h"
