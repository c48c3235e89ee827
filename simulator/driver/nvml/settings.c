/* What a user may change. Each setter writes a request that the plant obeys and the getters show. */
#include "driver.h"

/* nvml.h: instead of megahertz, a pair of limit ids. */
#define CLOCK_LIMIT_RANGE 0xffffff00u
#define CLOCK_LIMIT_TDP 0xffffff01u
#define CLOCK_LIMIT_UNLIMITED 0xffffff02u

static nvmlReturn_t privileged(nvmlDevice_t device)
{
    CHECK(device_ready(device));
    return is_root() && may_write() ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

/* Applications clocks may be opened to everybody (nvidia-smi --applications-clocks-permission). */
static nvmlReturn_t privileged_for_clocks(nvmlDevice_t device)
{
    CHECK(device_ready(device));
    bool allowed = is_root() || plant->clocks_unrestricted != 0;
    return allowed && may_write() ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

API nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *limit_mw)
{
    CHECK(device_ready(device));
    REQUIRE(limit_mw);
    *limit_mw = __atomic_load_n(&GPU_REQUEST(device)->power_limit_mw, __ATOMIC_ACQUIRE);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *limit_mw)
{
    return nvmlDeviceGetPowerManagementLimit(device, limit_mw);
}

API nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *min_mw,
                                                              unsigned int *max_mw)
{
    CHECK(device_ready(device));
    REQUIRE(min_mw);
    REQUIRE(max_mw);
    *min_mw = GPU_FIXED(device)->power_min_mw;
    *max_mw = GPU_FIXED(device)->power_max_mw;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int limit_mw)
{
    CHECK(privileged(device));
    if (limit_mw < GPU_FIXED(device)->power_min_mw || limit_mw > GPU_FIXED(device)->power_max_mw) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    __atomic_store_n(&GPU_REQUEST(device)->power_limit_mw, limit_mw, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

static bool is_supported_clock(const plant_fixed_t *fixed, unsigned int clock_mhz)
{
    for (unsigned int index = 0; index < fixed->clock_count; index++) {
        if (fixed->clocks_mhz[index] == clock_mhz) {
            return true;
        }
    }
    return false;
}

API nvmlReturn_t nvmlDeviceSetApplicationsClocks(nvmlDevice_t device, unsigned int mem_mhz, unsigned int sm_mhz)
{
    CHECK(privileged_for_clocks(device));
    if (mem_mhz != GPU_FIXED(device)->mem_clock_mhz || !is_supported_clock(GPU_FIXED(device), sm_mhz)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    __atomic_store_n(&GPU_REQUEST(device)->app_sm_clock_mhz, sm_mhz, __ATOMIC_RELEASE);
    __atomic_store_n(&GPU_REQUEST(device)->app_clock_is_set, 1, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceResetApplicationsClocks(nvmlDevice_t device)
{
    CHECK(privileged_for_clocks(device));
    __atomic_store_n(&GPU_REQUEST(device)->app_clock_is_set, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&GPU_REQUEST(device)->app_sm_clock_mhz, GPU_FIXED(device)->default_sm_clock_mhz,
                     __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

static unsigned int limit_to_mhz(const plant_fixed_t *fixed, unsigned int limit)
{
    return limit == CLOCK_LIMIT_TDP ? fixed->default_sm_clock_mhz : fixed->max_sm_clock_mhz;
}

static bool is_limit(unsigned int clock)
{
    return clock == CLOCK_LIMIT_TDP || clock == CLOCK_LIMIT_UNLIMITED;
}

API nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned int min_mhz, unsigned int max_mhz)
{
    CHECK(privileged(device));
    const plant_fixed_t *fixed = GPU_FIXED(device);
    if ((fixed->features & PLANT_FEATURE_LOCKED_CLOCKS) == 0) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    if (min_mhz >= CLOCK_LIMIT_RANGE || max_mhz >= CLOCK_LIMIT_RANGE) {
        if (!is_limit(min_mhz) || !is_limit(max_mhz)) {
            return NVML_ERROR_INVALID_ARGUMENT; /* the two ways are never mixed */
        }
        min_mhz = limit_to_mhz(fixed, min_mhz);
        max_mhz = limit_to_mhz(fixed, max_mhz);
    }
    if (max_mhz == 0 || min_mhz > max_mhz) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    __atomic_store_n(&GPU_REQUEST(device)->locked_clocks, ((uint64_t)min_mhz << 32) | max_mhz, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device)
{
    CHECK(privileged(device));
    __atomic_store_n(&GPU_REQUEST(device)->locked_clocks, 0, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

/* Locking the memory clock came with Ampere. */
API nvmlReturn_t nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t device, unsigned int min_mhz, unsigned int max_mhz)
{
    (void)min_mhz, (void)max_mhz;
    CHECK(privileged(device));
    return NVML_ERROR_NOT_SUPPORTED;
}

API nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device)
{
    CHECK(privileged(device));
    return NVML_ERROR_NOT_SUPPORTED;
}

API nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int *mode)
{
    CHECK(device_ready(device));
    REQUIRE(mode);
    *mode = __atomic_load_n(&GPU_REQUEST(device)->persistence, __ATOMIC_ACQUIRE);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, unsigned int mode)
{
    CHECK(privileged(device));
    if (mode > 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    __atomic_store_n(&GPU_REQUEST(device)->persistence, mode, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetAPIRestriction(nvmlDevice_t device, unsigned int kind, unsigned int *restricted)
{
    CHECK(device_ready(device));
    REQUIRE(restricted);
    if (kind != 0) { /* 0: applications clocks; 1: auto boost, which came before Pascal */
        return kind == 1 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    }
    *restricted = plant->clocks_unrestricted == 0;
    return NVML_SUCCESS;
}
