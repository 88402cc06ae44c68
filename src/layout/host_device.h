// KVASIR_HD marks what both the host and a GPU kernel call.
#pragma once

#if defined(__CUDACC__)
#define KVASIR_HD __host__ __device__
#else
#define KVASIR_HD
#endif
