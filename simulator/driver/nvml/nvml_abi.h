/*
 * The part of NVIDIA's management interface that the simulated driver answers.
 *
 * Names, numbers and layouts are those of the public header nvml.h (CUDA 13.x, PyPI nvidia-nvml-dev), written anew
 * from its facts: only the binary interface matters here.
 */
#ifndef NVML_ABI_H
#define NVML_ABI_H

#include <stdint.h>

#define API __attribute__((visibility("default")))

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef struct device *nvmlDevice_t;
typedef struct event_set *nvmlEventSet_t;

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned long long bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;

typedef struct {
    unsigned int version, sensorType;
    int temperature;
} nvmlTemperature_t;

typedef struct {
    unsigned long long referenceTime; /* us */
    unsigned long long violationTime; /* ns */
} nvmlViolationTime_t;

typedef union {
    double dVal;
    unsigned int uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    signed long long sllVal;
    int siVal;
    unsigned short usVal;
} nvmlValue_t;

enum value_type { VALUE_DOUBLE, VALUE_U32, VALUE_ULONG, VALUE_U64, VALUE_I64, VALUE_I32, VALUE_U16 };

typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp; /* us since 1970 */
    long long latencyUsec;
    unsigned int valueType;
    nvmlReturn_t nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
    unsigned long long timeStamp; /* us since 1970 */
    nvmlValue_t sampleValue;
} nvmlSample_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct {
    unsigned int version, mode, numProcArrayEntries;
    void *procArray;
} nvmlProcessDetailList_t;

/* A versioned structure carries its size and its version in its first word. */
#define VERSION_WORD(type, version) ((unsigned int)(sizeof(type) | ((version) << 24)))

#endif
