/* Event sets: what happened after a set was registered, returned once to each set. */
#include <stdlib.h>

#include "driver.h"

#define SUPPORTED_EVENTS 0x1full /* single and double bit errors, performance state, Xid, clock */
#define NO_MIG 0xffffffffu

struct event_set {
    uint64_t next;                     /* the first event not yet looked at */
    uint64_t wanted[PLANT_MAX_GPUS];   /* event types by GPU */
};

API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    ENTER();
    REQUIRE(set);
    *set = calloc(1, sizeof **set);
    if (*set == NULL) {
        return NVML_ERROR_MEMORY;
    }
    (*set)->next = __atomic_load_n(&plant->event_count, __ATOMIC_ACQUIRE);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    ENTER();
    REQUIRE(set);
    free(set);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    ENTER_DEVICE(device);
    REQUIRE(types);
    *types = SUPPORTED_EVENTS;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    ENTER_DEVICE(device);
    REQUIRE(set);
    if ((types & ~SUPPORTED_EVENTS) != 0) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    set->wanted[device->index] |= types;
    return NVML_SUCCESS;
}

/* Takes the next event that the set asked for. */
static bool take_event(nvmlEventSet_t set, nvmlEventData_t *data)
{
    uint64_t count = __atomic_load_n(&plant->event_count, __ATOMIC_ACQUIRE);
    uint64_t oldest = oldest_in_ring(count, PLANT_EVENT_SLOTS);
    set->next = set->next < oldest ? oldest : set->next;
    while (set->next < count) {
        uint64_t position = set->next++;
        plant_event_t event = plant->events[position % PLANT_EVENT_SLOTS];
        if (!was_in_ring(&plant->event_count, position, PLANT_EVENT_SLOTS)) {
            continue; /* overtaken: it is lost, as the ones before it */
        }
        if (event.gpu < plant->gpu_count && (set->wanted[event.gpu] & event.kind) != 0) {
            *data = (nvmlEventData_t){
                .device = device_at(event.gpu),
                .eventType = event.kind,
                .eventData = event.data,
                .gpuInstanceId = NO_MIG,
                .computeInstanceId = NO_MIG,
            };
            return true;
        }
    }
    return false;
}

static bool lost_one(nvmlEventSet_t set)
{
    for (unsigned int index = 0; index < plant->gpu_count; index++) {
        if (set->wanted[index] != 0 && gpu_loss_is_told(index)) {
            return true;
        }
    }
    return false;
}

/* Earlier events are still returned; once a loss was returned, every wait ends at once, as on hardware. */
API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    ENTER();
    REQUIRE(set);
    REQUIRE(data);
    int64_t end_ns = monotonic_ns() + timeout_ms * 1000000ll;
    for (;;) {
        uint32_t seen = report_word();
        CHECK(driver_ready());
        if (take_event(set, data)) {
            return NVML_SUCCESS;
        }
        if (lost_one(set)) {
            return NVML_ERROR_GPU_IS_LOST;
        }
        if (!wait_for_report(seen, end_ns)) {
            return NVML_ERROR_TIMEOUT;
        }
    }
}

API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
    SAME_AS(nvmlEventSetWait_v2);
