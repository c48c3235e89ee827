/* Temperatures, their limits, and the fans that an SXM module does not have. */
#include <string.h>

#include "driver.h"

static nvmlReturn_t temperature(nvmlDevice_t device, unsigned int sensor, int *temp_c)
{
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    if (sensor != 0) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    REQUIRE_SENSOR(reading, GPU_TEMP);
    *temp_c = reading.gpu_temp_c;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *temp_c)
{
    ENTER_DEVICE(device);
    REQUIRE(temp_c);
    return temperature(device, sensor, (int *)temp_c);
}

API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *value)
{
    ENTER_DEVICE(device);
    REQUIRE(value);
    REQUIRE_VERSION(value, nvmlTemperature_t, 1);
    return temperature(device, value->sensorType, &value->temperature);
}

API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int threshold, unsigned int *temp_c)
{
    ENTER_DEVICE(device);
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

/* Only where the driver counts temperatures as margins at all. */
API nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *margin)
{
    ENTER_DEVICE(device);
    REQUIRE(margin);
    REQUIRE_VERSION(margin, nvmlMarginTemperature_t, 1);
    REQUIRE_PART(HAS(device, TLIMIT));
    int temp_c;
    CHECK(temperature(device, 0, &temp_c));
    margin->marginTemperature = (int)GPU_FIXED(device)->gpu_max_c - temp_c;
    return NVML_SUCCESS;
}

/* One sensor of the GPU's own (controller 1) on the GPU (target 1); index 15 asks for all. */
API nvmlReturn_t nvmlDeviceGetThermalSettings(nvmlDevice_t device, unsigned int index,
                                              nvmlGpuThermalSettings_t *settings)
{
    ENTER_DEVICE(device);
    REQUIRE(settings);
    if (index != 0 && index != 15) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    memset(settings, 0, sizeof *settings);
    settings->count = 1;
    settings->sensor[0].controller = 1;
    settings->sensor[0].target = 1;
    settings->sensor[0].defaultMaxTemp = (int)GPU_FIXED(device)->shutdown_c;
    return temperature(device, 0, &settings->sensor[0].currentTemp);
}
