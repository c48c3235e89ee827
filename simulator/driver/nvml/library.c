/* Start and end of the library, its versions, and the mapping of the plant's state. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"

#define READ_ATTEMPTS 100000

plant_state_t *plant;

static struct device devices[PLANT_MAX_GPUS];
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int init_count;
static bool mapped_for_writing;

/*
 * Maps the file that the environment names. An earlier mapping is left in place: another thread may still wait in it,
 * and a process starts the library a handful of times at most.
 */
static nvmlReturn_t map_plant(void)
{
    const char *path = getenv(PLANT_VARIABLE);
    if (path == NULL) {
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    bool writable = true;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        writable = false;
        file = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (file < 0) {
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    struct stat info;
    void *memory = MAP_FAILED;
    if (fstat(file, &info) == 0 && info.st_size == (off_t)sizeof(plant_state_t)) {
        memory = mmap(NULL, sizeof(plant_state_t), PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, file, 0);
    }
    close(file);
    if (memory == MAP_FAILED) {
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    const plant_state_t *found = memory;
    if (found->magic != PLANT_MAGIC || found->layout_version != PLANT_LAYOUT_VERSION ||
        found->gpu_count > PLANT_MAX_GPUS) {
        munmap(memory, sizeof(plant_state_t));
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    plant = memory;
    mapped_for_writing = writable;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    pthread_mutex_lock(&init_lock);
    nvmlReturn_t result = init_count > 0 ? NVML_SUCCESS : map_plant();
    if (result == NVML_SUCCESS) {
        for (unsigned int index = 0; index < PLANT_MAX_GPUS; index++) {
            devices[index].index = index;
        }
        __atomic_add_fetch(&init_count, 1, __ATOMIC_SEQ_CST);
    }
    pthread_mutex_unlock(&init_lock);
    return result;
}

API nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

API nvmlReturn_t nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

API nvmlReturn_t nvmlShutdown(void)
{
    pthread_mutex_lock(&init_lock);
    nvmlReturn_t result = NVML_ERROR_UNINITIALIZED;
    if (init_count > 0) {
        __atomic_sub_fetch(&init_count, 1, __ATOMIC_SEQ_CST);
        result = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&init_lock);
    return result;
}

nvmlReturn_t driver_ready(void)
{
    return __atomic_load_n(&init_count, __ATOMIC_SEQ_CST) > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlDevice_t device_at(unsigned int index)
{
    return &devices[index];
}

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
    return lost_word(index) == PLANT_LOST_AND_TOLD;
}

nvmlReturn_t device_ready(nvmlDevice_t device)
{
    CHECK(driver_ready());
    if (device < devices || device >= devices + plant->gpu_count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    return gpu_is_lost(device->index) ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

/* See simulator/driver/layout.py for the two banks. */
nvmlReturn_t read_gpu(nvmlDevice_t device, plant_reading_t *reading, int64_t *time_us)
{
    CHECK(device_ready(device));
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

API nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    CHECK(driver_ready());
    return copy_text(version, length, plant->driver_version);
}

API nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    CHECK(driver_ready());
    return copy_text(version, length, plant->nvml_version);
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    CHECK(driver_ready());
    REQUIRE(version);
    *version = plant->cuda_version;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

API const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_MEMORY: return "Out of memory";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    case NVML_ERROR_UNKNOWN: break;
    }
    return "Unknown Error";
}
