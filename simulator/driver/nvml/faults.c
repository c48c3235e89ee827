/* What a scenario makes calls answer, and how long it makes them take. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "driver.h"

/* A name stands for the function and for its newer versions: nvmlDeviceGetCount for nvmlDeviceGetCount_v2. */
static bool is_meant(const char *wanted, const char *called)
{
    if (wanted[0] == '*') {
        return true;
    }
    size_t length = strlen(wanted);
    if (strncmp(wanted, called, length) != 0) {
        return false;
    }
    const char *rest = called + length;
    return rest[0] == '\0' || (rest[0] == '_' && rest[1] == 'v' && isdigit((unsigned char)rest[2]));
}

static void sleep_us(uint64_t duration_us)
{
    struct timespec left = {.tv_sec = (time_t)(duration_us / 1000000), .tv_nsec = (long)(duration_us % 1000000) * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

nvmlReturn_t injected(const char *call, int gpu)
{
    uint32_t count = __atomic_load_n(&plant->fault_count, __ATOMIC_ACQUIRE);
    nvmlReturn_t code = NVML_SUCCESS;
    uint64_t delay_us = 0;
    for (uint32_t index = 0; index < count && index < PLANT_FAULT_SLOTS; index++) {
        plant_fault_t fault = plant->faults[index];
        fault.call[sizeof fault.call - 1] = '\0';
        if ((fault.gpu == PLANT_ALL_GPUS || fault.gpu == gpu) && is_meant(fault.call, call)) {
            delay_us += fault.delay_us;
            code = fault.code != 0 ? (nvmlReturn_t)fault.code : code;
        }
    }
    if (delay_us > 0) {
        sleep_us(delay_us);
    }
    return code;
}
