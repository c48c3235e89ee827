/* Fans of boards that have their own. Their speed changes no temperature: the simulated boards are cooled by a chassis. */
#include "driver.h"

enum { POLICY_AUTOMATIC, POLICY_MANUAL }; /* nvml.h, nvmlFanControlPolicy_t */

/* Assumption: where the driver follows the heat, fans turn slowest up to 40 C and fastest at the slowdown. */
#define FAN_SLOWEST_C 40

static nvmlReturn_t enter_fan(nvmlDevice_t device, unsigned int fan)
{
    REQUIRE_PART(GPU_FIXED(device)->fan_count > 0);
    return fan < GPU_FIXED(device)->fan_count ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t fan_speed(nvmlDevice_t device, unsigned int fan, unsigned int *percent)
{
    CHECK(enter_fan(device, fan));
    REQUIRE(percent);
    unsigned int by_hand = ASKED(device, fan_by_hand[fan]);
    if (by_hand > 0) {
        *percent = by_hand - 1;
        return NVML_SUCCESS;
    }
    const plant_fixed_t *fixed = GPU_FIXED(device);
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    int range_c = (int)fixed->slowdown_c - FAN_SLOWEST_C;
    int above_c = reading.gpu_temp_c - FAN_SLOWEST_C;
    above_c = above_c < 0 ? 0 : above_c > range_c ? range_c : above_c;
    unsigned int range = fixed->fan_max_percent - fixed->fan_min_percent;
    *percent = fixed->fan_min_percent + (range_c > 0 ? range * (unsigned int)above_c / (unsigned int)range_c : range);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int *count)
{
    ENTER_DEVICE(device);
    REQUIRE(count);
    CHECK(enter_fan(device, 0));
    *count = GPU_FIXED(device)->fan_count;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *percent)
{
    ENTER_DEVICE(device);
    return fan_speed(device, 0, percent);
}

API nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *percent)
{
    ENTER_DEVICE(device);
    return fan_speed(device, fan, percent);
}

API nvmlReturn_t nvmlDeviceGetTargetFanSpeed(nvmlDevice_t device, unsigned int fan, unsigned int *percent)
{
    ENTER_DEVICE(device);
    return fan_speed(device, fan, percent);
}

API nvmlReturn_t nvmlDeviceGetFanControlPolicy_v2(nvmlDevice_t device, unsigned int fan, unsigned int *policy)
{
    ENTER_DEVICE(device);
    CHECK(enter_fan(device, fan));
    REQUIRE(policy);
    *policy = ASKED(device, fan_by_hand[fan]) > 0 ? POLICY_MANUAL : POLICY_AUTOMATIC;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMinMaxFanSpeed(nvmlDevice_t device, unsigned int *min_percent, unsigned int *max_percent)
{
    ENTER_DEVICE(device);
    REQUIRE(min_percent);
    REQUIRE(max_percent);
    CHECK(enter_fan(device, 0));
    *min_percent = GPU_FIXED(device)->fan_min_percent;
    *max_percent = GPU_FIXED(device)->fan_max_percent;
    return NVML_SUCCESS;
}

/* nvml.h: sets the policy to manual. */
API nvmlReturn_t nvmlDeviceSetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int percent)
{
    ENTER_SETTER(device);
    CHECK(enter_fan(device, fan));
    if (percent < GPU_FIXED(device)->fan_min_percent || percent > GPU_FIXED(device)->fan_max_percent) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    ASK(device, fan_by_hand[fan], percent + 1);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceSetDefaultFanSpeed_v2(nvmlDevice_t device, unsigned int fan)
{
    ENTER_SETTER(device);
    CHECK(enter_fan(device, fan));
    ASK(device, fan_by_hand[fan], 0);
    return NVML_SUCCESS;
}

/* Manual holds the speed at which the fan turns now. */
API nvmlReturn_t nvmlDeviceSetFanControlPolicy(nvmlDevice_t device, unsigned int fan, unsigned int policy)
{
    ENTER_SETTER(device);
    CHECK(enter_fan(device, fan));
    if (policy > POLICY_MANUAL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned int percent = 0;
    CHECK(fan_speed(device, fan, &percent));
    ASK(device, fan_by_hand[fan], policy == POLICY_MANUAL ? percent + 1 : 0);
    return NVML_SUCCESS;
}
