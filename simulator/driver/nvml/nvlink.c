/* NVLinks: where they lead, whether they are up, what they carried and what went wrong on them. */
#include <string.h>

#include "driver.h"

#define ALL_LINKS 0xffffffffu
#define END_IS_NOTHING 255u
#define LINK_COUNT 91u /* NVML_FI_DEV_NVLINK_LINK_COUNT, nvml.h */
enum { CAP_P2P, CAP_SYSMEM, CAP_P2P_ATOMICS, CAP_SYSMEM_ATOMICS, CAP_SLI, CAP_VALID, CAPS };
/* nvmlGpuFabricState_t, NVML_GPU_FABRIC_HEALTH_..., nvml.h: each kind of fault is reported as absent. */
enum { FABRIC_COMPLETED = 3, FABRIC_HEALTHY = 1, FABRIC_WITHOUT_FAULTS = 2 | 2 << 2 | 2 << 4 | 2 << 6 | 1 << 8 };
enum { ERROR_REPLAY, ERROR_RECOVERY, ERROR_CRC_FLIT, ERROR_CRC_DATA, ERROR_ECC_DATA, ERRORS };

static nvmlReturn_t link_ready(nvmlDevice_t device, unsigned int link)
{
    REQUIRE_PART(GPU_FIXED(device)->nvlink_count > 0);
    return link < GPU_FIXED(device)->nvlink_count ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static bool is_up(const plant_fixed_t *fixed, const plant_reading_t *reading, unsigned int link)
{
    return fixed->nvlink_ends[link].kind != END_IS_NOTHING && (reading->nvlink_up >> link & 1) != 0;
}

API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int *active)
{
    ENTER_DEVICE(device);
    REQUIRE(active);
    CHECK(link_ready(device, link));
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    *active = is_up(GPU_FIXED(device), &reading, link);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version)
{
    ENTER_DEVICE(device);
    REQUIRE(version);
    CHECK(link_ready(device, link));
    *version = GPU_FIXED(device)->nvlink_version;
    return NVML_SUCCESS;
}

