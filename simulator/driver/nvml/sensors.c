/* What the plant measures: power, clocks, heat, load, memory, links and errors. */
#include <string.h>
#include <time.h>

#include "driver.h"

enum { CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEM, CLOCK_VIDEO, CLOCK_KINDS };
enum { CLOCK_CURRENT, CLOCK_APP_TARGET, CLOCK_APP_DEFAULT, CLOCK_BOOST_MAX };

/* A getter of one number of the moment. */
#define READING_GETTER(function, type, expression)                 \
    API nvmlReturn_t function(nvmlDevice_t device, type *value)    \
    {                                                              \
        REQUIRE(value);                                            \
        plant_reading_t reading;                                   \
        CHECK(read_gpu(device, &reading, NULL));                   \
        *value = (expression);                                     \
        return NVML_SUCCESS;                                       \
    }

READING_GETTER(nvmlDeviceGetPowerUsage, unsigned int, reading.power_mw)
READING_GETTER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, reading.energy_mj)
READING_GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, reading.event_reasons)
READING_GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, reading.event_reasons)
READING_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, reading.pcie_generation)
READING_GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, reading.pcie_width)
READING_GETTER(nvmlDeviceGetPcieReplayCounter, unsigned int, reading.pcie_replays)

/* Idle, applications clocks, software power cap, hardware slowdown, software and hardware heat, power brake. */
API nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    CHECK(device_ready(device));
    REQUIRE(reasons);
    *reasons = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x40 | 0x80;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    return nvmlDeviceGetSupportedClocksEventReasons(device, reasons);
}

API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int kind, unsigned int *clock_mhz)
{
    REQUIRE(clock_mhz);
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    switch (kind) {
    case CLOCK_GRAPHICS:
    case CLOCK_SM: *clock_mhz = reading.sm_clock_mhz; return NVML_SUCCESS;
    case CLOCK_MEM: *clock_mhz = reading.mem_clock_mhz; return NVML_SUCCESS;
    case CLOCK_VIDEO: *clock_mhz = reading.video_clock_mhz; return NVML_SUCCESS;
    default: return NVML_ERROR_INVALID_ARGUMENT;
    }
}

API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int kind, unsigned int *clock_mhz)
{
    REQUIRE(clock_mhz);
    CHECK(device_ready(device));
    switch (kind) {
    case CLOCK_GRAPHICS:
    case CLOCK_SM: *clock_mhz = GPU_FIXED(device)->max_sm_clock_mhz; return NVML_SUCCESS;
    case CLOCK_MEM: *clock_mhz = GPU_FIXED(device)->mem_clock_mhz; return NVML_SUCCESS;
    case CLOCK_VIDEO: *clock_mhz = GPU_FIXED(device)->max_video_clock_mhz; return NVML_SUCCESS;
    default: return NVML_ERROR_INVALID_ARGUMENT;
    }
}

API nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, unsigned int kind, unsigned int *clock_mhz)
{
    return nvmlDeviceGetMaxClockInfo(device, kind, clock_mhz);
}

API nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, unsigned int kind, unsigned int *clock_mhz)
{
    REQUIRE(clock_mhz);
    CHECK(device_ready(device));
    if (kind >= CLOCK_KINDS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (kind == CLOCK_VIDEO) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *clock_mhz = kind == CLOCK_MEM ? GPU_FIXED(device)->mem_clock_mhz : GPU_FIXED(device)->default_sm_clock_mhz;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, unsigned int kind, unsigned int *clock_mhz)
{
    CHECK(nvmlDeviceGetDefaultApplicationsClock(device, kind, clock_mhz));
    if (kind != CLOCK_MEM) {
        *clock_mhz = __atomic_load_n(&GPU_REQUEST(device)->app_sm_clock_mhz, __ATOMIC_ACQUIRE);
    }
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned int kind, unsigned int id, unsigned int *clock_mhz)
{
    switch (id) {
    case CLOCK_CURRENT: return nvmlDeviceGetClockInfo(device, kind, clock_mhz);
    case CLOCK_APP_TARGET: return nvmlDeviceGetApplicationsClock(device, kind, clock_mhz);
    case CLOCK_APP_DEFAULT: return nvmlDeviceGetDefaultApplicationsClock(device, kind, clock_mhz);
    case CLOCK_BOOST_MAX: return nvmlDeviceGetMaxCustomerBoostClock(device, kind, clock_mhz);
    default: return NVML_ERROR_INVALID_ARGUMENT;
    }
}

API nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int *count, unsigned int *clocks_mhz)
{
    CHECK(device_ready(device));
    REQUIRE(count);
    unsigned int room = *count;
    *count = 1;
    if (room < 1 || clocks_mhz == NULL) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    clocks_mhz[0] = GPU_FIXED(device)->mem_clock_mhz;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory_mhz,
                                                      unsigned int *count, unsigned int *clocks_mhz)
{
    CHECK(device_ready(device));
    REQUIRE(count);
    const plant_fixed_t *fixed = GPU_FIXED(device);
    if (memory_mhz != fixed->mem_clock_mhz) {
        return NVML_ERROR_NOT_FOUND;
    }
    unsigned int room = *count;
    *count = fixed->clock_count;
    if (room < fixed->clock_count || clocks_mhz == NULL) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    memcpy(clocks_mhz, fixed->clocks_mhz, fixed->clock_count * sizeof *clocks_mhz);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *temp_c)
{
    REQUIRE(temp_c);
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    if (sensor != 0) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *temp_c = (unsigned int)reading.gpu_temp_c;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    REQUIRE(temperature);
    if (temperature->version != VERSION_WORD(nvmlTemperature_t, 1)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    unsigned int temp_c;
    CHECK(nvmlDeviceGetTemperature(device, temperature->sensorType, &temp_c));
    temperature->temperature = (int)temp_c;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int threshold, unsigned int *temp_c)
{
    CHECK(device_ready(device));
    REQUIRE(temp_c);
    const plant_fixed_t *fixed = GPU_FIXED(device);
    switch (threshold) {
    case 0: *temp_c = fixed->shutdown_c; return NVML_SUCCESS;
    case 1: *temp_c = fixed->slowdown_c; return NVML_SUCCESS;
    case 2: *temp_c = fixed->memory_max_c; return NVML_SUCCESS;
    case 3: *temp_c = fixed->gpu_max_c; return NVML_SUCCESS;
    default: return threshold < 8 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    }
}

API nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, unsigned int policy, nvmlViolationTime_t *violation)
{
    REQUIRE(violation);
    plant_reading_t reading;
    int64_t time_us;
    CHECK(read_gpu(device, &reading, &time_us));
    if (policy >= 12 || (policy > 5 && policy < 10)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    violation->referenceTime = (unsigned long long)time_us;
    violation->violationTime = policy == 0   ? reading.power_violation_ns
                               : policy == 1 ? reading.thermal_violation_ns
                                             : 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    REQUIRE(utilization);
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    utilization->gpu = reading.gpu_util_percent;
    utilization->memory = reading.mem_util_percent;
    return NVML_SUCCESS;
}

/* The video engines exist and do nothing. */
static nvmlReturn_t engine_utilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
    CHECK(device_ready(device));
    REQUIRE(percent);
    REQUIRE(period_us);
    *percent = 0;
    *period_us = 167000; /* one sixth of a second, nvidia-smi --help-query-gpu */
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
    return engine_utilization(device, percent, period_us);
}

API nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
    return engine_utilization(device, percent, period_us);
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    REQUIRE(memory);
    if (memory->version != VERSION_WORD(nvmlMemory_v2_t, 2)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    memory->total = GPU_FIXED(device)->memory_total_bytes;
    memory->reserved = GPU_FIXED(device)->memory_reserved_bytes;
    memory->used = reading.memory_used_bytes;
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
}

/* The first version counts what the driver reserves as used. */
API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    REQUIRE(memory);
    nvmlMemory_v2_t detail = {.version = VERSION_WORD(nvmlMemory_v2_t, 2)};
    CHECK(nvmlDeviceGetMemoryInfo_v2(device, &detail));
    memory->total = detail.total;
    memory->used = detail.used + detail.reserved;
    memory->free = detail.free;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    CHECK(device_ready(device));
    REQUIRE(memory);
    memory->bar1Total = GPU_FIXED(device)->bar1_total_bytes;
    memory->bar1Used = 2u << 20; /* what an idle driver maps */
    memory->bar1Free = memory->bar1Total - memory->bar1Used;
    return NVML_SUCCESS;
}

/* nvml.h: the counter is watched for 20 ms, and the caller waits for it. */
API nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter, unsigned int *kib_per_s)
{
    REQUIRE(kib_per_s);
    CHECK(device_ready(device));
    if (counter > 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    *kib_per_s = counter == 0 ? reading.pcie_tx_kib_s : reading.pcie_rx_kib_s;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    CHECK(device_ready(device));
    REQUIRE(current);
    REQUIRE(pending);
    *current = *pending = 1;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int type, unsigned int counter,
                                             unsigned long long *count)
{
    REQUIRE(count);
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    if (type > 1 || counter > 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    const uint64_t counts[2][2] = {
        {reading.ecc_corrected, reading.ecc_corrected_aggregate},
        {reading.ecc_uncorrected, reading.ecc_uncorrected_aggregate},
    };
    *count = counts[type][counter];
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, unsigned int *pending)
{
    CHECK(device_ready(device));
    REQUIRE(pending);
    *pending = 0;
    return NVML_SUCCESS;
}

/* An SXM2 board has no fans, and MIG came with Ampere. */
static nvmlReturn_t not_supported(nvmlDevice_t device)
{
    CHECK(device_ready(device));
    return NVML_ERROR_NOT_SUPPORTED;
}

API nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *percent)
{
    (void)percent;
    return not_supported(device);
}

API nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *percent)
{
    (void)fan, (void)percent;
    return not_supported(device);
}

API nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int *count)
{
    (void)count;
    return not_supported(device);
}

API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    (void)current, (void)pending;
    return not_supported(device);
}

/* Driver models are a Windows notion. */
API nvmlReturn_t nvmlDeviceGetDriverModel_v2(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    (void)current, (void)pending;
    return not_supported(device);
}

API nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    return nvmlDeviceGetDriverModel_v2(device, current, pending);
}
