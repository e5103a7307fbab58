#define MUSTER_KERNELS_SET x86_v3
#define MUSTER_KERNELS_NAME "x86-64-v3"
#include "core/tensor/kernels/table.inc"
