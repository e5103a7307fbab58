#define MUSTER_KERNELS_SET baseline
#define MUSTER_KERNELS_NAME "baseline"
#include "core/tensor/kernels/table.inc"
