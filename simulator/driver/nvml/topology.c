/* How GPUs, processors and memory of the host lie to each other. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

/* nvmlGpuTopologyLevel_t: the same GPU; below one NUMA node; across them. Each GPU has a root port of its own. */
enum { LEVEL_SELF = 0, LEVEL_NODE = 40, LEVEL_SYSTEM = 50 };
enum { P2P_READ, P2P_WRITE, P2P_NVLINK, P2P_ATOMICS, P2P_PCI, P2P_KINDS };
enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };
#define WORD_BITS (sizeof(unsigned long) * CHAR_BIT)

static unsigned int level_between(unsigned int first, unsigned int second)
{
    if (first == second) {
        return LEVEL_SELF;
    }
    return plant->fixed[first].numa_node == plant->fixed[second].numa_node ? LEVEL_NODE : LEVEL_SYSTEM;
}

API nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t first, nvmlDevice_t second, unsigned int *level)
{
    ENTER_DEVICE(first);
    ENTER_DEVICE(second);
    REQUIRE(level);
    *level = level_between(first->index, second->index);
    return NVML_SUCCESS;
}

/* Collects GPUs for which a condition holds: how many there are, and as many as there is room for. */
#define COLLECT(condition)                                                               \
    do {                                                                                 \
        unsigned int found_ = 0;                                                         \
        for (unsigned int index = 0; index < plant->gpu_count; index++) {                \
            if ((condition) && !gpu_is_lost(index)) {                                    \
                if (devices != NULL && found_ < *count) {                                \
                    devices[found_] = device_at(index);                                  \
                }                                                                        \
                found_++;                                                                \
            }                                                                            \
        }                                                                                \
        *count = devices != NULL && found_ > *count ? *count : found_;                   \
    } while (0)

API nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned int level, unsigned int *count,
                                                  nvmlDevice_t *devices)
{
    ENTER_DEVICE(device);
    REQUIRE(count);
    COLLECT(index != device->index && level_between(device->index, index) == level);
    return NVML_SUCCESS;
}

static bool joined_by_nvlink(unsigned int first, unsigned int second)
{
    const plant_fixed_t *fixed = &plant->fixed[first];
    for (unsigned int link = 0; link < fixed->nvlink_count; link++) {
        const plant_link_end_t *end = &fixed->nvlink_ends[link];
        if (end->kind == 2 || (end->kind == 0 && end->gpu == second)) {
            return true;
        }
    }
    return false;
}

API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t first, nvmlDevice_t second, unsigned int kind,
                                        unsigned int *status)
{
    ENTER_DEVICE(first);
    ENTER_DEVICE(second);
    REQUIRE(status);
    if (kind >= P2P_KINDS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    bool joined = joined_by_nvlink(first->index, second->index);
    bool needs_nvlink = kind == P2P_NVLINK || kind == P2P_ATOMICS;
    *status = joined || !needs_nvlink ? P2P_OK : P2P_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

static unsigned int numa_nodes(void)
{
    unsigned int highest = 0;
    for (unsigned int index = 0; index < plant->gpu_count; index++) {
        highest = plant->fixed[index].numa_node > highest ? plant->fixed[index].numa_node : highest;
    }
    return highest + 1;
}

/* The processors of this host, shared out to the NUMA nodes of the simulated one in equal, consecutive parts. */
static unsigned int numa_node_of_cpu(unsigned int cpu)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    return cpus < 1 ? 0 : (unsigned int)((unsigned long)cpu * numa_nodes() / (unsigned long)cpus);
}

static nvmlReturn_t cpu_set(nvmlDevice_t device, unsigned int words, unsigned long *set)
{
    REQUIRE(set);
    if (words == 0) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    memset(set, 0, words * sizeof *set);
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    for (unsigned int cpu = 0; cpu < (unsigned long)cpus && cpu < words * WORD_BITS; cpu++) {
        if (numa_node_of_cpu(cpu) == GPU_FIXED(device)->numa_node) {
            set[cpu / WORD_BITS] |= 1ul << cpu % WORD_BITS;
        }
    }
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set)
{
    ENTER_DEVICE(device);
    return cpu_set(device, words, set);
}

/* Scopes: NUMA node and socket, which are the same here. */
API nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words, unsigned long *set,
                                                     unsigned int scope)
{
    ENTER_DEVICE(device);
    return scope > 1 ? NVML_ERROR_INVALID_ARGUMENT : cpu_set(device, words, set);
}

API nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set,
                                             unsigned int scope)
{
    ENTER_DEVICE(device);
    REQUIRE(set);
    unsigned int node = GPU_FIXED(device)->numa_node;
    if (words == 0 || scope > 1 || node >= words * WORD_BITS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    memset(set, 0, words * sizeof *set);
    set[node / WORD_BITS] = 1ul << node % WORD_BITS;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpu, unsigned int *count, nvmlDevice_t *devices)
{
    ENTER();
    REQUIRE(count);
    unsigned int node = numa_node_of_cpu(cpu);
    COLLECT(plant->fixed[index].numa_node == node);
    return NVML_SUCCESS;
}
