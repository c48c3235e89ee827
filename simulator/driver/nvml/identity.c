/* What the GPUs are: names, numbers, versions and places. */
#include <stdio.h>
#include <string.h>

#include "driver.h"

#define GSP_VERSION_SIZE 0x40 /* NVML_GSP_FIRMWARE_VERSION_BUF_SIZE, nvml.h */

/* A getter of a text that never changes. */
#define TEXT_GETTER(function, field)                                                    \
    API nvmlReturn_t function(nvmlDevice_t device, char *text, unsigned int length)     \
    {                                                                                   \
        ENTER_DEVICE(device);                                                           \
        return copy_text(text, length, GPU_FIXED(device)->field);                       \
    }

TEXT_GETTER(nvmlDeviceGetName, name)
TEXT_GETTER(nvmlDeviceGetUUID, uuid)
TEXT_GETTER(nvmlDeviceGetSerial, serial)
TEXT_GETTER(nvmlDeviceGetVbiosVersion, vbios)
TEXT_GETTER(nvmlDeviceGetBoardPartNumber, board_part_number)
TEXT_GETTER(nvmlDeviceGetInforomImageVersion, inforom_image)

FIXED_GETTER(nvmlDeviceGetIndex, unsigned int, device->index)
FIXED_GETTER(nvmlDeviceGetMinorNumber, unsigned int, fixed->minor_number)
FIXED_GETTER(nvmlDeviceGetModuleId, unsigned int, fixed->minor_number)
FIXED_GETTER(nvmlDeviceGetBrand, unsigned int, fixed->brand)
FIXED_GETTER(nvmlDeviceGetArchitecture, unsigned int, fixed->architecture)
FIXED_GETTER(nvmlDeviceGetNumGpuCores, unsigned int, fixed->core_count)
FIXED_GETTER(nvmlDeviceGetMemoryBusWidth, unsigned int, fixed->memory_bus_bits)
FIXED_GETTER(nvmlDeviceGetBoardId, unsigned int, fixed->pci_bus << 8)
FIXED_GETTER(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)        /* one GPU a module */
FIXED_GETTER(nvmlDeviceGetIrqNum, unsigned int, 57 + device->index) /* irq/57-nvidia, field report */
FIXED_GETTER(nvmlDeviceGetBusType, unsigned int, 2)              /* PCI Express */
FIXED_GETTER(nvmlDeviceGetPowerSource, unsigned int, 0)          /* mains */
FIXED_GETTER(nvmlDeviceGetDisplayMode, unsigned int, 0)          /* no display */
FIXED_GETTER(nvmlDeviceGetDisplayActive, unsigned int, 0)
FIXED_GETTER(nvmlDeviceGetVirtualizationMode, unsigned int, 0)   /* bare metal */
FIXED_GETTER(nvmlDeviceIsMigDeviceHandle, unsigned int, 0)
FIXED_GETTER(nvmlDeviceGetMaxMigDeviceCount, unsigned int, (fixed->features & PLANT_FEATURE_MIG) != 0 ? 7 : 0)
FIXED_GETTER(nvmlDeviceGetInforomConfigurationChecksum, unsigned int, 0x5a17c0deu + fixed->architecture)

void write_bus_id(char *to, size_t size, unsigned int domain, unsigned int bus, unsigned int slot)
{
    snprintf(to, size, "%08X:%02X:%02X.0", domain, bus & 0xff, slot & 0xff);
}

static void fill_pci(const plant_fixed_t *fixed, nvmlPciInfo_t *pci)
{
    memset(pci, 0, sizeof *pci);
    pci->domain = fixed->pci_domain;
    pci->bus = fixed->pci_bus;
    pci->device = fixed->pci_device;
    pci->pciDeviceId = fixed->pci_device_id;
    pci->pciSubSystemId = fixed->pci_subsystem_id;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
    write_bus_id(pci->busId, sizeof pci->busId, pci->domain, pci->bus, pci->device);
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    ENTER_DEVICE(device);
    REQUIRE(pci);
    fill_pci(GPU_FIXED(device), pci);
    return NVML_SUCCESS;
}

/* The structure of the older versions ended before the long address. */
API nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, void *pci)
{
    ENTER_DEVICE(device);
    REQUIRE(pci);
    nvmlPciInfo_t whole;
    fill_pci(GPU_FIXED(device), &whole);
    memcpy(pci, &whole, offsetof(nvmlPciInfo_t, busId));
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, void *pci) SAME_AS(nvmlDeviceGetPciInfo_v2);

API nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
    ENTER_DEVICE(device);
    REQUIRE(pci);
    REQUIRE_VERSION(pci, nvmlPciInfoExt_t, 1);
    const plant_fixed_t *fixed = GPU_FIXED(device);
    pci->domain = fixed->pci_domain;
    pci->bus = fixed->pci_bus;
    pci->device = fixed->pci_device;
    pci->pciDeviceId = fixed->pci_device_id;
    pci->pciSubSystemId = fixed->pci_subsystem_id;
    pci->baseClass = 0x03; /* display controller, 3D: PCI code and ID assignment */
    pci->subClass = 0x02;
    write_bus_id(pci->busId, sizeof pci->busId, pci->domain, pci->bus, pci->device);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    ENTER_DEVICE(device);
    REQUIRE(major);
    REQUIRE(minor);
    *major = GPU_FIXED(device)->cuda_major;
    *minor = GPU_FIXED(device)->cuda_minor;
    return NVML_SUCCESS;
}

/* Objects of the InfoROM: OEM, ECC, power. The last is not there on data centre parts: nvidia-smi -q. */
API nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, unsigned int object, char *text, unsigned int length)
{
    ENTER_DEVICE(device);
    switch (object) {
    case 0: return copy_text(text, length, "1.1");
    case 1: return copy_text(text, length, HAS(device, ROW_REMAPPING) ? "6.16" : "5.0");
    case 2: case 3: return NVML_ERROR_NOT_SUPPORTED;
    default: return NVML_ERROR_INVALID_ARGUMENT;
    }
}

API nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
    ENTER_DEVICE(device);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t first, nvmlDevice_t second, int *same)
{
    ENTER_DEVICE(first);
    ENTER_DEVICE(second);
    REQUIRE(same);
    *same = first == second;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    ENTER_DEVICE(device);
    return HAS(device, GSP) ? copy_text(version, GSP_VERSION_SIZE, plant->driver_version) : NVML_ERROR_NOT_SUPPORTED;
}

API nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned int *enabled, unsigned int *default_mode)
{
    ENTER_DEVICE(device);
    REQUIRE(enabled);
    REQUIRE(default_mode);
    *enabled = *default_mode = HAS(device, GSP) ? 1 : 0;
    return NVML_SUCCESS;
}

/* Partitions stay off: a node that needs them is not simulated. */
API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    ENTER_DEVICE(device);
    REQUIRE(current);
    REQUIRE(pending);
    REQUIRE_PART(HAS(device, MIG));
    *current = *pending = 0;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *partition)
{
    (void)index, (void)partition;
    ENTER_DEVICE(device);
    return HAS(device, MIG) ? NVML_ERROR_NOT_FOUND : NVML_ERROR_NOT_SUPPORTED;
}
