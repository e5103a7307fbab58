#define MUSTER_KERNELS_SET x86_v4
#define MUSTER_KERNELS_NAME "x86-64-v4"
#include "core/tensor/kernels/table.inc"
