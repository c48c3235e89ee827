/* Which GPUs there are, how they are found, and what they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static nvmlReturn_t give_handle(unsigned int index, nvmlDevice_t *device)
{
    REQUIRE(device);
    if (gpu_is_lost(index)) {
        return NVML_ERROR_GPU_IS_LOST;
    }
    *device = device_at(index);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    CHECK(driver_ready());
    REQUIRE(count);
    *count = plant->gpu_count;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return nvmlDeviceGetCount_v2(count);
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    CHECK(driver_ready());
    if (index >= plant->gpu_count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    return give_handle(index, device);
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    CHECK(driver_ready());
    REQUIRE(uuid);
    for (unsigned int index = 0; index < plant->gpu_count; index++) {
        if (strcmp(plant->fixed[index].uuid, uuid) == 0) {
            return give_handle(index, device);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

API nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    CHECK(driver_ready());
    REQUIRE(serial);
    for (unsigned int index = 0; index < plant->gpu_count; index++) {
        if (strcmp(plant->fixed[index].serial, serial) == 0) {
            return give_handle(index, device);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

/* domain:bus:device.function in hexadecimal, the domain with four or eight digits or left out. */
static bool parse_bus_id(const char *text, unsigned int *domain, unsigned int *bus, unsigned int *slot)
{
    unsigned int function;
    int used = 0;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", domain, bus, slot, &function, &used) == 4 && text[used] == '\0') {
        return true;
    }
    *domain = 0;
    return sscanf(text, "%2x:%2x.%1x%n", bus, slot, &function, &used) == 3 && text[used] == '\0';
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    CHECK(driver_ready());
    REQUIRE(bus_id);
    unsigned int domain, bus, slot;
    if (!parse_bus_id(bus_id, &domain, &bus, &slot)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned int index = 0; index < plant->gpu_count; index++) {
        const plant_fixed_t *fixed = &plant->fixed[index];
        if (fixed->pci_domain == domain && fixed->pci_bus == bus && fixed->pci_device == slot) {
            return give_handle(index, device);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    CHECK(device_ready(device));
    return copy_text(name, length, GPU_FIXED(device)->name);
}

API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    CHECK(device_ready(device));
    return copy_text(uuid, length, GPU_FIXED(device)->uuid);
}

API nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    CHECK(device_ready(device));
    return copy_text(serial, length, GPU_FIXED(device)->serial);
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    CHECK(device_ready(device));
    REQUIRE(pci);
    const plant_fixed_t *fixed = GPU_FIXED(device);
    memset(pci, 0, sizeof *pci);
    pci->domain = fixed->pci_domain;
    pci->bus = fixed->pci_bus;
    pci->device = fixed->pci_device;
    pci->pciDeviceId = fixed->pci_device_id;
    pci->pciSubSystemId = fixed->pci_subsystem_id;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xff, pci->device & 0xff);
    return NVML_SUCCESS;
}

/* A getter of one number that never changes. */
#define FIXED_GETTER(function, type, expression)                   \
    API nvmlReturn_t function(nvmlDevice_t device, type *value)    \
    {                                                              \
        CHECK(device_ready(device));                               \
        REQUIRE(value);                                            \
        const plant_fixed_t *fixed = GPU_FIXED(device);            \
        (void)fixed;                                               \
        *value = (expression);                                     \
        return NVML_SUCCESS;                                       \
    }

FIXED_GETTER(nvmlDeviceGetIndex, unsigned int, device->index)
FIXED_GETTER(nvmlDeviceGetMinorNumber, unsigned int, fixed->minor_number)
FIXED_GETTER(nvmlDeviceGetBrand, unsigned int, fixed->brand)
FIXED_GETTER(nvmlDeviceGetArchitecture, unsigned int, fixed->architecture)
FIXED_GETTER(nvmlDeviceGetNumGpuCores, unsigned int, fixed->core_count)
FIXED_GETTER(nvmlDeviceGetMemoryBusWidth, unsigned int, fixed->memory_bus_bits)
FIXED_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, fixed->power_default_mw)
FIXED_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, fixed->pcie_generation_max)
FIXED_GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, fixed->pcie_width_max)
FIXED_GETTER(nvmlDeviceGetComputeMode, unsigned int, 0)         /* default: any number of contexts */
FIXED_GETTER(nvmlDeviceGetDisplayMode, unsigned int, 0)         /* no display */
FIXED_GETTER(nvmlDeviceGetDisplayActive, unsigned int, 0)
FIXED_GETTER(nvmlDeviceGetPerformanceState, unsigned int, 0)    /* P0 always, as the V100 SXM2 shows */
FIXED_GETTER(nvmlDeviceGetPowerState, unsigned int, 0)
FIXED_GETTER(nvmlDeviceGetPowerManagementMode, unsigned int, 1) /* limits act */

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    CHECK(device_ready(device));
    REQUIRE(major);
    REQUIRE(minor);
    *major = GPU_FIXED(device)->cuda_major;
    *minor = GPU_FIXED(device)->cuda_minor;
    return NVML_SUCCESS;
}
