/* The functions of libnvidia-ml that pynvml calls, answering from the scenario; layouts of nvml.h. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "scenario.h"

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    GPU_IS_LOST = 15,
    UNKNOWN = 999,
};

typedef struct opaque *device_t; /* GPU index + 1 */

static int users; /* nvmlInit calls that await their nvmlShutdown */

static int gpu_of(device_t device) { return (int)(intptr_t)device - 1; }

/* The first lines of every function: about the system, or about the GPU behind a handle. */
#define SYSTEM_CALL(call)                               \
    struct call call = scenario_enter(NO_GPU, __func__); \
    if (users == 0) return UNINITIALIZED;               \
    if (call.code != SUCCESS) return call.code

#define DEVICE_CALL(call, device)                                  \
    if (users == 0) return UNINITIALIZED;                          \
    if (gpu_of(device) < 0) return INVALID_ARGUMENT;               \
    struct call call = scenario_enter(gpu_of(device), __func__);   \
    if (call.code != SUCCESS) return call.code;                    \
    if (call.gpu >= scenario_gpu_count()) return GPU_IS_LOST

static int text_answer(int gpu, const char *key, char *text, unsigned length) {
    return scenario_text(gpu, key, text, length) ? SUCCESS : NOT_SUPPORTED;
}

static int number_answer(const struct call *call, const char *key, unsigned *value) {
    unsigned long long number;
    if (!scenario_number(call, key, &number)) return NOT_SUPPORTED;
    *value = (unsigned)number;
    return SUCCESS;
}

/* Init, shutdown, system */

int nvmlInitWithFlags(unsigned flags) {
    struct call call = scenario_enter(NO_GPU, __func__);
    (void)flags;
    if (call.code == SUCCESS) users++;
    return call.code;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    scenario_enter(NO_GPU, __func__);
    if (users == 0) return UNINITIALIZED;
    users--;
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    switch (code) {
        case SUCCESS: return "Success";
        case UNINITIALIZED: return "Uninitialized";
        case NOT_SUPPORTED: return "Not Supported";
        case GPU_IS_LOST: return "GPU is lost";
        case UNKNOWN: return "Unknown Error";
        default: return "Error";
    }
}

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
    SYSTEM_CALL(call);
    return text_answer(NO_GPU, "driver", text, length);
}

int nvmlSystemGetNVMLVersion(char *text, unsigned length) {
    SYSTEM_CALL(call);
    return text_answer(NO_GPU, "nvml", text, length);
}

int nvmlSystemGetCudaDriverVersion(int *version) {
    SYSTEM_CALL(call);
    return number_answer(&call, "cuda", (unsigned *)version);
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    SYSTEM_CALL(call);
    return number_answer(&call, "cuda", (unsigned *)version);
}

/* Handles and facts */

int nvmlDeviceGetCount_v2(unsigned *count) {
    SYSTEM_CALL(call);
    *count = (unsigned)scenario_gpu_count();
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device) {
    if (users == 0) return UNINITIALIZED;
    if ((int)index >= scenario_gpu_count()) return INVALID_ARGUMENT;
    struct call call = scenario_enter((int)index, __func__);
    *device = (device_t)(intptr_t)(index + 1);
    return call.code;
}

