/* What a user may change. Each setter writes a request that the plant obeys and the getters show. */
#include "driver.h"

/* nvml.h: instead of megahertz, a pair of limit ids. */
#define CLOCK_LIMIT_RANGE 0xffffff00u
#define CLOCK_LIMIT_TDP 0xffffff01u
#define CLOCK_LIMIT_UNLIMITED 0xffffff02u

/* Applications clocks may be opened to everybody (nvidia-smi --applications-clocks-permission). */
static nvmlReturn_t enter_clock_setter(const char *call, nvmlDevice_t device)
{
    CHECK(enter_device(call, device));
    bool allowed = is_root() || __atomic_load_n(&plant->clocks_unrestricted, __ATOMIC_ACQUIRE) != 0;
    return allowed && may_write() ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
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
    CHECK(enter_clock_setter(__func__, device));
    if (mem_mhz != GPU_FIXED(device)->mem_clock_mhz || !is_supported_clock(GPU_FIXED(device), sm_mhz)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    ASK(device, app_sm_clock_mhz, sm_mhz);
    ASK(device, app_clock_is_set, 1);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceResetApplicationsClocks(nvmlDevice_t device)
{
    CHECK(enter_clock_setter(__func__, device));
    ASK(device, app_clock_is_set, 0);
    ASK(device, app_sm_clock_mhz, GPU_FIXED(device)->default_sm_clock_mhz);
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
    ENTER_SETTER(device);
    const plant_fixed_t *fixed = GPU_FIXED(device);
    REQUIRE_PART(HAS(device, LOCKED_CLOCKS));
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
    ASK(device, locked_clocks, ((uint64_t)min_mhz << 32) | max_mhz);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device)
{
    ENTER_SETTER(device);
    ASK(device, locked_clocks, 0);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t device, unsigned int min_mhz, unsigned int max_mhz)
{
    ENTER_SETTER(device);
    REQUIRE_PART(HAS(device, LOCKED_MEMORY_CLOCKS));
    if (max_mhz == 0 || min_mhz > max_mhz) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    ASK(device, locked_memory_clocks, ((uint64_t)min_mhz << 32) | max_mhz);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device)
{
    ENTER_SETTER(device);
    REQUIRE_PART(HAS(device, LOCKED_MEMORY_CLOCKS));
    ASK(device, locked_memory_clocks, 0);
    return NVML_SUCCESS;
}

FIXED_GETTER(nvmlDeviceGetPersistenceMode, unsigned int, ASKED(device, persistence))
FIXED_GETTER(nvmlDeviceGetComputeMode, unsigned int, ASKED(device, compute_mode))

API nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, unsigned int mode)
{
    ENTER_SETTER(device);
    if (mode > 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    ASK(device, persistence, mode);
    return NVML_SUCCESS;
}

/* Default, prohibited, exclusive to a process; 1, exclusive to a thread, is gone. */
API nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode)
{
    ENTER_SETTER(device);
    if (mode > 3) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (mode == 1) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    ASK(device, compute_mode, mode);
    return NVML_SUCCESS;
}

/* 0: applications clocks; 1: auto boost, which came before Pascal. */
static nvmlReturn_t is_restrictable(unsigned int kind)
{
    return kind == 0 ? NVML_SUCCESS : kind == 1 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

API nvmlReturn_t nvmlDeviceGetAPIRestriction(nvmlDevice_t device, unsigned int kind, unsigned int *restricted)
{
    ENTER_DEVICE(device);
    REQUIRE(restricted);
    CHECK(is_restrictable(kind));
    *restricted = __atomic_load_n(&plant->clocks_unrestricted, __ATOMIC_ACQUIRE) == 0;
    return NVML_SUCCESS;
}

/* One switch for the whole node, which on hardware is one a GPU. */
API nvmlReturn_t nvmlDeviceSetAPIRestriction(nvmlDevice_t device, unsigned int kind, unsigned int restricted)
{
    ENTER_SETTER(device);
    CHECK(is_restrictable(kind));
    if (restricted > 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    __atomic_store_n(&plant->clocks_unrestricted, restricted == 0, __ATOMIC_RELEASE);
    return NVML_SUCCESS;
}
