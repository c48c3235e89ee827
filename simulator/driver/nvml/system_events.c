/* Events of the whole system: the driver unbound a GPU, or bound it. They outlive the driver that they are about. */
#include <stdlib.h>

#include "driver.h"

#define ALL_TYPES 0x3ull /* unbound, bound: nvmlSystemEventTypeGpuDriver..., nvml.h */

struct system_event_set {
    uint64_t next; /* the first event not yet looked at */
    uint64_t wanted;
};

/* Not ENTER: there are events to return precisely while no driver is loaded. */
static nvmlReturn_t enter_system(const char *call, unsigned int version, unsigned int expected)
{
    if (!library_started()) {
        return NVML_ERROR_UNINITIALIZED;
    }
    CHECK(injected(call, PLANT_ALL_GPUS));
    return version == expected ? NVML_SUCCESS : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

API nvmlReturn_t nvmlSystemEventSetCreate(nvmlSystemEventSetRequest_t *request)
{
    REQUIRE(request);
    CHECK(enter_system(__func__, request->version, VERSION_WORD(nvmlSystemEventSetRequest_t, 1)));
    request->set = calloc(1, sizeof *request->set);
    if (request->set == NULL) {
        return NVML_ERROR_MEMORY;
    }
    request->set->next = __atomic_load_n(&plant->system_event_count, __ATOMIC_ACQUIRE);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemEventSetFree(nvmlSystemEventSetRequest_t *request)
{
    REQUIRE(request);
    CHECK(enter_system(__func__, request->version, VERSION_WORD(nvmlSystemEventSetRequest_t, 1)));
    REQUIRE(request->set);
    free(request->set);
    request->set = NULL;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemRegisterEvents(nvmlSystemRegisterEventRequest_t *request)
{
    REQUIRE(request);
    CHECK(enter_system(__func__, request->version, VERSION_WORD(nvmlSystemRegisterEventRequest_t, 1)));
    REQUIRE(request->set);
    if (request->eventTypes == 0 || (request->eventTypes & ~ALL_TYPES) != 0) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    request->set->wanted |= request->eventTypes;
    return NVML_SUCCESS;
}

/* nvml.h: the PCI address packed into a word. */
static unsigned int gpu_id(unsigned int index)
{
    const plant_fixed_t *fixed = &plant->fixed[index % PLANT_MAX_GPUS];
    return fixed->pci_domain << 16 | fixed->pci_bus << 8 | fixed->pci_device << 3;
}

static unsigned int take_events(nvmlSystemEventSet_t set, nvmlSystemEventData_t *data, unsigned int room)
{
    unsigned int taken = 0;
    uint64_t count = __atomic_load_n(&plant->system_event_count, __ATOMIC_ACQUIRE);
    uint64_t oldest = oldest_in_ring(count, PLANT_SYSTEM_EVENT_SLOTS);
    set->next = set->next < oldest ? oldest : set->next;
    while (set->next < count && taken < room) {
        uint64_t position = set->next++;
        plant_system_event_t event = plant->system_events[position % PLANT_SYSTEM_EVENT_SLOTS];
        if (!was_in_ring(&plant->system_event_count, position, PLANT_SYSTEM_EVENT_SLOTS)) {
            continue; /* overtaken: it is lost, as the ones before it */
        }
        if ((event.kind & set->wanted) != 0) {
            data[taken++] = (nvmlSystemEventData_t){.eventType = event.kind, .gpuId = gpu_id(event.gpu)};
        }
    }
    return taken;
}

/* nvml.h: when all the room was taken there may be more, and the caller asks again. */
API nvmlReturn_t nvmlSystemEventSetWait(nvmlSystemEventSetWaitRequest_t *request)
{
    REQUIRE(request);
    CHECK(enter_system(__func__, request->version, VERSION_WORD(nvmlSystemEventSetWaitRequest_t, 1)));
    REQUIRE(request->set);
    REQUIRE(request->data);
    if (request->dataSize == 0) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    int64_t end_ns = monotonic_ns() + request->timeoutms * 1000000ll;
    for (;;) {
        uint32_t seen = report_word();
        request->numEvent = take_events(request->set, request->data, request->dataSize);
        if (request->numEvent > 0) {
            return NVML_SUCCESS;
        }
        if (!wait_for_report(seen, end_ns)) {
            return NVML_ERROR_TIMEOUT;
        }
    }
}
