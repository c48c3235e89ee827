/* How busy the engines are. */
#include "driver.h"

#define ENGINE_PERIOD_US 167000 /* one sixth of a second, nvidia-smi --help-query-gpu */

API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    ENTER_DEVICE(device);
    REQUIRE(utilization);
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    REQUIRE_SENSOR(reading, UTIL);
    utilization->gpu = reading.gpu_util_percent;
    utilization->memory = reading.mem_util_percent;
    return NVML_SUCCESS;
}

/* The video engines exist and do nothing. */
static nvmlReturn_t engine_at_rest(unsigned int *percent, unsigned int *period_us)
{
    REQUIRE(percent);
    REQUIRE(period_us);
    *percent = 0;
    *period_us = ENGINE_PERIOD_US;
    return NVML_SUCCESS;
}

#define ENGINE(function, exists)                                                                         \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)       \
    {                                                                                                    \
        ENTER_DEVICE(device);                                                                            \
        return (exists) ? engine_at_rest(percent, period_us) : NVML_ERROR_NOT_SUPPORTED;                 \
    }

ENGINE(nvmlDeviceGetEncoderUtilization, true)
ENGINE(nvmlDeviceGetDecoderUtilization, true)
ENGINE(nvmlDeviceGetJpgUtilization, HAS(device, JPEG_AND_OFA))
ENGINE(nvmlDeviceGetOfaUtilization, HAS(device, JPEG_AND_OFA))

/* Sessions, frames per second and latency of encoder and frame capture: none. */
static nvmlReturn_t no_sessions(unsigned int *count, unsigned int *rate, unsigned int *latency_us)
{
    REQUIRE(count);
    REQUIRE(rate);
    REQUIRE(latency_us);
    *count = *rate = *latency_us = 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *count, unsigned int *rate,
                                           unsigned int *latency_us)
{
    ENTER_DEVICE(device);
    return no_sessions(count, rate, latency_us);
}

API nvmlReturn_t nvmlDeviceGetFBCStats(nvmlDevice_t device, unsigned int stats[3])
{
    ENTER_DEVICE(device);
    REQUIRE(stats);
    return no_sessions(&stats[0], &stats[1], &stats[2]);
}

#define SESSION_LIST(function)                                                                        \
    API nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, void *sessions)               \
    {                                                                                                 \
        (void)sessions;                                                                               \
        ENTER_DEVICE(device);                                                                         \
        REQUIRE(count);                                                                               \
        *count = 0;                                                                                   \
        return NVML_SUCCESS;                                                                          \
    }

SESSION_LIST(nvmlDeviceGetEncoderSessions)
SESSION_LIST(nvmlDeviceGetFBCSessions)
