/* Start and end of the library, and the mapping of the plant's state. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"

#define READ_ATTEMPTS 100000

static plant_state_t nothing;
plant_state_t *_Atomic plant = &nothing; /* so that no reader has to check whether there is one */

static struct device devices[PLANT_MAX_GPUS];
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stat mapped; /* which file `plant` is; only looked at under the lock */
static _Atomic unsigned int init_count;
static _Atomic bool mapped_for_writing;
static _Atomic uint32_t generation; /* of the driver that this process started with */

__attribute__((constructor)) static void number_devices(void)
{
    for (unsigned int index = 0; index < PLANT_MAX_GPUS; index++) {
        devices[index].index = index;
    }
}

/* Whether a file of the right size is a plant's, complete, of this layout, and with a driver. */
static bool is_usable(const plant_state_t *found)
{
    return __atomic_load_n(&found->magic, __ATOMIC_ACQUIRE) == PLANT_MAGIC &&
           found->layout_version == PLANT_LAYOUT_VERSION && found->gpu_count <= PLANT_MAX_GPUS &&
           __atomic_load_n(&found->driver_loaded, __ATOMIC_ACQUIRE) != 0;
}

static int open_plant(bool *writable)
{
    const char *path = getenv(PLANT_VARIABLE);
    if (path == NULL) {
        return -1;
    }
    int file = open(path, O_RDWR | O_CLOEXEC);
    *writable = file >= 0;
    return *writable ? file : open(path, O_RDONLY | O_CLOEXEC);
}

/* The file's content; what is mapped already where it is that. NULL where it is no plant's. */
static plant_state_t *map_file(int file, bool writable)
{
    struct stat info;
    if (fstat(file, &info) != 0 || info.st_size != (off_t)sizeof(plant_state_t)) {
        return NULL;
    }
    if (plant != &nothing && writable == mapped_for_writing && info.st_dev == mapped.st_dev &&
        info.st_ino == mapped.st_ino) {
        return plant;
    }
    void *memory = mmap(NULL, sizeof(plant_state_t), PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    if (!is_usable(memory)) {
        munmap(memory, sizeof(plant_state_t));
        return NULL;
    }
    mapped = info;
    return memory;
}

/*
 * Maps the file that the environment names. A mapping of another file is left in place: another thread may still wait
 * in it.
 */
static nvmlReturn_t map_plant(void)
{
    bool writable = false;
    int file = open_plant(&writable);
    if (file < 0) {
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    plant_state_t *found = map_file(file, writable);
    close(file);
    if (found == NULL || !is_usable(found)) {
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    generation = __atomic_load_n(&found->driver_generation, __ATOMIC_ACQUIRE);
    mapped_for_writing = writable;
    plant = found;
    return NVML_SUCCESS;
}

/* Whether the driver that this process started with is still the one that is loaded. */
static bool same_driver(void)
{
    return __atomic_load_n(&plant->driver_loaded, __ATOMIC_ACQUIRE) != 0 &&
           __atomic_load_n(&plant->driver_generation, __ATOMIC_ACQUIRE) == generation;
}

API nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    pthread_mutex_lock(&init_lock);
    nvmlReturn_t result = init_count > 0 && same_driver() ? NVML_SUCCESS : map_plant();
    pthread_mutex_unlock(&init_lock);
    CHECK(result);
    CHECK(injected("nvmlInit_v2", PLANT_ALL_GPUS)); /* outside the lock: it may take long */
    init_count++;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

API nvmlReturn_t nvmlInit(void) SAME_AS(nvmlInit_v2);

API nvmlReturn_t nvmlShutdown(void)
{
    pthread_mutex_lock(&init_lock);
    nvmlReturn_t result = NVML_ERROR_UNINITIALIZED;
    if (init_count > 0) {
        init_count--;
        result = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&init_lock);
    return result;
}

bool library_started(void)
{
    return init_count > 0;
}

/* A process that outlives its driver finds the library as if it had never started it. */
nvmlReturn_t driver_ready(void)
{
    return library_started() && same_driver() ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlDevice_t device_at(unsigned int index)
{
    return &devices[index];
}

/* One word, so it is whole even where the plant is a bank further on by now. */
static uint32_t lost_word(unsigned int index)
{
    uint64_t sequence = __atomic_load_n(&plant->sequence, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&plant->readings[sequence & 1][index].lost, __ATOMIC_ACQUIRE);
}

bool gpu_is_lost(unsigned int index)
{
    return lost_word(index) != 0;
}

bool gpu_loss_is_told(unsigned int index)
{
    return lost_word(index) == PLANT_LOST_AND_REPORTED;
}

nvmlReturn_t enter(const char *call)
{
    CHECK(driver_ready());
    return injected(call, PLANT_ALL_GPUS);
}

nvmlReturn_t enter_device(const char *call, nvmlDevice_t device)
{
    CHECK(driver_ready());
    uintptr_t place = (uintptr_t)device - (uintptr_t)devices;
    if (place % sizeof *devices != 0 || place / sizeof *devices >= plant->gpu_count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    CHECK(injected(call, (int)device->index));
    return gpu_is_lost(device->index) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t enter_setter(const char *call, nvmlDevice_t device)
{
    CHECK(enter_device(call, device));
    return is_root() && may_write() ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}

/* See simulator/driver/layout.py for the two banks. */
nvmlReturn_t read_gpu(nvmlDevice_t device, plant_reading_t *reading, int64_t *time_us)
{
    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        uint64_t sequence = __atomic_load_n(&plant->sequence, __ATOMIC_ACQUIRE);
        memcpy(reading, &plant->readings[sequence & 1][device->index], sizeof *reading);
        if (time_us != NULL) {
            *time_us = plant->time_us[sequence & 1];
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&plant->sequence, __ATOMIC_ACQUIRE) == sequence) {
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_UNKNOWN;
}

uint64_t oldest_in_ring(uint64_t count, unsigned int slots)
{
    return count < slots ? 0 : count - slots + 1;
}

bool was_in_ring(const uint64_t *counter, uint64_t position, unsigned int slots)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE) - position < slots;
}

bool is_root(void)
{
    return geteuid() == 0;
}

bool may_write(void)
{
    return mapped_for_writing;
}

nvmlReturn_t copy_text(char *to, unsigned int size, const char *from)
{
    REQUIRE(to);
    if (strlen(from) + 1 > size) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    memcpy(to, from, strlen(from) + 1);
    return NVML_SUCCESS;
}
