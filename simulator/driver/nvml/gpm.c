/* GPU performance metrics, Hopper and newer: two samples, and what happened between them. */
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

#define GPM_VERSION 1u
#define MAX_METRICS 477u /* room in nvmlGpmMetricsGet_t, nvml.h of CUDA 13.5; older headers have less */
#define MIB (1024.0 * 1024.0)

struct gpm_sample {
    const plant_fixed_t *fixed; /* NULL until something was sampled */
    int64_t time_us;
    plant_reading_t reading;
};

API nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    ENTER_DEVICE(device);
    REQUIRE(support);
    if (support->version != GPM_VERSION) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    support->isSupportedDevice = HAS(device, GPM);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    ENTER();
    REQUIRE(sample);
    *sample = calloc(1, sizeof **sample);
    return *sample == NULL ? NVML_ERROR_MEMORY : NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    ENTER();
    REQUIRE(sample);
    free(sample);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    ENTER_DEVICE(device);
    REQUIRE(sample);
    REQUIRE_PART(HAS(device, GPM));
    CHECK(read_gpu(device, &sample->reading, &sample->time_us));
    sample->fixed = GPU_FIXED(device);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpmQueryIfStreamingEnabled(nvmlDevice_t device, unsigned int *enabled)
{
    ENTER_DEVICE(device);
    REQUIRE(enabled);
    REQUIRE_PART(HAS(device, GPM));
    *enabled = 0;
    return NVML_SUCCESS;
}

/* Share of the time between two samples, in per cent. */
static double percent(uint64_t before_ns, uint64_t after_ns, double elapsed_s)
{
    return (double)(after_ns - before_ns) / 1e9 / elapsed_s * 100.0;
}

static uint64_t all_links(const struct gpm_sample *sample)
{
    uint64_t bytes = 0;
    for (unsigned int link = 0; link < sample->fixed->nvlink_count; link++) {
        bytes += sample->reading.nvlink_bytes[link];
    }
    return bytes;
}

static void name(nvmlGpmMetric_t *metric, const char *text, const char *unit)
{
    metric->metricInfo.shortName = metric->metricInfo.longName = text;
    metric->metricInfo.unit = unit;
}

/* NVML_GPM_METRIC_..., nvml.h, of what is counted by pipe. */
static const struct {
    unsigned int metric, pipe;
    const char *text;
} PIPES[] = {
    {3, PLANT_PIPE_OCCUPANCY, "SM Occupancy"},
    {4, PLANT_PIPE_INTEGER, "Integer Utilization"},
    {5, PLANT_PIPE_TENSOR, "Tensor Utilization"},
    {6, PLANT_PIPE_DFMA, "Tensor DFMA Utilization"},
    {7, PLANT_PIPE_HMMA, "Tensor HMMA Utilization"},
    {8, PLANT_PIPE_DMMA, "Tensor DMMA Utilization"},
    {9, PLANT_PIPE_IMMA, "Tensor IMMA Utilization"},
    {11, PLANT_PIPE_FP64, "FP64 Utilization"},
    {12, PLANT_PIPE_FP32, "FP32 Utilization"},
    {13, PLANT_PIPE_FP16, "FP16 Utilization"},
};

static nvmlReturn_t evaluate_pipe(nvmlGpmMetric_t *metric, const plant_reading_t *before, const plant_reading_t *after,
                                  double elapsed_s)
{
    for (size_t place = 0; place < sizeof PIPES / sizeof *PIPES; place++) {
        unsigned int pipe = PIPES[place].pipe;
        if (PIPES[place].metric == metric->metricId) {
            name(metric, PIPES[place].text, "%");
            metric->value = percent(before->pipe_ns[pipe], after->pipe_ns[pipe], elapsed_s);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

/* A load that keeps the GPU busy keeps its multiprocessors busy. NVML_GPM_METRIC_..., nvml.h. */
static nvmlReturn_t evaluate(nvmlGpmMetric_t *metric, const struct gpm_sample *first, const struct gpm_sample *second)
{
    double elapsed_s = (double)(second->time_us - first->time_us) / 1e6;
    const plant_reading_t *before = &first->reading, *after = &second->reading;
    unsigned int link = (metric->metricId - 62) / 2;
    if (elapsed_s <= 0.0) {
        return NVML_ERROR_NO_DATA;
    }
    switch (metric->metricId) {
    case 1:
        name(metric, "Graphics Utilization", "%");
        metric->value = percent(before->busy_ns, after->busy_ns, elapsed_s);
        return NVML_SUCCESS;
    case 2:
        name(metric, "SM Utilization", "%");
        metric->value = percent(before->busy_ns, after->busy_ns, elapsed_s);
        return NVML_SUCCESS;
    case 10:
        name(metric, "DRAM Bandwidth", "%");
        metric->value = percent(before->dram_ns, after->dram_ns, elapsed_s);
        return NVML_SUCCESS;
    case 20:
        name(metric, "PCIe TX", "MiB/s");
        metric->value = (double)(after->pcie_tx_bytes - before->pcie_tx_bytes) / MIB / elapsed_s;
        return NVML_SUCCESS;
    case 21:
        name(metric, "PCIe RX", "MiB/s");
        metric->value = (double)(after->pcie_rx_bytes - before->pcie_rx_bytes) / MIB / elapsed_s;
        return NVML_SUCCESS;
    case 60: case 61:
        name(metric, metric->metricId == 60 ? "NVLink RX" : "NVLink TX", "MiB/s");
        metric->value = (double)(all_links(second) - all_links(first)) / MIB / elapsed_s;
        return NVML_SUCCESS;
    case 62 ... 62 + 2 * PLANT_MAX_LINKS - 1:
        if (link >= first->fixed->nvlink_count) {
            return NVML_ERROR_NOT_SUPPORTED;
        }
        name(metric, metric->metricId % 2 == 0 ? "NVLink RX of a link" : "NVLink TX of a link", "MiB/s");
        metric->value = (double)(after->nvlink_bytes[link] - before->nvlink_bytes[link]) / MIB / elapsed_s;
        return NVML_SUCCESS;
    default: return evaluate_pipe(metric, before, after, elapsed_s);
    }
}

/* Each metric has a return code of its own. */
API nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *request)
{
    ENTER();
    REQUIRE(request);
    if (request->version != GPM_VERSION) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    REQUIRE(request->sample1);
    REQUIRE(request->sample2);
    if (request->sample1->fixed == NULL || request->sample1->fixed != request->sample2->fixed) {
        return NVML_ERROR_INVALID_ARGUMENT; /* never sampled, or of two GPUs */
    }
    if (request->numMetrics > MAX_METRICS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned int index = 0; index < request->numMetrics; index++) {
        nvmlGpmMetric_t *metric = &request->metrics[index];
        metric->value = 0.0;
        name(metric, NULL, NULL);
        metric->nvmlReturn = evaluate(metric, request->sample1, request->sample2);
    }
    return NVML_SUCCESS;
}
