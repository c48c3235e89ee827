/* Clocks: what they are, what they may be, and what holds them down. */
#include <string.h>

#include "driver.h"

enum { CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEM, CLOCK_VIDEO, CLOCK_KINDS };
enum { CLOCK_CURRENT, CLOCK_APP_TARGET, CLOCK_APP_DEFAULT, CLOCK_BOOST_MAX };
enum { PSTATE_0 = 0, PSTATE_UNKNOWN = 32 };

FIXED_GETTER(nvmlDeviceGetPerformanceState, unsigned int, PSTATE_0) /* P0 always, as the V100 SXM2 shows */
FIXED_GETTER(nvmlDeviceGetPowerState, unsigned int, PSTATE_0)

/* Idle, applications clocks, software power cap, hardware slowdown, software and hardware heat, power brake. */
#define SUPPORTED_REASONS (0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x40 | 0x80)
READING_GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, reading.event_reasons)
FIXED_GETTER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, SUPPORTED_REASONS)
/* Their older names are functions of their own, so that a fault can be meant for either. */
READING_GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, reading.event_reasons)
FIXED_GETTER(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, SUPPORTED_REASONS)

static nvmlReturn_t clock_now(nvmlDevice_t device, unsigned int kind, unsigned int *clock_mhz)
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

static nvmlReturn_t clock_max(nvmlDevice_t device, unsigned int kind, unsigned int *clock_mhz)
{
    REQUIRE(clock_mhz);
    switch (kind) {
    case CLOCK_GRAPHICS:
    case CLOCK_SM: *clock_mhz = GPU_FIXED(device)->max_sm_clock_mhz; return NVML_SUCCESS;
    case CLOCK_MEM: *clock_mhz = GPU_FIXED(device)->mem_clock_mhz; return NVML_SUCCESS;
    case CLOCK_VIDEO: *clock_mhz = GPU_FIXED(device)->max_video_clock_mhz; return NVML_SUCCESS;
    default: return NVML_ERROR_INVALID_ARGUMENT;
    }
}

static nvmlReturn_t clock_default(nvmlDevice_t device, unsigned int kind, unsigned int *clock_mhz)
{
    REQUIRE(clock_mhz);
    if (kind >= CLOCK_KINDS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (kind == CLOCK_VIDEO) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *clock_mhz = kind == CLOCK_MEM ? GPU_FIXED(device)->mem_clock_mhz : GPU_FIXED(device)->default_sm_clock_mhz;
    return NVML_SUCCESS;
}

static nvmlReturn_t clock_asked(nvmlDevice_t device, unsigned int kind, unsigned int *clock_mhz)
{
    CHECK(clock_default(device, kind, clock_mhz));
    if (kind != CLOCK_MEM) {
        *clock_mhz = ASKED(device, app_sm_clock_mhz);
    }
    return NVML_SUCCESS;
}

#define CLOCK_GETTER(function, give)                                                                     \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned int kind, unsigned int *clock_mhz)           \
    {                                                                                                    \
        ENTER_DEVICE(device);                                                                            \
        return give(device, kind, clock_mhz);                                                            \
    }

CLOCK_GETTER(nvmlDeviceGetClockInfo, clock_now)
CLOCK_GETTER(nvmlDeviceGetMaxClockInfo, clock_max)
CLOCK_GETTER(nvmlDeviceGetMaxCustomerBoostClock, clock_max)
CLOCK_GETTER(nvmlDeviceGetDefaultApplicationsClock, clock_default)
CLOCK_GETTER(nvmlDeviceGetApplicationsClock, clock_asked)

API nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned int kind, unsigned int id, unsigned int *clock_mhz)
{
    ENTER_DEVICE(device);
    switch (id) {
    case CLOCK_CURRENT: return clock_now(device, kind, clock_mhz);
    case CLOCK_APP_TARGET: return clock_asked(device, kind, clock_mhz);
    case CLOCK_APP_DEFAULT: return clock_default(device, kind, clock_mhz);
    case CLOCK_BOOST_MAX: return clock_max(device, kind, clock_mhz);
    default: return NVML_ERROR_INVALID_ARGUMENT;
    }
}

API nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int *count, unsigned int *clocks_mhz)
{
    ENTER_DEVICE(device);
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
    ENTER_DEVICE(device);
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

API nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device, unsigned int *states,
                                                         unsigned int size_bytes)
{
    ENTER_DEVICE(device);
    REQUIRE(states);
    for (unsigned int index = 0; index < size_bytes / sizeof *states; index++) {
        states[index] = index == 0 ? PSTATE_0 : PSTATE_UNKNOWN;
    }
    return size_bytes < sizeof *states ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMinMaxClockOfPState(nvmlDevice_t device, unsigned int kind, unsigned int pstate,
                                                  unsigned int *min_mhz, unsigned int *max_mhz)
{
    ENTER_DEVICE(device);
    REQUIRE(min_mhz);
    if (pstate != PSTATE_0) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    CHECK(clock_max(device, kind, max_mhz));
    *min_mhz = kind == CLOCK_MEM ? *max_mhz : GPU_FIXED(device)->min_sm_clock_mhz;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, unsigned int policy, nvmlViolationTime_t *violation)
{
    ENTER_DEVICE(device);
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
