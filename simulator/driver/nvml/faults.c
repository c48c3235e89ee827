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

struct answer {
    nvmlReturn_t code;
    uint64_t delay_us;
};

static struct answer answer_of(const plant_fault_t *faults, uint32_t count, const char *call, int gpu)
{
    struct answer answer = {.code = NVML_SUCCESS};
    for (uint32_t index = 0; index < count && index < PLANT_FAULT_SLOTS; index++) {
        plant_fault_t fault = faults[index];
        fault.call[sizeof fault.call - 1] = '\0';
        if ((fault.gpu == PLANT_ALL_GPUS || fault.gpu == gpu) && is_meant(fault.call, call)) {
            answer.delay_us += fault.delay_us;
            answer.code = fault.code != 0 ? (nvmlReturn_t)fault.code : answer.code;
        }
    }
    return answer;
}

/* See simulator/driver/layout.py for the two banks. */
nvmlReturn_t injected(const char *call, int gpu)
{
    struct answer answer;
    uint64_t sequence;
    do {
        sequence = __atomic_load_n(&plant->fault_sequence, __ATOMIC_ACQUIRE);
        unsigned int bank = sequence & 1;
        answer = answer_of(plant->faults[bank], plant->fault_count[bank], call, gpu);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (__atomic_load_n(&plant->fault_sequence, __ATOMIC_ACQUIRE) != sequence);
    if (answer.delay_us > 0) {
        sleep_us(answer.delay_us);
    }
    return answer.code;
}