static int handle_by(const char *key, const char *wanted, device_t *device) {
    char text[256];
    for (int gpu = 0; gpu < scenario_gpu_count(); gpu++)
        if (scenario_text(gpu, key, text, sizeof text) && strcmp(text, wanted) == 0) {
            *device = (device_t)(intptr_t)(gpu + 1);
            return SUCCESS;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device) {
    SYSTEM_CALL(call);
    return handle_by("uuid", uuid, device);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, device_t *device) {
    SYSTEM_CALL(call);
    return handle_by("bus", bus, device);
}

#define DEVICE_TEXT(function, key)                                  \
    int function(device_t device, char *text, unsigned length) {    \
        DEVICE_CALL(call, device);                                  \
        return text_answer(call.gpu, key, text, length);            \
    }

DEVICE_TEXT(nvmlDeviceGetName, "name")
DEVICE_TEXT(nvmlDeviceGetUUID, "uuid")
DEVICE_TEXT(nvmlDeviceGetSerial, "serial")

int nvmlDeviceGetIndex(device_t device, unsigned *index) {
    DEVICE_CALL(call, device);
    *index = (unsigned)call.gpu;
    return SUCCESS;
}

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

int nvmlDeviceGetPciInfo_v3(device_t device, struct pci_info *pci) {
    DEVICE_CALL(call, device);
    memset(pci, 0, sizeof *pci);
    if (text_answer(call.gpu, "bus", pci->bus_id, sizeof pci->bus_id) != SUCCESS)
        return NOT_SUPPORTED;
    if (strlen(pci->bus_id) > 4) /* the legacy form has a domain of four digits */
        snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "%.15s", pci->bus_id + 4);
    sscanf(pci->bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(device_t device, int *major, int *minor) {
    DEVICE_CALL(call, device);
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(device_t device, unsigned *current, unsigned *pending) {
    DEVICE_CALL(call, device);
    *current = *pending = 0;
    return SUCCESS;
}

int nvmlDeviceIsMigDeviceHandle(device_t device, unsigned *is_mig) {
    DEVICE_CALL(call, device);
    *is_mig = 0;
    return SUCCESS;
}

/* Memory */

struct memory_v1 {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

static int read_memory(const struct call *call, struct memory_v2 *memory) {
    memory->reserved = 0;
    if (!scenario_number(call, "memory_total", &memory->total) ||
        !scenario_number(call, "memory_used", &memory->used))
        return NOT_SUPPORTED;
    scenario_number(call, "memory_reserved", &memory->reserved);
    memory->free = memory->total - memory->reserved - memory->used;
    scenario_number(call, "memory_free", &memory->free);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(device_t device, struct memory_v1 *memory) {
    DEVICE_CALL(call, device);
    struct memory_v2 now;
    int code = read_memory(&call, &now);
    if (code != SUCCESS) return code;
    *memory = (struct memory_v1){now.total, now.free, now.used + now.reserved};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(device_t device, struct memory_v2 *memory) {
    DEVICE_CALL(call, device);
    return read_memory(&call, memory);
}

int nvmlDeviceGetBAR1MemoryInfo(device_t device, struct memory_v1 *memory) {
    DEVICE_CALL(call, device);
    *memory = (struct memory_v1){274877906944, 274876203008, 1703936};
    return SUCCESS;
}

/* Processes */

struct process_info {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

/* `process_row_bytes` other than 24 lays rows out for another library than the caller knows. */
static int list_processes(const struct call *call, const char *kind, unsigned *count, char *out) {
    struct process_row rows[256];
    unsigned long long row_bytes = sizeof(struct process_info);
    unsigned capacity = *count;
    scenario_number(call, "process_row_bytes", &row_bytes);
    *count = scenario_processes(call->gpu, kind, rows, 256);
    if (*count == 0) return SUCCESS;
    if (out == NULL || capacity < *count) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++) {
        struct process_info row = {rows[i].pid, rows[i].used_bytes, ~0U, ~0U};
        if ((i + 1) * row_bytes <= capacity * sizeof row)
            memcpy(out + i * row_bytes, &row, row_bytes < sizeof row ? row_bytes : sizeof row);
    }
    return SUCCESS;
}

#define PROCESS_LIST(function, kind)                                \
    int function(device_t device, unsigned *count, void *rows) {    \
        DEVICE_CALL(call, device);                                  \
        return list_processes(&call, kind, count, rows);            \
    }

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, "compute")
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, "compute")
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics")
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps")

int nvmlDeviceGetProcessUtilization(device_t device, void *rows, unsigned *count,
                                    unsigned long long since) {
    DEVICE_CALL(call, device);
    (void)rows, (void)since;
    *count = 0;
    return NOT_FOUND;
}

/* Figures; a key that the scenario lacks is not supported */

#define DEVICE_NUMBER(function, key)                  \
    int function(device_t device, unsigned *value) {  \
        DEVICE_CALL(call, device);                    \
        return number_answer(&call, key, value);      \
    }

#define DEVICE_MASK(function, key)                                               \
    int function(device_t device, unsigned long long *value) {                   \
        DEVICE_CALL(call, device);                                               \
        return scenario_number(&call, key, value) ? SUCCESS : NOT_SUPPORTED;     \
    }

DEVICE_NUMBER(nvmlDeviceGetPowerUsage, "power_mw")
DEVICE_NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit_mw")
DEVICE_NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw")
DEVICE_NUMBER(nvmlDeviceGetPerformanceState, "performance_state")
DEVICE_NUMBER(nvmlDeviceGetPersistenceMode, "persistence_mode")
DEVICE_NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
DEVICE_NUMBER(nvmlDeviceGetDisplayActive, "display_active")
DEVICE_NUMBER(nvmlDeviceGetDisplayMode, "display_mode")
DEVICE_NUMBER(nvmlDeviceGetFanSpeed, "fan_percent")
DEVICE_MASK(nvmlDeviceGetCurrentClocksEventReasons, "event_reasons")
DEVICE_MASK(nvmlDeviceGetCurrentClocksThrottleReasons, "event_reasons")
DEVICE_MASK(nvmlDeviceGetSupportedClocksEventReasons, "event_reasons_supported")
DEVICE_MASK(nvmlDeviceGetSupportedClocksThrottleReasons, "event_reasons_supported")
DEVICE_MASK(nvmlDeviceGetTotalEnergyConsumption, "energy_mj")

struct utilization {
    unsigned gpu, memory;
};

int nvmlDeviceGetUtilizationRates(device_t device, struct utilization *rates) {
    DEVICE_CALL(call, device);
    int code = number_answer(&call, "utilization_gpu", &rates->gpu);
    return code != SUCCESS ? code
                           : number_answer(&call, "utilization_memory", &rates->memory);
}

#define DEVICE_CODEC(function)                                              \
    int function(device_t device, unsigned *percent, unsigned *period_us) { \
        DEVICE_CALL(call, device);                                          \
        *percent = 0;                                                       \
        *period_us = 100000;                                                \
        return SUCCESS;                                                     \
    }

DEVICE_CODEC(nvmlDeviceGetEncoderUtilization)
DEVICE_CODEC(nvmlDeviceGetDecoderUtilization)

int nvmlDeviceGetPcieThroughput(device_t device, unsigned counter, unsigned *value) {
    DEVICE_CALL(call, device);
    return number_answer(&call, counter == 0 ? "pcie_transmit_kb" : "pcie_receive_kb", value);
}

int nvmlDeviceGetTotalEccErrors(device_t device, unsigned type, unsigned counter,
                                unsigned long long *errors) {
    DEVICE_CALL(call, device);
    (void)type, (void)counter;
    *errors = 0;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(device_t device, unsigned sensor, unsigned *celsius) {
    DEVICE_CALL(call, device);
    return sensor == 0 ? number_answer(&call, "temperature_gpu", celsius) : INVALID_ARGUMENT;
}

struct temperature {
    unsigned version, sensor;
    int celsius;
};

int nvmlDeviceGetTemperatureV(device_t device, struct temperature *temperature) {
    DEVICE_CALL(call, device);
    return number_answer(&call, "temperature_gpu", (unsigned *)&temperature->celsius);
}

static const char *const CLOCKS[] = {"clock_graphics_mhz", "clock_sm_mhz", "clock_memory_mhz",
                                     "clock_video_mhz"};

#define DEVICE_CLOCK(function)                                              \
    int function(device_t device, unsigned type, unsigned *mhz) {           \
        DEVICE_CALL(call, device);                                          \
        return type < 4 ? number_answer(&call, CLOCKS[type], mhz) : INVALID_ARGUMENT; \
    }

DEVICE_CLOCK(nvmlDeviceGetClockInfo)
DEVICE_CLOCK(nvmlDeviceGetMaxClockInfo)

struct field_value {
    unsigned field, scope;
    long long timestamp, latency_us;
    unsigned value_type;
    int code;
    union {
        unsigned number;
        unsigned long long filler;
    } value;
};

/* Succeeds as a whole; each field has its own code. Field 82 is the memory's temperature. */
int nvmlDeviceGetFieldValues(device_t device, int count, struct field_value *values) {
    DEVICE_CALL(call, device);
    for (int i = 0; i < count; i++) {
        values[i].value_type = 1;
        values[i].code = values[i].field == 82
                             ? number_answer(&call, "temperature_memory", &values[i].value.number)
                             : NOT_SUPPORTED;
    }
    return SUCCESS;
}
