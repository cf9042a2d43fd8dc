// Libraries that are not here.
#pragma once

#define AT_MKL_ENABLED() 0
#define AT_MKLDNN_ENABLED() 0
#define AT_POCKETFFT_ENABLED() 0
#define AT_NNPACK_ENABLED() 0
#ifndef AT_PARALLEL_OPENMP
#define AT_PARALLEL_OPENMP 0
#endif
#define AT_PARALLEL_NATIVE 1
