/* Memory: how much, how much is taken, and what went wrong in it. */
#include <string.h>

#include "driver.h"

static nvmlReturn_t memory_now(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    memory->total = GPU_FIXED(device)->memory_total_bytes;
    memory->reserved = GPU_FIXED(device)->memory_reserved_bytes;
    memory->used = reading.memory_used_bytes;
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    ENTER_DEVICE(device);
    REQUIRE(memory);
    REQUIRE_VERSION(memory, nvmlMemory_v2_t, 2);
    return memory_now(device, memory);
}

/* The first version counts what the driver reserves as used. */
API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    ENTER_DEVICE(device);
    REQUIRE(memory);
    nvmlMemory_v2_t detail;
    CHECK(memory_now(device, &detail));
    memory->total = detail.total;
    memory->used = detail.used + detail.reserved;
    memory->free = detail.free;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    ENTER_DEVICE(device);
    REQUIRE(memory);
    memory->bar1Total = GPU_FIXED(device)->bar1_total_bytes;
    memory->bar1Used = 2u << 20; /* what an idle driver maps */
    memory->bar1Free = memory->bar1Total - memory->bar1Used;
    return NVML_SUCCESS;
}

FIXED_GETTER(nvmlDeviceGetDefaultEccMode, unsigned int, 1)

API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    ENTER_DEVICE(device);
    REQUIRE(current);
    REQUIRE(pending);
    *current = ASKED(device, ecc_off) == 0;
    *pending = ASKED(device, ecc_off_pending) == 0;
    return NVML_SUCCESS;
}

/* Takes effect when the driver is loaded anew. */
API nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t device, unsigned int mode)
{
    ENTER_SETTER(device);
    if (mode > 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    ASK(device, ecc_off_pending, mode == 0);
    return NVML_SUCCESS;
}

enum { CORRECTED, UNCORRECTED, ERROR_TYPES };
enum { VOLATILE, AGGREGATE, COUNTER_TYPES };
enum { L1_CACHE, L2_CACHE, DEVICE_MEMORY, REGISTER_FILE, MEMORY_LOCATIONS = 8 };

/* nvml.h: with ECC off nothing is counted. */
static bool counts_errors(nvmlDevice_t device)
{
    return ASKED(device, ecc_off) == 0;
}

/* All errors are errors of the device memory. */
static nvmlReturn_t count_errors(nvmlDevice_t device, unsigned int type, unsigned int counter,
                                 unsigned long long *count)
{
    REQUIRE(count);
    REQUIRE_PART(counts_errors(device));
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    if (type >= ERROR_TYPES || counter >= COUNTER_TYPES) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    const uint64_t counts[ERROR_TYPES][COUNTER_TYPES] = {
        {reading.ecc_corrected, reading.ecc_corrected_aggregate},
        {reading.ecc_uncorrected, reading.ecc_uncorrected_aggregate},
    };
    *count = counts[type][counter];
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int type, unsigned int counter,
                                             unsigned long long *count)
{
    ENTER_DEVICE(device);
    return count_errors(device, type, counter, count);
}

API nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned int type, unsigned int counter,
                                                 unsigned int location, unsigned long long *count)
{
    ENTER_DEVICE(device);
    CHECK(count_errors(device, type, counter, count));
    if (location >= MEMORY_LOCATIONS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *count = location == DEVICE_MEMORY ? *count : 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, unsigned int type, unsigned int counter,
                                                nvmlEccErrorCounts_t *counts)
{
    ENTER_DEVICE(device);
    REQUIRE(counts);
    memset(counts, 0, sizeof *counts);
    return count_errors(device, type, counter, &counts->deviceMemory);
}

/* nvml.h: Ampere and newer, and only for root. */
API nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *status)
{
    ENTER_DEVICE(device);
    REQUIRE(status);
    REQUIRE_VERSION(status, nvmlEccSramErrorStatus_t, 1);
    REQUIRE_PART(HAS(device, ROW_REMAPPING));
    if (!is_root()) {
        return NVML_ERROR_NO_PERMISSION;
    }
    *status = (nvmlEccSramErrorStatus_t){.version = status->version};
    return NVML_SUCCESS;
}

/* Volta retires pages, Ampere and newer remap rows instead; none was hit here. */
API nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned int cause, unsigned int *count,
                                              unsigned long long *addresses, unsigned long long *times_us)
{
    (void)addresses, (void)times_us;
    ENTER_DEVICE(device);
    REQUIRE(count);
    REQUIRE_PART(!HAS(device, ROW_REMAPPING));
    if (cause > 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *count = 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned int cause, unsigned int *count,
                                           unsigned long long *addresses, unsigned long long *times_us)
    SAME_AS(nvmlDeviceGetRetiredPages_v2);

API nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, unsigned int *pending)
{
    ENTER_DEVICE(device);
    REQUIRE(pending);
    REQUIRE_PART(!HAS(device, ROW_REMAPPING));
    *pending = 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
                                           unsigned int *pending, unsigned int *failed)
{
    ENTER_DEVICE(device);
    REQUIRE(corrected);
    REQUIRE(uncorrected);
    REQUIRE(pending);
    REQUIRE(failed);
    REQUIRE_PART(HAS(device, ROW_REMAPPING));
    *corrected = *uncorrected = *pending = *failed = 0;
    return NVML_SUCCESS;
}

PART_GETTER(nvmlDeviceGetRowRemapperHistogram, nvmlRowRemapperHistogramValues_t, ROW_REMAPPING,
            .max = GPU_FIXED(device)->remapper_banks)

nvmlReturn_t put_memory_error_field(nvmlFieldValue_t *field, nvmlDevice_t device, const plant_reading_t *reading)
{
    bool remaps = HAS(device, ROW_REMAPPING);
    REQUIRE_PART(field->fieldId < 3 || field->fieldId > 28 || counts_errors(device));
    switch (field->fieldId) {
    case 1: put_u32(field, ASKED(device, ecc_off) == 0); break;
    case 2: put_u32(field, ASKED(device, ecc_off_pending) == 0); break;
    case 3: case 11: put_u64(field, reading->ecc_corrected); break; /* 11 to 23: of the device memory */
    case 4: case 12: put_u64(field, reading->ecc_uncorrected); break;
    case 5: case 22: put_u64(field, reading->ecc_corrected_aggregate); break;
    case 6: case 23: put_u64(field, reading->ecc_uncorrected_aggregate); break;
    case 7 ... 10: case 13 ... 21: case 24 ... 28: put_u64(field, 0); break; /* elsewhere */
    case 29: case 30: case 31: case 92: case 93:
        REQUIRE_PART(!remaps);
        put_u32(field, 0);
        break;
    case 142 ... 145: case 301: case 302:
        REQUIRE_PART(remaps);
        put_u32(field, 0);
        break;
    default: return NVML_ERROR_NOT_FOUND;
    }
    return NVML_SUCCESS;
}
