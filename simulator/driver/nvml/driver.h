/* What the parts of the simulated driver share: the mapped plant and the devices in it. */
#ifndef DRIVER_H
#define DRIVER_H

#include <stdbool.h>

#include "nvml_abi.h"
#include "plant_layout.h"

struct device {
    unsigned int index;
};

/* The mapped state; only valid between a driver_ready() that said NVML_SUCCESS and the end of the call. */
extern plant_state_t *plant;

/* Whether the library is initialised. */
nvmlReturn_t driver_ready(void);
/* Whether the handle is one of ours and its GPU is still on the bus. */
nvmlReturn_t device_ready(nvmlDevice_t device);
/* The handle of a GPU by index, which must be below the count. */
nvmlDevice_t device_at(unsigned int index);
/* Whether a GPU has fallen off the bus. */
bool gpu_is_lost(unsigned int index);
/* Whether the driver has reported that loss; until then waiting for events goes on. */
bool gpu_loss_is_told(unsigned int index);
/* Copies one moment of one GPU; `time_us` may be NULL. */
nvmlReturn_t read_gpu(nvmlDevice_t device, plant_reading_t *reading, int64_t *time_us);
/* Whether this process may change settings. */
bool may_write(void);
bool is_root(void);
/* Copies text with its end; NVML_ERROR_INSUFFICIENT_SIZE where it does not fit. */
nvmlReturn_t copy_text(char *to, unsigned int size, const char *from);

#define GPU_FIXED(handle) (&plant->fixed[(handle)->index])
#define GPU_REQUEST(handle) (&plant->request[(handle)->index])

/* Leaves the function with the error unless the call went well. */
#define CHECK(call)                        \
    do {                                   \
        nvmlReturn_t result_ = (call);     \
        if (result_ != NVML_SUCCESS) {     \
            return result_;                \
        }                                  \
    } while (0)
#define REQUIRE(pointer)                        \
    do {                                        \
        if ((pointer) == NULL) {                \
            return NVML_ERROR_INVALID_ARGUMENT; \
        }                                       \
    } while (0)

#endif
