/* Batched field values and the driver's own sample buffer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

/* Samples handed out at once: fewer than the buffer holds, so the plant never overwrites what is being copied. */
#define SAMPLES_GIVEN (PLANT_SAMPLE_SLOTS - 8)

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

static void put_u32(nvmlFieldValue_t *field, unsigned int value)
{
    field->valueType = VALUE_U32;
    field->value.uiVal = value;
}

static void put_u64(nvmlFieldValue_t *field, unsigned long long value)
{
    field->valueType = VALUE_U64;
    field->value.ullVal = value;
}

static nvmlReturn_t put_margin(nvmlFieldValue_t *field, const plant_fixed_t *fixed, int value)
{
    field->valueType = VALUE_I32;
    if ((fixed->features & PLANT_FEATURE_TLIMIT) == 0) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    field->value.siVal = value;
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

static nvmlReturn_t put_setting(nvmlFieldValue_t *field, nvmlDevice_t device)
{
    const plant_fixed_t *fixed = GPU_FIXED(device);
    uint32_t limit_mw = __atomic_load_n(&GPU_REQUEST(device)->power_limit_mw, __ATOMIC_ACQUIRE);
    switch (field->fieldId) {
    case 1: case 2: put_u32(field, 1); break;            /* ECC mode, now and pending */
    case 29: case 30: case 31: case 92: case 93: put_u32(field, 0); break; /* retired pages */
    case 91: put_u32(field, fixed->nvlink_count); break;
    case 187: put_u32(field, fixed->power_min_mw); break;
    case 188: put_u32(field, fixed->power_max_mw); break;
    case 189: put_u32(field, fixed->power_default_mw); break;
    case 190: case 192: put_u32(field, limit_mw); break; /* in force, requested */
    case 193: return put_margin(field, fixed, fixed->tlimit_shutdown_c);
    case 194: return put_margin(field, fixed, fixed->tlimit_slowdown_c);
    case 195: return put_margin(field, fixed, fixed->tlimit_memory_max_c);
    case 196: return put_margin(field, fixed, fixed->tlimit_gpu_max_c);
    case 230: put_u32(field, 0); break;                  /* recovery action: none */
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t put_field(nvmlFieldValue_t *field, nvmlDevice_t device, const plant_reading_t *reading)
{
    switch (field->fieldId) {
    case 3: put_u64(field, reading->ecc_corrected); break;
    case 4: put_u64(field, reading->ecc_uncorrected); break;
    case 5: put_u64(field, reading->ecc_corrected_aggregate); break;
    case 6: put_u64(field, reading->ecc_uncorrected_aggregate); break;
    case 74: put_u64(field, reading->power_violation_ns); break;
    case 75: put_u64(field, reading->thermal_violation_ns); break;
    case 76: case 77: case 78: case 79: put_u64(field, 0); break;
    case 82: put_u32(field, (unsigned int)reading->hbm_temp_c); break;
    case 83: case 191: put_u64(field, reading->energy_mj); break;
    case 94: put_u32(field, reading->pcie_replays); break;
    case 95: put_u32(field, 0); break;
    case 186: put_u32(field, reading->power_mw); break;
    default:
        if (field->fieldId >= 251 && field->fieldId <= 273) {
            return put_moved(field, reading);
        }
        return put_setting(field, device);
    }
    return NVML_SUCCESS;
}

static bool is_power_sensor(unsigned int id)
{
    return id == 83 || id == 186 || id == 191;
}

API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    REQUIRE(values);
    if (count < 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    plant_reading_t reading;
    int64_t time_us = 0;
    nvmlReturn_t state = read_gpu(device, &reading, &time_us);
    if (state != NVML_SUCCESS && state != NVML_ERROR_GPU_IS_LOST) {
        return state;
    }
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

/* Power (0) and processor clock (5) are kept; without a buffer only the size is told. */
API nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, unsigned int kind, unsigned long long last_seen_us,
                                      unsigned int *value_type, unsigned int *count, nvmlSample_t *samples)
{
    CHECK(device_ready(device));
    REQUIRE(value_type);
    REQUIRE(count);
    if (kind > 9) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (kind != 0 && kind != 5) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *value_type = VALUE_U32;
    uint64_t written = __atomic_load_n(&plant->sample_count[device->index], __ATOMIC_ACQUIRE);
    unsigned int kept = written < SAMPLES_GIVEN ? (unsigned int)written : SAMPLES_GIVEN;
    if (samples == NULL) {
        *count = SAMPLES_GIVEN;
        return NVML_SUCCESS;
    }
    unsigned int given = 0;
    for (uint64_t position = written - kept; position < written && given < *count; position++) {
        plant_sample_t sample = plant->samples[device->index][position % PLANT_SAMPLE_SLOTS];
        if (sample.time_us > last_seen_us) {
            samples[given].timeStamp = sample.time_us;
            samples[given].sampleValue.ullVal = 0;
            samples[given].sampleValue.uiVal = kind == 0 ? sample.power_mw : sample.sm_clock_mhz;
            given++;
        }
    }
    *count = given;
    return given > 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
