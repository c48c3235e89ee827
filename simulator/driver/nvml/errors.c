/* What the codes mean, in words. */
#include "nvml_abi.h"

/* nvmlReturn_t, nvml.h; the gaps are codes that are not in use. */
static const char *const meanings[] = {
    [0] = "Success",
    [1] = "Uninitialized",
    [2] = "Invalid Argument",
    [3] = "Not Supported",
    [4] = "Insufficient Permissions",
    [5] = "Already Initialized",
    [6] = "Not Found",
    [7] = "Insufficient Size",
    [8] = "Insufficient External Power",
    [9] = "Driver Not Loaded",
    [10] = "Timeout",
    [11] = "Interrupt Request Issue",
    [12] = "NVML Shared Library Not Found",
    [13] = "Function Not Found",
    [14] = "Corrupted infoROM",
    [15] = "GPU is lost",
    [16] = "GPU requires reset",
    [17] = "GPU access blocked by the operating system",
    [18] = "Driver/library version mismatch",
    [19] = "In use by another client",
    [20] = "Insufficient Memory",
    [21] = "No data",
    [22] = "vGPU ECC is not supported",
    [23] = "Insufficient resources",
    [24] = "Frequency not supported",
    [25] = "Argument version mismatch",
    [26] = "Deprecated",
    [27] = "System not ready",
    [28] = "GPU not found",
    [29] = "Invalid state",
    [30] = "Reset type not supported",
};

API const char *nvmlErrorString(nvmlReturn_t result)
{
    unsigned int code = (unsigned int)result;
    return code < sizeof meanings / sizeof *meanings ? meanings[code] : "Unknown Error";
}
