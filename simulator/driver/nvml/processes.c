/* Processes on the GPUs: at most one, the rank of the job that runs. */
#include <string.h>

#include "driver.h"

#define NO_MIG 0xffffffffu
#define ACCOUNTING_SLOTS 4000 /* nvidia-smi -q -d ACCOUNTING, buffer size */

static nvmlReturn_t tell_count(unsigned int here, unsigned int *count, const void *room)
{
    REQUIRE(count);
    bool fits = here <= *count && (here == 0 || room != NULL);
    *count = here;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

static nvmlReturn_t list_first_version(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *list)
{
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    CHECK(tell_count(reading.process_pid != 0, count, list));
    if (*count > 0) {
        list[0] = (nvmlProcessInfo_v1_t){.pid = reading.process_pid, .usedGpuMemory = reading.process_bytes};
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t list_processes(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *list)
{
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    CHECK(tell_count(reading.process_pid != 0, count, list));
    if (*count > 0) {
        list[0] = (nvmlProcessInfo_t){
            .pid = reading.process_pid,
            .usedGpuMemory = reading.process_bytes,
            .gpuInstanceId = NO_MIG,
            .computeInstanceId = NO_MIG,
        };
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t list_none(nvmlDevice_t device, unsigned int *count, void *list)
{
    (void)device;
    return tell_count(0, count, list);
}

#define PROCESS_LIST(function, type, give)                                                 \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, type *list)        \
    {                                                                                      \
        ENTER_DEVICE(device);                                                              \
        return give(device, count, list);                                                  \
    }

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, list_first_version)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_t, list_processes)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, list_processes)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, void, list_none)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, void, list_none)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, void, list_none)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, void, list_none)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, void, list_none)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, void, list_none)

/* Modes: 0 compute, 1 graphics, 2 MPS. */
API nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *list)
{
    ENTER_DEVICE(device);
    REQUIRE(list);
    REQUIRE_VERSION(list, nvmlProcessDetailList_t, 1);
    if (list->mode > 2) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    bool runs = list->mode == 0 && reading.process_pid != 0;
    CHECK(tell_count(runs, &list->numProcArrayEntries, list->procArray));
    if (runs) {
        list->procArray[0] = (nvmlProcessDetail_t){
            .pid = reading.process_pid,
            .usedGpuMemory = reading.process_bytes,
            .gpuInstanceId = NO_MIG,
            .computeInstanceId = NO_MIG,
        };
    }
    return NVML_SUCCESS;
}

/* nvml.h: nothing newer than the time stamp is NOT_FOUND. */
static nvmlReturn_t newer_sample(nvmlDevice_t device, unsigned long long last_seen_us, plant_reading_t *reading)
{
    CHECK(read_gpu(device, reading, NULL));
    bool newer = reading->process_pid != 0 && (unsigned long long)reading->util_time_us > last_seen_us;
    return newer ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                                 unsigned int *count, unsigned long long last_seen_us)
{
    ENTER_DEVICE(device);
    REQUIRE(count);
    plant_reading_t reading;
    nvmlReturn_t found = newer_sample(device, last_seen_us, &reading);
    if (found != NVML_SUCCESS) {
        *count = 0;
        return found;
    }
    CHECK(tell_count(1, count, samples));
    samples[0] = (nvmlProcessUtilizationSample_t){
        .pid = reading.process_pid,
        .timeStamp = (unsigned long long)reading.util_time_us,
        .smUtil = reading.gpu_util_percent,
        .memUtil = reading.mem_util_percent,
    };
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
    ENTER_DEVICE(device);
    REQUIRE(info);
    REQUIRE_VERSION(info, nvmlProcessesUtilizationInfo_t, 1);
    plant_reading_t reading;
    CHECK(newer_sample(device, info->lastSeenTimeStamp, &reading));
    CHECK(tell_count(1, &info->processSamplesCount, info->procUtilArray));
    info->procUtilArray[0] = (nvmlProcessUtilizationInfo_t){
        .timeStamp = (unsigned long long)reading.util_time_us,
        .pid = reading.process_pid,
        .smUtil = reading.gpu_util_percent,
        .memUtil = reading.mem_util_percent,
    };
    return NVML_SUCCESS;
}

FIXED_GETTER(nvmlDeviceGetAccountingMode, unsigned int, ASKED(device, accounting))
FIXED_GETTER(nvmlDeviceGetAccountingBufferSize, unsigned int, ACCOUNTING_SLOTS)

API nvmlReturn_t nvmlDeviceSetAccountingMode(nvmlDevice_t device, unsigned int mode)
{
    ENTER_SETTER(device);
    if (mode > 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    ASK(device, accounting, mode);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids)
{
    ENTER_DEVICE(device);
    REQUIRE_PART(ASKED(device, accounting) != 0);
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    CHECK(tell_count(reading.process_pid != 0, count, pids));
    if (*count > 0) {
        pids[0] = reading.process_pid;
    }
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid, nvmlAccountingStats_t *stats)
{
    ENTER_DEVICE(device);
    REQUIRE(stats);
    REQUIRE_PART(ASKED(device, accounting) != 0);
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    if (pid == 0 || reading.process_pid != pid) {
        return NVML_ERROR_NOT_FOUND;
    }
    *stats = (nvmlAccountingStats_t){
        .gpuUtilization = reading.gpu_util_percent,
        .memoryUtilization = reading.mem_util_percent,
        .maxMemoryUsage = reading.process_bytes,
        .startTime = (unsigned long long)reading.process_start_us,
        .isRunning = 1, /* and so `time` stays 0, nvml.h */
    };
    return NVML_SUCCESS;
}

/* nvml.h: the processes that still run stay, and there are no others. */
API nvmlReturn_t nvmlDeviceClearAccountingPids(nvmlDevice_t device)
{
    ENTER_SETTER(device);
    return NVML_SUCCESS;
}