/* Everything between GPUs; no processor has NVLinks here. */
API nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link, unsigned int capability,
                                               unsigned int *has)
{
    ENTER_DEVICE(device);
    REQUIRE(has);
    CHECK(link_ready(device, link));
    if (capability >= CAPS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *has = capability == CAP_P2P || capability == CAP_P2P_ATOMICS || capability == CAP_VALID;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
    ENTER_DEVICE(device);
    REQUIRE(pci);
    CHECK(link_ready(device, link));
    const plant_link_end_t *end = &GPU_FIXED(device)->nvlink_ends[link];
    REQUIRE_PART(end->kind != END_IS_NOTHING);
    memset(pci, 0, sizeof *pci);
    pci->domain = end->pci_domain;
    pci->bus = end->pci_bus;
    pci->device = end->pci_device;
    pci->pciDeviceId = end->pci_device_id;
    write_bus_id(pci->busId, sizeof pci->busId, end->pci_domain, end->pci_bus, end->pci_device);
    memcpy(pci->busIdLegacy, pci->busId + 4, 13); /* the domain with four digits */
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link, unsigned int *kind)
{
    ENTER_DEVICE(device);
    REQUIRE(kind);
    CHECK(link_ready(device, link));
    *kind = GPU_FIXED(device)->nvlink_ends[link].kind;
    return NVML_SUCCESS;
}

/* CRC errors are counted once, as errors of flits. */
static uint64_t errors_of(const plant_reading_t *reading, unsigned int counter, unsigned int link)
{
    switch (counter) {
    case ERROR_REPLAY: return reading->nvlink_replays[link];
    case ERROR_RECOVERY: return reading->nvlink_recoveries[link];
    case ERROR_CRC_FLIT: return reading->nvlink_crc[link];
    default: return 0;
    }
}

API nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, unsigned int counter,
                                                 unsigned long long *count)
{
    ENTER_DEVICE(device);
    REQUIRE(count);
    CHECK(link_ready(device, link));
    if (counter >= ERRORS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    *count = errors_of(&reading, counter, link);
    return NVML_SUCCESS;
}

/* nvml.h: the two counters of bytes ended with Volta; later parts have field values instead. */
static nvmlReturn_t byte_counter_ready(nvmlDevice_t device, unsigned int link, unsigned int counter)
{
    CHECK(link_ready(device, link));
    REQUIRE_PART(!HAS(device, ROW_REMAPPING));
    return counter > 1 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkUtilizationCounter(nvmlDevice_t device, unsigned int link, unsigned int counter,
                                                       unsigned long long *received, unsigned long long *sent)
{
    ENTER_DEVICE(device);
    REQUIRE(received);
    REQUIRE(sent);
    CHECK(byte_counter_ready(device, link, counter));
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    *received = *sent = reading.nvlink_bytes[link];
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetNvLinkUtilizationControl(nvmlDevice_t device, unsigned int link, unsigned int counter,
                                                       nvmlNvLinkUtilizationControl_t *control)
{
    ENTER_DEVICE(device);
    REQUIRE(control);
    CHECK(byte_counter_ready(device, link, counter));
    *control = (nvmlNvLinkUtilizationControl_t){.units = 2 /* bytes */, .pktfilter = 0xff /* all packets */};
    return NVML_SUCCESS;
}

/* Where a switch joins all GPUs, they have found each other; elsewhere there is nothing to find. */
PART_GETTER(nvmlDeviceGetGpuFabricInfo, nvmlGpuFabricInfo_t, FABRIC, .status = NVML_SUCCESS, .state = FABRIC_COMPLETED)

/* The third version is the second and a summary behind it. */
API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *info)
{
    ENTER_DEVICE(device);
    REQUIRE(info);
    unsigned int version = info->version;
    bool has_summary = version == VERSION_WORD(nvmlGpuFabricInfo_v3_t, 3);
    if (!has_summary && version != VERSION_WORD(nvmlGpuFabricInfo_v2_t, 2)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    REQUIRE_PART(HAS(device, FABRIC));
    nvmlGpuFabricInfo_v3_t reported = {
        .second = {.status = NVML_SUCCESS, .state = FABRIC_COMPLETED, .healthMask = FABRIC_WITHOUT_FAULTS},
        .healthSummary = FABRIC_HEALTHY,
    };
    reported.version = version;
    memcpy(info, &reported, has_summary ? sizeof(nvmlGpuFabricInfo_v3_t) : sizeof(nvmlGpuFabricInfo_v2_t));
    return NVML_SUCCESS;
}

/* Ids of one link each: links 0 to 5, links 6 to 11, and the sum; NVML_FI_DEV_NVLINK_..., nvml.h. */
static const struct {
    unsigned int low, high, total, counter;
} per_link[] = {
    {32, 96, 38, ERROR_CRC_FLIT},
    {39, 102, 45, ERROR_CRC_DATA},
    {46, 108, 52, ERROR_REPLAY},
    {53, 114, 59, ERROR_RECOVERY},
    {148, 154, 160, ERROR_ECC_DATA},
};

static nvmlReturn_t put_count(nvmlFieldValue_t *field, const plant_fixed_t *fixed, const plant_reading_t *reading,
                              unsigned int counter, unsigned int link)
{
    uint64_t count = 0;
    for (unsigned int each = 0; each < fixed->nvlink_count; each++) {
        count += link == ALL_LINKS || link == each ? errors_of(reading, counter, each) : 0;
    }
    put_u64(field, count);
    return link == ALL_LINKS || link < fixed->nvlink_count ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t put_bytes(nvmlFieldValue_t *field, const plant_fixed_t *fixed, const plant_reading_t *reading,
                              unsigned int unit_bytes)
{
    uint64_t bytes = 0;
    for (unsigned int link = 0; link < fixed->nvlink_count; link++) {
        bytes += field->scopeId == ALL_LINKS || field->scopeId == link ? reading->nvlink_bytes[link] : 0;
    }
    bool raw = field->fieldId == 140 || field->fieldId == 141;
    put_u64(field, (raw ? bytes + bytes / 8 : bytes) / unit_bytes); /* assumption: one header in eight */
    return field->scopeId == ALL_LINKS || field->scopeId < fixed->nvlink_count ? NVML_SUCCESS
                                                                              : NVML_ERROR_INVALID_ARGUMENT;
}

/* Ids 164 to 166 ask for one link, named by `scopeId`. */
static nvmlReturn_t put_link_state(nvmlFieldValue_t *field, const plant_fixed_t *fixed, const plant_reading_t *reading)
{
    if (field->scopeId >= fixed->nvlink_count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    bool up = is_up(fixed, reading, field->scopeId);
    switch (field->fieldId) {
    case 164: put_u32(field, up ? fixed->nvlink_mib_s : 0); break;
    case 165: put_u32(field, up); break;
    default: put_u32(field, fixed->nvlink_version); break;
    }
    return NVML_SUCCESS;
}

static nvmlReturn_t put_speed(nvmlFieldValue_t *field, const plant_fixed_t *fixed, const plant_reading_t *reading,
                              unsigned int link)
{
    REQUIRE_PART(link < fixed->nvlink_count);
    put_u32(field, is_up(fixed, reading, link) ? fixed->nvlink_mib_s : 0);
    return NVML_SUCCESS;
}

static nvmlReturn_t put_known(nvmlFieldValue_t *field, const plant_fixed_t *fixed, const plant_reading_t *reading)
{
    unsigned int id = field->fieldId;
    for (unsigned int row = 0; row < sizeof per_link / sizeof *per_link; row++) {
        if (id == per_link[row].total) {
            return put_count(field, fixed, reading, per_link[row].counter, ALL_LINKS);
        }
        if (id - per_link[row].low < 6) {
            return put_count(field, fixed, reading, per_link[row].counter, id - per_link[row].low);
        }
        if (id - per_link[row].high < 6) {
            return put_count(field, fixed, reading, per_link[row].counter, id - per_link[row].high + 6);
        }
    }
    switch (id) {
    case 84 ... 89: return put_speed(field, fixed, reading, id - 84);
    case 132 ... 137: return put_speed(field, fixed, reading, id - 132 + 6);
    case 90: put_u32(field, fixed->nvlink_mib_s); return NVML_SUCCESS;
    case LINK_COUNT: put_u32(field, fixed->nvlink_count); return NVML_SUCCESS;
    case 138 ... 141: return put_bytes(field, fixed, reading, 1024);
    case 161: return put_count(field, fixed, reading, ERROR_REPLAY, field->scopeId);
    case 162: return put_count(field, fixed, reading, ERROR_RECOVERY, field->scopeId);
    case 163: return put_count(field, fixed, reading, ERROR_CRC_FLIT, field->scopeId);
    case 164 ... 166: return put_link_state(field, fixed, reading);
    case 202: case 204: /* bytes sent and received, NVLink 5 (version id 7) on */
        return fixed->nvlink_version >= 7 ? put_bytes(field, fixed, reading, 1) : NVML_ERROR_NOT_SUPPORTED;
    default: return NVML_ERROR_NOT_FOUND;
    }
}

nvmlReturn_t put_nvlink_field(nvmlFieldValue_t *field, const plant_fixed_t *fixed, const plant_reading_t *reading)
{
    nvmlReturn_t result = put_known(field, fixed, reading);
    bool can_be_none = result == NVML_ERROR_NOT_FOUND || field->fieldId == LINK_COUNT;
    REQUIRE_PART(fixed->nvlink_count > 0 || can_be_none);
    return result;
}
