/* Event sets: what happened after a set was registered, told once to each set. */
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

#define SUPPORTED_EVENTS 0x1full /* single and double bit errors, performance state, Xid, clock */
#define NO_MIG 0xffffffffu
#define LOOK_AGAIN_NS 50000000ll /* in case a wake-up is missed */

struct event_set {
    uint64_t next;                     /* the first event not yet looked at */
    uint64_t wanted[PLANT_MAX_GPUS];   /* event types by GPU */
};

API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    CHECK(driver_ready());
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
    CHECK(driver_ready());
    REQUIRE(set);
    free(set);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    CHECK(device_ready(device));
    REQUIRE(types);
    *types = SUPPORTED_EVENTS;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    CHECK(device_ready(device));
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
    if (count - set->next > PLANT_EVENT_SLOTS) {
        set->next = count - PLANT_EVENT_SLOTS;
    }
    while (set->next < count) {
        plant_event_t event = plant->events[set->next++ % PLANT_EVENT_SLOTS];
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

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* What came before is still told; once a loss was reported and told, every wait ends at once, as on hardware. */
API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    CHECK(driver_ready());
    REQUIRE(set);
    REQUIRE(data);
    int64_t end_ns = now_ns() + timeout_ms * 1000000ll;
    for (;;) {
        uint32_t wake = __atomic_load_n(&plant->wake, __ATOMIC_ACQUIRE);
        if (take_event(set, data)) {
            return NVML_SUCCESS;
        }
        if (lost_one(set)) {
            return NVML_ERROR_GPU_IS_LOST;
        }
        int64_t left_ns = end_ns - now_ns();
        if (left_ns <= 0) {
            return NVML_ERROR_TIMEOUT;
        }
        struct timespec slice = {.tv_nsec = left_ns < LOOK_AGAIN_NS ? left_ns : LOOK_AGAIN_NS};
        long waited = syscall(SYS_futex, &plant->wake, FUTEX_WAIT, wake, &slice, NULL, 0);
        if (waited < 0 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) {
            nanosleep(&slice, NULL); /* a kernel without futex on such a mapping */
        }
    }
}
