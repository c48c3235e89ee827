/* Process lists: always empty, since nothing but the plant runs on the GPUs. */
#include "driver.h"

static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned int *count)
{
    CHECK(device_ready(device));
    REQUIRE(count);
    *count = 0;
    return NVML_SUCCESS;
}

#define PROCESS_LIST(function)                                                                \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, void *processes)      \
    {                                                                                         \
        (void)processes;                                                                      \
        return no_processes(device, count);                                                   \
    }

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3)

API nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *list)
{
    REQUIRE(list);
    if (list->version != VERSION_WORD(nvmlProcessDetailList_t, 1)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    return no_processes(device, &list->numProcArrayEntries);
}

/* nvml.h: nothing newer than the time stamp is NOT_FOUND. */
API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, void *samples, unsigned int *count,
                                                 unsigned long long last_seen_us)
{
    (void)samples, (void)last_seen_us;
    CHECK(no_processes(device, count));
    return NVML_ERROR_NOT_FOUND;
}
