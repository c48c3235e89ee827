/* Waiting for the plant to report something. */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

#define LOOK_AGAIN_NS 250000000ll /* in case nothing wakes the waiter, as on a processor whose futex call is unknown */
#define NAP_NS 50000000ll

int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

uint32_t report_word(void)
{
    return __atomic_load_n(&plant->wake, __ATOMIC_ACQUIRE);
}

bool wait_for_report(uint32_t seen, int64_t end_ns)
{
    int64_t left_ns = end_ns - monotonic_ns();
    if (left_ns <= 0) {
        return false;
    }
    struct timespec slice = {.tv_nsec = left_ns < LOOK_AGAIN_NS ? left_ns : LOOK_AGAIN_NS};
    long waited = syscall(SYS_futex, &plant->wake, FUTEX_WAIT, seen, &slice, NULL, 0);
    if (waited < 0 && errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) {
        slice.tv_nsec = left_ns < NAP_NS ? left_ns : NAP_NS;
        nanosleep(&slice, NULL); /* a kernel without futex on such a mapping */
    }
    return true;
}
