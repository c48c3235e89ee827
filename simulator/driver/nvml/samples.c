/* The driver's own sample buffers. */
#include "driver.h"

/* What the driver keeps, as seen on hardware: 120 of power, 100 of utilisation. The plant keeps more. */
#define POWER_SAMPLES 120u
#define UTIL_SAMPLES 100u
_Static_assert(POWER_SAMPLES < PLANT_SAMPLE_SLOTS && UTIL_SAMPLES < PLANT_UTIL_SLOTS, "the rings are too short");
enum { POWER, GPU_UTIL, MEM_UTIL, ENCODER, DECODER, PROCESSOR_CLOCK, MEMORY_CLOCK, MODULE_POWER, JPEG, OFA, KINDS };

struct one {
    uint64_t time_us;
    unsigned int value;
};

static struct one power_or_clock(unsigned int gpu, unsigned int kind, uint64_t position)
{
    const plant_sample_t *sample = &plant->samples[gpu][position % PLANT_SAMPLE_SLOTS];
    unsigned int clock_mhz = kind == MEMORY_CLOCK ? plant->fixed[gpu].mem_clock_mhz : sample->sm_clock_mhz;
    return (struct one){.time_us = sample->time_us, .value = kind == POWER ? sample->power_mw : clock_mhz};
}

static struct one use(unsigned int gpu, unsigned int kind, uint64_t position)
{
    const plant_util_sample_t *sample = &plant->util_samples[gpu][position % PLANT_UTIL_SLOTS];
    unsigned int percent = kind == GPU_UTIL ? sample->gpu_percent : kind == MEM_UTIL ? sample->mem_percent : 0;
    return (struct one){.time_us = sample->time_us, .value = percent};
}

static nvmlReturn_t is_kept(nvmlDevice_t device, unsigned int kind)
{
    if (kind >= KINDS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    bool absent = kind == MODULE_POWER || ((kind == JPEG || kind == OFA) && !HAS(device, JPEG_AND_OFA));
    return absent ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

/* Without a buffer only the size is returned. */
API nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, unsigned int kind, unsigned long long last_seen_us,
                                      unsigned int *value_type, unsigned int *count, nvmlSample_t *samples)
{
    ENTER_DEVICE(device);
    REQUIRE(value_type);
    REQUIRE(count);
    CHECK(is_kept(device, kind));
    unsigned int gpu = device->index;
    bool fast = kind == POWER || kind == PROCESSOR_CLOCK || kind == MEMORY_CLOCK;
    unsigned int depth = fast ? POWER_SAMPLES : UTIL_SAMPLES;
    const uint64_t *counter = fast ? &plant->sample_count[gpu] : &plant->util_count[gpu];
    *value_type = VALUE_U32;
    if (samples == NULL) {
        *count = depth;
        return NVML_SUCCESS;
    }
    unsigned int slots = fast ? PLANT_SAMPLE_SLOTS : PLANT_UTIL_SLOTS, given;
    uint64_t first;
    do {
        uint64_t written = __atomic_load_n(counter, __ATOMIC_ACQUIRE);
        first = written < depth ? 0 : written - depth;
        given = 0;
        for (uint64_t position = first; position < written && given < *count; position++) {
            struct one sample = fast ? power_or_clock(gpu, kind, position) : use(gpu, kind, position);
            if (sample.time_us > last_seen_us) {
                samples[given] = (nvmlSample_t){.timeStamp = sample.time_us, .sampleValue.ullVal = sample.value};
                given++;
            }
        }
    } while (!was_in_ring(counter, first, slots)); /* the plant went round meanwhile: copy anew */
    *count = given;
    return given > 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
