/* What the parts of the simulated driver share: the mapped plant and the devices in it. */
#ifndef DRIVER_H
#define DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "nvml_abi.h"
#include "plant_layout.h"

struct device {
    unsigned int index;
};

/*
 * The mapped state, or one without GPUs. Atomic, since another thread may start the library again meanwhile; what was
 * mapped before stays mapped, so a thread that still reads it reads old numbers and nothing worse.
 */
extern plant_state_t *_Atomic plant;

/* Whether the library is initialised, by the driver that is loaded now. */
nvmlReturn_t driver_ready(void);
/* Whether the library is initialised, whatever became of the driver since. */
bool library_started(void);
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
/* The PCI class, address and ids of a GPU as the driver writes the address. */
void write_bus_id(char *to, size_t size, unsigned int domain, unsigned int bus, unsigned int slot);
/* Sleeps until something was reported or the time is over; false in the latter case. `seen` is the word looked at. */
bool wait_for_report(uint32_t seen, int64_t end_ns);
uint32_t report_word(void);
int64_t monotonic_ns(void);

/*
 * Rings that the plant writes. It fills the slot after the newest before it raises the counter, so one slot fewer than
 * there are can be read: the oldest position, and whether what was copied from one was still it.
 */
uint64_t oldest_in_ring(uint64_t count, unsigned int slots);
bool was_in_ring(const uint64_t *counter, uint64_t position, unsigned int slots);

/* What a scenario makes a call answer; NVML_SUCCESS when it may go on, perhaps after a delay. */
nvmlReturn_t injected(const char *call, int gpu);
/* The first steps of every call: the driver is there, the GPU is on the bus, and no fault was injected. */
nvmlReturn_t enter(const char *call);
nvmlReturn_t enter_device(const char *call, nvmlDevice_t device);
/* The same for what only root may change. */
nvmlReturn_t enter_setter(const char *call, nvmlDevice_t device);

/* Groups of field values with a file of their own; NVML_ERROR_NOT_FOUND where the id is none of theirs. */
nvmlReturn_t put_nvlink_field(nvmlFieldValue_t *field, const plant_fixed_t *fixed, const plant_reading_t *reading);
nvmlReturn_t put_power_field(nvmlFieldValue_t *field, nvmlDevice_t device, const plant_reading_t *reading);
nvmlReturn_t put_memory_error_field(nvmlFieldValue_t *field, nvmlDevice_t device, const plant_reading_t *reading);
nvmlReturn_t put_pcie_field(nvmlFieldValue_t *field, const plant_reading_t *reading);
void put_u32(nvmlFieldValue_t *field, unsigned int value);
void put_u64(nvmlFieldValue_t *field, unsigned long long value);

#define GPU_FIXED(handle) (&plant->fixed[(handle)->index])
#define GPU_REQUEST(handle) (&plant->request[(handle)->index])
#define HAS(handle, feature) ((GPU_FIXED(handle)->features & PLANT_FEATURE_##feature) != 0)
#define ASKED(handle, word) __atomic_load_n(&GPU_REQUEST(handle)->word, __ATOMIC_ACQUIRE)
#define ASK(handle, word, value) __atomic_store_n(&GPU_REQUEST(handle)->word, (value), __ATOMIC_RELEASE)

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
#define REQUIRE_VERSION(structure, type, number)                   \
    do {                                                           \
        if ((structure)->version != VERSION_WORD(type, number)) {  \
            return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;           \
        }                                                          \
    } while (0)
/* What the part must have for the call to be answered at all. */
#define REQUIRE_PART(condition)                 \
    do {                                        \
        if (!(condition)) {                     \
            return NVML_ERROR_NOT_SUPPORTED;    \
        }                                       \
    } while (0)
#define ENTER() CHECK(enter(__func__))
#define ENTER_DEVICE(device) CHECK(enter_device(__func__, (device)))
#define ENTER_SETTER(device) CHECK(enter_setter(__func__, (device)))

/* A getter of one number that never changes, and of one that the moment gives. */
#define FIXED_GETTER(function, type, expression)                   \
    API nvmlReturn_t function(nvmlDevice_t device, type *value)    \
    {                                                              \
        ENTER_DEVICE(device);                                      \
        REQUIRE(value);                                            \
        const plant_fixed_t *fixed = GPU_FIXED(device);            \
        (void)fixed;                                               \
        *value = (expression);                                     \
        return NVML_SUCCESS;                                       \
    }
#define READING_GETTER(function, type, expression)                 \
    API nvmlReturn_t function(nvmlDevice_t device, type *value)    \
    {                                                              \
        ENTER_DEVICE(device);                                      \
        REQUIRE(value);                                            \
        plant_reading_t reading;                                   \
        CHECK(read_gpu(device, &reading, NULL));                   \
        *value = (expression);                                     \
        return NVML_SUCCESS;                                       \
    }
/* A getter of a structure, written out as its members, of parts that have a feature. */
#define PART_GETTER(function, type, feature, ...)                  \
    API nvmlReturn_t function(nvmlDevice_t device, type *value)    \
    {                                                              \
        ENTER_DEVICE(device);                                      \
        REQUIRE(value);                                            \
        REQUIRE_PART(HAS(device, feature));                        \
        *value = (type){__VA_ARGS__};                              \
        return NVML_SUCCESS;                                       \
    }
/* A sensor that gives nothing at the moment is an error that names no reason. */
#define REQUIRE_SENSOR(reading, sensor)                                \
    do {                                                               \
        if (((reading).dead_sensors & PLANT_DEAD_##sensor) != 0) {     \
            return NVML_ERROR_UNKNOWN;                                 \
        }                                                              \
    } while (0)
/* A second name of a function in the same file. */
#define SAME_AS(function) __attribute__((alias(#function)))

#endif
