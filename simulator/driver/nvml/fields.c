/* Batched field values; NVML_FI_... in nvml.h. */
#include <stdio.h>
#include <string.h>

#include "driver.h"

/*
 * Where the driver branch keeps the counters of software heat, hardware heat and power brake; 0 where it has none.
 * Ids 251 to 273 changed between CUDA 13.0 and 13.0 U1 (r580.82): NVML known issues, docs.nvidia.com/deploy/nvml-api.
 */
static unsigned int first_slowdown_counter(void)
{
    unsigned int major = 0, minor = 0;
    sscanf(plant->driver_version, "%u.%u", &major, &minor);
    if (major > 580 || (major == 580 && minor >= 82)) {
        return 269;
    }
    return major >= 575 ? 251 : 0;
}

void put_u32(nvmlFieldValue_t *field, unsigned int value)
{
    field->valueType = VALUE_U32;
    field->value.uiVal = value;
}

void put_u64(nvmlFieldValue_t *field, unsigned long long value)
{
    field->valueType = VALUE_U64;
    field->value.ullVal = value;
}

static nvmlReturn_t put_margin(nvmlFieldValue_t *field, const plant_fixed_t *fixed)
{
    const int margins[] = {
        fixed->tlimit_shutdown_c,
        fixed->tlimit_slowdown_c,
        fixed->tlimit_memory_max_c,
        fixed->tlimit_gpu_max_c,
    };
    field->valueType = VALUE_I32;
    if ((fixed->features & PLANT_FEATURE_TLIMIT) == 0) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    field->value.siVal = margins[field->fieldId - 193];
    return NVML_SUCCESS;
}

/* The ids that moved. What stands at the first id on the other branches is a power-smoothing flag, here always off. */
static nvmlReturn_t put_moved(nvmlFieldValue_t *field, const plant_reading_t *reading)
{
    unsigned int first = first_slowdown_counter();
    const uint64_t counters[] = {reading->sw_thermal_ns, reading->hw_thermal_ns, reading->power_brake_ns};
    if (first != 0 && field->fieldId >= first && field->fieldId < first + 3) {
        put_u64(field, counters[field->fieldId - first]);
        return NVML_SUCCESS;
    }
    if (field->fieldId == (first == 251 ? 256u : 251u)) {
        put_u32(field, 0);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t put_other(nvmlFieldValue_t *field, nvmlDevice_t device, const plant_reading_t *reading)
{
    switch (field->fieldId) {
    case 74: put_u64(field, reading->power_violation_ns); break;
    case 75: put_u64(field, reading->thermal_violation_ns); break;
    case 76 ... 81: put_u64(field, 0); break; /* sync boost, board, low use, reliability, clocks in all */
    case 82:
        REQUIRE_SENSOR(*reading, HBM_TEMP);
        put_u32(field, (unsigned int)reading->hbm_temp_c);
        break;
    case 170: put_u32(field, 0); break; /* links between chips of a superchip */
    case 184: put_u32(field, 0); break; /* partitions without a reset */
    case 193 ... 196: return put_margin(field, GPU_FIXED(device));
    case 199: put_u32(field, 0); break;
    case 226: case 227: case 230: put_u32(field, 0); break; /* neither reset nor drain nor recovery is asked for */
    case 251 ... 273: return put_moved(field, reading);
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t put_field(nvmlFieldValue_t *field, nvmlDevice_t device, const plant_reading_t *reading)
{
    nvmlReturn_t result = put_power_field(field, device, reading);
    if (result == NVML_ERROR_NOT_FOUND) {
        result = put_memory_error_field(field, device, reading);
    }
    if (result == NVML_ERROR_NOT_FOUND) {
        result = put_pcie_field(field, reading);
    }
    if (result == NVML_ERROR_NOT_FOUND) {
        result = put_nvlink_field(field, GPU_FIXED(device), reading);
    }
    return result == NVML_ERROR_NOT_FOUND ? put_other(field, device, reading) : result;
}

static bool is_power_sensor(unsigned int id)
{
    return id == 83 || id == 185 || id == 186 || id == 191;
}

/* A lost GPU is reported in each entry, and the call itself succeeds. */
API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    nvmlReturn_t state = enter_device(__func__, device);
    if (state != NVML_SUCCESS && state != NVML_ERROR_GPU_IS_LOST) {
        return state;
    }
    REQUIRE(values);
    if (count < 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    plant_reading_t reading;
    int64_t time_us = 0;
    CHECK(read_gpu(device, &reading, &time_us));
    for (int index = 0; index < count; index++) {
        nvmlFieldValue_t *field = &values[index];
        memset(&field->value, 0, sizeof field->value);
        field->valueType = VALUE_U32;
        field->latencyUsec = 0;
        field->timestamp = 0;
        field->nvmlReturn = state == NVML_SUCCESS ? put_field(field, device, &reading) : state;
        if (field->nvmlReturn == NVML_SUCCESS) {
            field->timestamp = is_power_sensor(field->fieldId) ? reading.sensor_time_us : time_us;
        }
    }
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceClearFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    ENTER_SETTER(device);
    REQUIRE(values);
    for (int index = 0; index < count; index++) {
        values[index].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
}
