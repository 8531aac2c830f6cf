/* The functions of libnvidia-ml that pynvml calls, answering from the scenario; layouts of nvml.h. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scenario.h"

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    UNKNOWN = 999,
};

typedef struct opaque *device_t; /* GPU index + 1, and MAX_HANDLES x (slot + 1) for a MIG device */

#define MAX_HANDLES 1000
#define NO_SLOT (-1)

static atomic_int users;       /* nvmlInit calls that await their nvmlShutdown */
static atomic_int event_sets;  /* that were created and not yet freed */
static atomic_int gpm_samples; /* that were allocated and not yet freed */

static int gpu_of(device_t device) { return (int)((intptr_t)device % MAX_HANDLES) - 1; }

static int slot_of(device_t device) { return (int)((intptr_t)device / MAX_HANDLES) - 1; }

/* The first lines of every function: about the system, or about the GPU behind a handle. */
#define SYSTEM_CALL(call)                               \
    struct call call = scenario_enter(NO_GPU, __func__); \
    if (users == 0) return UNINITIALIZED;               \
    if (call.code != SUCCESS) return call.code

#define DEVICE_CALL(call, device)                                  \
    if (users == 0) return UNINITIALIZED;                          \
    if (gpu_of(device) < 0) return INVALID_ARGUMENT;               \
    if (slot_of(device) != NO_SLOT) return NOT_SUPPORTED;          \
    struct call call = scenario_enter(gpu_of(device), __func__);   \
    if (call.code != SUCCESS) return call.code;                    \
    if (call.gpu >= scenario_gpu_count()) return GPU_IS_LOST

/* A MIG device: the line `mig_SLOT` of its GPU. */
struct mig {
    char uuid[64], profile[32];
    unsigned instance, compute_instance;
    unsigned long long total, used, reserved;
};

static int find_mig(int gpu, int slot, struct mig *mig) {
    char key[16], text[256];
    snprintf(key, sizeof key, "mig_%d", slot);
    return scenario_text(gpu, key, text, sizeof text) &&
           sscanf(text, "%63s %31s %u %u %llu %llu %llu", mig->uuid, mig->profile, &mig->instance,
                  &mig->compute_instance, &mig->total, &mig->used, &mig->reserved) == 7;
}

/* The first lines of a function that also takes MIG devices; rules name it FUNCTION@SLOT then. */
#define ANY_DEVICE_CALL(call, device)                                                  \
    if (users == 0) return UNINITIALIZED;                                              \
    if (gpu_of(device) < 0) return INVALID_ARGUMENT;                                   \
    char function_name[64];                                                            \
    struct mig mig = {0};                                                              \
    snprintf(function_name, sizeof function_name,                                      \
             slot_of(device) == NO_SLOT ? "%s" : "%s@%d", __func__, slot_of(device));  \
    struct call call = scenario_enter(gpu_of(device), function_name);                  \
    if (call.code != SUCCESS) return call.code;                                        \
    if (call.gpu >= scenario_gpu_count()) return GPU_IS_LOST;                          \
    if (slot_of(device) != NO_SLOT && !find_mig(call.gpu, slot_of(device), &mig)) return NOT_FOUND

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

int nvmlDeviceGetName(device_t device, char *text, unsigned length) {
    char name[128];
    ANY_DEVICE_CALL(call, device);
    int code = text_answer(call.gpu, "name", name, sizeof name);
    if (code != SUCCESS) return code;
    snprintf(text, length, mig.profile[0] ? "%s MIG %s" : "%s", name, mig.profile);
    return SUCCESS;
}

int nvmlDeviceGetUUID(device_t device, char *text, unsigned length) {
    ANY_DEVICE_CALL(call, device);
    if (slot_of(device) == NO_SLOT) return text_answer(call.gpu, "uuid", text, length);
    snprintf(text, length, "%s", mig.uuid);
    return SUCCESS;
}

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
    int code = number_answer(&call, "mig_mode", current);
    *pending = *current;
    return code;
}

