/* Which GPUs there are and how they are found. */
#include <stdio.h>
#include <string.h>

#include "driver.h"

static nvmlReturn_t give_handle(const char *call, unsigned int index, nvmlDevice_t *device)
{
    REQUIRE(device);
    CHECK(injected(call, (int)index));
    if (gpu_is_lost(index)) {
        return NVML_ERROR_GPU_IS_LOST;
    }
    *device = device_at(index);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    ENTER();
    REQUIRE(count);
    *count = plant->gpu_count;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCount(unsigned int *count) SAME_AS(nvmlDeviceGetCount_v2);

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    CHECK(driver_ready());
    if (index >= plant->gpu_count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    return give_handle(__func__, index, device);
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
    SAME_AS(nvmlDeviceGetHandleByIndex_v2);

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    CHECK(driver_ready());
    REQUIRE(uuid);
    for (unsigned int index = 0; index < plant->gpu_count; index++) {
        if (strcmp(plant->fixed[index].uuid, uuid) == 0) {
            return give_handle(__func__, index, device);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

/* The 16 bytes that a UUID's text stands for. */
static void pack_uuid(unsigned char bytes[16], const char *text)
{
    memset(bytes, 0, 16);
    unsigned int digits = 0;
    for (const char *next = strncmp(text, "GPU-", 4) == 0 ? text + 4 : text; *next != '\0' && digits < 32; next++) {
        unsigned int value;
        if (sscanf((char[2]){*next, '\0'}, "%1x", &value) == 1) {
            bytes[digits / 2] |= (unsigned char)(value << (digits % 2 == 0 ? 4 : 0));
            digits++;
        }
    }
}

/* 1: the text, 2: the bytes; nvmlUUIDType_t, nvml.h. */
API nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    CHECK(driver_ready());
    REQUIRE(uuid);
    REQUIRE_VERSION(uuid, nvmlUUID_t, 1);
    if (uuid->type != 1 && uuid->type != 2) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned int index = 0; index < plant->gpu_count; index++) {
        const char *text = plant->fixed[index].uuid;
        unsigned char bytes[16];
        pack_uuid(bytes, text);
        if (uuid->type == 1 ? strncmp(text, uuid->value.str, sizeof uuid->value.str) == 0
                            : memcmp(bytes, uuid->value.bytes, sizeof bytes) == 0) {
            return give_handle(__func__, index, device);
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
            return give_handle(__func__, index, device);
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
            return give_handle(__func__, index, device);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
    SAME_AS(nvmlDeviceGetHandleByPciBusId_v2);
