/* The PCI Express link of each GPU. */
#include <time.h>

#include "driver.h"

READING_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, reading.pcie_generation)
READING_GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, reading.pcie_width)
READING_GETTER(nvmlDeviceGetPcieReplayCounter, unsigned int, reading.pcie_replays)
FIXED_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, fixed->pcie_generation_max)
FIXED_GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, fixed->pcie_generation_max)
FIXED_GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, fixed->pcie_width_max)
FIXED_GETTER(nvmlDeviceGetPcieLinkMaxSpeed, unsigned int, fixed->pcie_generation_max) /* an id, one a generation */

/* Transfers per microsecond and lane: 2500, 5000, then twice as many with each generation. PCI Express base spec. */
static unsigned int lane_speed(unsigned int generation)
{
    return generation == 0 ? 0 : generation < 3 ? 2500u * generation : 8000u << (generation - 3);
}

READING_GETTER(nvmlDeviceGetPcieSpeed, unsigned int, lane_speed(reading.pcie_generation))

/* nvml.h: the counter is watched for 20 ms, and the caller waits for it. */
API nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter, unsigned int *kib_per_s)
{
    ENTER_DEVICE(device);
    REQUIRE(kib_per_s);
    if (counter > 1) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    plant_reading_t reading;
    CHECK(read_gpu(device, &reading, NULL));
    *kib_per_s = counter == 0 ? reading.pcie_tx_kib_s : reading.pcie_rx_kib_s;
    return NVML_SUCCESS;
}

nvmlReturn_t put_pcie_field(nvmlFieldValue_t *field, const plant_reading_t *reading)
{
    switch (field->fieldId) {
    case 94: put_u32(field, reading->pcie_replays); break;
    case 95: put_u32(field, 0); break; /* rolled over */
    case 169: put_u32(field, 0); break; /* L0 to recovery */
    case 173: put_u32(field, (unsigned int)reading->aer_correctable); break;
    case 174: case 177: put_u32(field, reading->pcie_replays); break; /* a replay follows a NAK; received, sent */
    case 175: put_u32(field, (unsigned int)reading->aer_correctable); break; /* receiver errors are correctable */
    case 176: case 178: case 179: case 181: case 182: case 183: put_u32(field, 0); break;
    case 180: put_u32(field, (unsigned int)reading->aer_fatal); break;
    case 197: put_u64(field, reading->pcie_tx_bytes); break;
    case 198: put_u64(field, reading->pcie_rx_bytes); break;
    default: return NVML_ERROR_NOT_FOUND;
    }
    return NVML_SUCCESS;
}