int nvmlDeviceIsMigDeviceHandle(device_t device, unsigned *is_mig) {
    *is_mig = slot_of(device) != NO_SLOT;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(device_t device, unsigned *count) {
    DEVICE_CALL(call, device);
    int code = number_answer(&call, "mig_mode", count);
    *count = *count ? 7 : 0;
    return code;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device_t device, unsigned slot, device_t *mig_device) {
    DEVICE_CALL(call, device);
    struct mig mig;
    if (!find_mig(call.gpu, (int)slot, &mig)) return NOT_FOUND;
    *mig_device = (device_t)(intptr_t)(call.gpu + 1 + MAX_HANDLES * ((int)slot + 1));
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(device_t device, unsigned *id) {
    ANY_DEVICE_CALL(call, device);
    if (slot_of(device) == NO_SLOT) return NOT_SUPPORTED;
    *id = mig.instance;
    return SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(device_t device, unsigned *id) {
    ANY_DEVICE_CALL(call, device);
    if (slot_of(device) == NO_SLOT) return NOT_SUPPORTED;
    *id = mig.compute_instance;
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

static int read_memory(const struct call *call, const struct mig *mig, struct memory_v2 *memory) {
    if (mig->profile[0]) {
        memory->total = mig->total;
        memory->used = mig->used;
        memory->reserved = mig->reserved;
        memory->free = mig->total - mig->used - mig->reserved;
        return SUCCESS;
    }
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
    ANY_DEVICE_CALL(call, device);
    struct memory_v2 now;
    int code = read_memory(&call, &mig, &now);
    if (code != SUCCESS) return code;
    *memory = (struct memory_v1){now.total, now.free, now.used + now.reserved};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(device_t device, struct memory_v2 *memory) {
    ANY_DEVICE_CALL(call, device);
    return read_memory(&call, &mig, memory);
}

int nvmlDeviceGetBAR1MemoryInfo(device_t device, struct memory_v1 *memory) {
    DEVICE_CALL(call, device);
    if (!scenario_number(&call, "bar1_total", &memory->total) ||
        !scenario_number(&call, "bar1_used", &memory->used))
        return NOT_SUPPORTED;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

/* Processes */

struct process_info {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

/* `process_row_bytes` other than 24 lays rows out for another library than the caller knows. */
static int list_processes(const struct call *call, const char *kind, int slot, unsigned *count,
                          char *out) {
    struct process_row rows[256];
    unsigned long long row_bytes = sizeof(struct process_info);
    unsigned capacity = *count;
    char of_slot[32];
    scenario_number(call, "process_row_bytes", &row_bytes);
    *count = slot == NO_SLOT ? scenario_processes(call->gpu, kind, rows, 256) : 0;
    for (int i = slot == NO_SLOT ? 0 : slot; i < (slot == NO_SLOT ? 7 : slot + 1); i++) {
        snprintf(of_slot, sizeof of_slot, "%s@%d", kind, i);
        *count += scenario_processes(call->gpu, of_slot, rows + *count, 256 - *count);
    }
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
        ANY_DEVICE_CALL(call, device);                              \
        return list_processes(&call, kind, slot_of(device), count, rows); \
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
    static const char *const KEYS[2][2] = {
        {"ecc_corrected_volatile", "ecc_corrected_aggregate"},
        {"ecc_uncorrected_volatile", "ecc_uncorrected_aggregate"},
    };
    DEVICE_CALL(call, device);
    if (type > 1 || counter > 1) return INVALID_ARGUMENT;
    return scenario_number(&call, KEYS[type][counter], errors) ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetRemappedRows(device_t device, unsigned *correctable, unsigned *uncorrectable,
                              unsigned *is_pending, unsigned *has_failed) {
    char text[64];
    DEVICE_CALL(call, device);
    if (!scenario_text(call.gpu, "remapped_rows", text, sizeof text)) return NOT_SUPPORTED;
    sscanf(text, "%u %u %u %u", correctable, uncorrectable, is_pending, has_failed);
    return SUCCESS;
}

DEVICE_NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie_replays")
DEVICE_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation")
DEVICE_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_max_generation")
DEVICE_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_lanes")
DEVICE_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_max_lanes")

/* `nvlinks 1 1 0`: the state of each link. */
int nvmlDeviceGetNvLinkState(device_t device, unsigned link, unsigned *is_active) {
    char text[256];
    DEVICE_CALL(call, device);
    if (!scenario_text(call.gpu, "nvlinks", text, sizeof text)) return NOT_SUPPORTED;
    if (2 * link >= strlen(text)) return INVALID_ARGUMENT;
    *is_active = text[2 * link] == '1';
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

static const struct {
    unsigned field;
    const char *key;
} WIDE_FIELDS[] = {
    {138, "nvlink_transmit_kib"}, {139, "nvlink_receive_kib"},   {38, "nvlink_crc_flit_errors"},
    {45, "nvlink_crc_data_errors"}, {52, "nvlink_replay_errors"}, {59, "nvlink_recovery_errors"},
};

/* Succeeds as a whole; each field has its own code. 82 is the memory's temperature, 91 how many
 * NVLinks there are; the wide ones want scope 2^32 - 1, all links. */
int nvmlDeviceGetFieldValues(device_t device, int count, struct field_value *values) {
    char links[256];
    DEVICE_CALL(call, device);
    for (int i = 0; i < count; i++) {
        values[i].value_type = 1;
        values[i].code = NOT_SUPPORTED;
        if (values[i].field == 82)
            values[i].code = number_answer(&call, "temperature_memory", &values[i].value.number);
        if (values[i].field == 91 && scenario_text(call.gpu, "nvlinks", links, sizeof links)) {
            values[i].value.number = (unsigned)(strlen(links) + 1) / 2;
            values[i].code = SUCCESS;
        }
        for (unsigned j = 0; j < sizeof WIDE_FIELDS / sizeof *WIDE_FIELDS; j++)
            if (values[i].field == WIDE_FIELDS[j].field && values[i].scope == ~0U &&
                scenario_number(&call, WIDE_FIELDS[j].key, &values[i].value.filler)) {
                values[i].value_type = 3;
                values[i].code = SUCCESS;
            }
    }
    return SUCCESS;
}

/* Events: `xid_events 79 79 48` are delivered once each, in this order, after the file is read */

struct event_set {
    unsigned long long gpus; /* a bit for each */
};

struct event_data {
    device_t device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

int nvmlEventSetCreate(struct event_set **set) {
    SYSTEM_CALL(call);
    *set = calloc(1, sizeof **set);
    event_sets++;
    return SUCCESS;
}

int nvmlEventSetFree(struct event_set *set) {
    SYSTEM_CALL(call);
    free(set);
    event_sets--;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(device_t device, unsigned long long types, struct event_set *set) {
    DEVICE_CALL(call, device);
    if (types != 8) return NOT_SUPPORTED; /* nvmlEventTypeXidCriticalError */
    set->gpus |= 1ULL << call.gpu;
    return SUCCESS;
}

int nvmlEventSetWait_v2(struct event_set *set, struct event_data *data, unsigned timeout_ms) {
    if (users == 0) return UNINITIALIZED;
    for (int gpu = 0; gpu < MAX_GPUS; gpu++) {
        if (!(set->gpus >> gpu & 1)) continue;
        struct call call = scenario_enter(gpu, __func__);
        if (call.code != SUCCESS) return call.code;
        if (gpu >= scenario_gpu_count()) return GPU_IS_LOST;
        unsigned xid;
        if (!scenario_next(gpu, "xid_events", &xid)) continue;
        *data = (struct event_data){(device_t)(intptr_t)(gpu + 1), 8, xid, ~0U, ~0U};
        return SUCCESS;
    }
    struct timespec wait = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};
    nanosleep(&wait, NULL);
    return TIMEOUT;
}

/* GPM: figures of a window are those of the scenario when its second sample was taken */

struct gpm_sample {
    struct call call;
};

struct gpm_metric {
    unsigned id;
    int code;
    double value;
    const char *texts[3];
};

struct gpm_metrics {
    unsigned version, count;
    struct gpm_sample *first, *second;
    struct gpm_metric metrics[];
};

static const struct {
    unsigned id;
    const char *key;
} GPM_METRICS[] = {
    {2, "gpm_sm"},       {3, "gpm_occupancy"}, {5, "gpm_tensor"},     {10, "gpm_dram"},
    {20, "gpm_pcie_tx"}, {21, "gpm_pcie_rx"},  {60, "gpm_nvlink_rx"}, {61, "gpm_nvlink_tx"},
};

int nvmlGpmQueryDeviceSupport(device_t device, unsigned *support) {
    char text[8];
    DEVICE_CALL(call, device);
    support[1] = (unsigned)scenario_text(call.gpu, "gpm_dram", text, sizeof text);
    return SUCCESS;
}

int nvmlGpmSampleAlloc(struct gpm_sample **sample) {
    SYSTEM_CALL(call);
    *sample = calloc(1, sizeof **sample);
    gpm_samples++;
    return SUCCESS;
}

int nvmlGpmSampleFree(struct gpm_sample *sample) {
    SYSTEM_CALL(call);
    free(sample);
    gpm_samples--;
    return SUCCESS;
}

int nvmlGpmSampleGet(device_t device, struct gpm_sample *sample) {
    DEVICE_CALL(call, device);
    sample->call = call;
    return SUCCESS;
}

int nvmlGpmMetricsGet(struct gpm_metrics *window) {
    if (users == 0) return UNINITIALIZED;
    if (window->version != 1) return INVALID_ARGUMENT;
    struct call call = scenario_enter(window->second->call.gpu, __func__);
    if (call.code != SUCCESS) return call.code;
    for (unsigned i = 0; i < window->count; i++) {
        window->metrics[i].code = NOT_SUPPORTED;
        for (unsigned j = 0; j < sizeof GPM_METRICS / sizeof *GPM_METRICS; j++)
            if (window->metrics[i].id == GPM_METRICS[j].id &&
                scenario_real(&call, GPM_METRICS[j].key, &window->metrics[i].value))
                window->metrics[i].code = SUCCESS;
    }
    return SUCCESS;
}

/* For tests: what was made and not yet let go. */
int fakeNvmlUsers(void) { return users; }
int fakeNvmlEventSets(void) { return event_sets; }
int fakeNvmlGpmSamples(void) { return gpm_samples; }
