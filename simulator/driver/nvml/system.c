/* Values of the driver itself and of the machine, apart from its GPUs. */
#include <stdio.h>
#include <string.h>

#include "driver.h"

API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    ENTER();
    return copy_text(version, length, plant->driver_version);
}

API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    ENTER();
    return copy_text(version, length, plant->nvml_version);
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    ENTER();
    REQUIRE(version);
    *version = plant->cuda_version;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) SAME_AS(nvmlSystemGetCudaDriverVersion_v2);

/* The branch is named after the first part of the version: r580_00. */
API nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *info, unsigned int length)
{
    ENTER();
    REQUIRE(info);
    REQUIRE_VERSION(info, nvmlSystemDriverBranchInfo_t, 1);
    unsigned int major = 0;
    sscanf(plant->driver_version, "%u", &major);
    char branch[sizeof info->branch];
    snprintf(branch, sizeof branch, "r%u_00", major);
    return copy_text(info->branch, length < sizeof branch ? length : sizeof branch, branch);
}

/* Only the processes of the simulated job are known. */
API nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    ENTER();
    REQUIRE(name);
    if (length == 0 || pid == 0) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned int index = 0; index < plant->gpu_count; index++) {
        plant_reading_t reading;
        CHECK(read_gpu(device_at(index), &reading, NULL));
        if (reading.process_pid == pid) {
            return copy_text(name, length, "python3");
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

/* A count of things that such a node does not have. */
#define NONE_OF(function)                            \
    API nvmlReturn_t function(unsigned int *count)   \
    {                                                \
        ENTER();                                     \
        REQUIRE(count);                              \
        *count = 0;                                  \
        return NVML_SUCCESS;                         \
    }

NONE_OF(nvmlGetExcludedDeviceCount)
NONE_OF(nvmlUnitGetCount)

API nvmlReturn_t nvmlSystemGetHicVersion(unsigned int *count, void *entries)
{
    (void)entries;
    ENTER();
    REQUIRE(count);
    *count = 0;
    return NVML_SUCCESS;
}

/* Confidential computing is off, and nothing waits for it. */
API nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *state)
{
    ENTER();
    REQUIRE(state);
    *state = (nvmlConfComputeSystemState_t){0};
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetConfComputeCapabilities(nvmlConfComputeSystemCaps_t *capabilities)
{
    ENTER();
    REQUIRE(capabilities);
    *capabilities = (nvmlConfComputeSystemCaps_t){.cpuCaps = 0, .gpusCaps = 0};
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetConfComputeGpusReadyState(unsigned int *accepting)
{
    ENTER();
    REQUIRE(accepting);
    *accepting = 1; /* without confidential computing, GPUs accept work */
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t device, nvmlConfComputeMemSizeInfo_t *info)
{
    ENTER_DEVICE(device);
    REQUIRE(info);
    info->protectedMemSizeKib = 0;
    info->unprotectedMemSizeKib = GPU_FIXED(device)->memory_total_bytes / 1024;
    return NVML_SUCCESS;
}
