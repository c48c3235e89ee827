/* Power and energy, and the limits of power. */
#include "driver.h"

READING_GETTER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, reading.energy_mj)
FIXED_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, fixed->power_default_mw)
FIXED_GETTER(nvmlDeviceGetPowerManagementMode, unsigned int, 1) /* limits act */
FIXED_GETTER(nvmlDeviceGetPowerManagementLimit, unsigned int, ASKED(device, power_limit_mw))
FIXED_GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, ASKED(device, power_limit_mw))

/* nvml.h: the mean of one second on Ampere and newer except GA100, before that what the sensor showed last. */
API nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power_mw)
{
    ENTER_DEVICE(device);
    REQUIRE(power_mw);
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    REQUIRE_SENSOR(reading, POWER);
    *power_mw = HAS(device, AVERAGE_POWER) ? reading.power_average_mw : reading.power_mw;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *min_mw,
                                                              unsigned int *max_mw)
{
    ENTER_DEVICE(device);
    REQUIRE(min_mw);
    REQUIRE(max_mw);
    *min_mw = GPU_FIXED(device)->power_min_mw;
    *max_mw = GPU_FIXED(device)->power_max_mw;
    return NVML_SUCCESS;
}

static nvmlReturn_t limit_power(nvmlDevice_t device, unsigned int limit_mw)
{
    if (limit_mw < GPU_FIXED(device)->power_min_mw || limit_mw > GPU_FIXED(device)->power_max_mw) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    ASK(device, power_limit_mw, limit_mw);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int limit_mw)
{
    ENTER_SETTER(device);
    return limit_power(device, limit_mw);
}

/* Scopes: 0 GPU, 1 module and 2 memory of superchips. */
API nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device, nvmlPowerValue_v2_t *value)
{
    ENTER_SETTER(device);
    REQUIRE(value);
    REQUIRE_VERSION(value, nvmlPowerValue_v2_t, 2);
    return value->powerScope == 0 ? limit_power(device, value->powerValueMw) : NVML_ERROR_NOT_SUPPORTED;
}

/* The scope stands in the field's `scopeId`. */
nvmlReturn_t put_power_field(nvmlFieldValue_t *field, nvmlDevice_t device, const plant_reading_t *reading)
{
    const plant_fixed_t *fixed = GPU_FIXED(device);
    bool is_power = field->fieldId == 83 || (field->fieldId >= 185 && field->fieldId <= 192);
    if (!is_power) {
        return NVML_ERROR_NOT_FOUND;
    }
    if (field->fieldId != 83 && field->scopeId != 0) {
        return field->scopeId < 4 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    }
    switch (field->fieldId) {
    case 185:
        REQUIRE_PART(HAS(device, AVERAGE_POWER));
        REQUIRE_SENSOR(*reading, POWER);
        put_u32(field, reading->power_average_mw);
        break;
    case 186:
        REQUIRE_SENSOR(*reading, POWER);
        put_u32(field, reading->power_mw);
        break;
    case 187: put_u32(field, fixed->power_min_mw); break;
    case 188: put_u32(field, fixed->power_max_mw); break;
    case 189: put_u32(field, fixed->power_default_mw); break;
    case 190: case 192: put_u32(field, ASKED(device, power_limit_mw)); break; /* in force, requested */
    default: put_u64(field, reading->energy_mj); break;
    }
    return NVML_SUCCESS;
}
