/* Stands where NVIDIA's driver library stands (libnvidia-ml.so.1). What it says is read at each call
   from the file that NVML_STUB_STATE names, one statement a line:

     init <error>
     gpu <error> <uuid> <bus> <total> <free> <reserved> <percent> <celsius> <milliwatts> <mig> <v2> <lists> <name>
     process <gpu> <compute|graphics> <pid> <bytes>

   <error> is 0 or what NVML returns for it. <v2>: whether the second form of the memory figures is
   known. <lists>: whether processes are listed (0: not supported). */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS 8
#define PROCESSES 32

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, INSUFFICIENT = 7, NO_FUNCTION = 13 };

typedef unsigned long long u64;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process_info;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char bus_id[32];
} pci_info;

typedef struct {
    int error;
    char uuid[96];
    unsigned bus;
    u64 total, free, reserved;
    unsigned percent, celsius, milliwatts, mig, v2, lists;
    char name[96];
} gpu;

static struct {
    int init, gpus, processes;
    gpu gpu[GPUS];
    struct { unsigned gpu, graphics, pid; u64 bytes; } process[PROCESSES];
} now;
static int initialized;
static char handles[GPUS];

static void look(void) {
    const char *path = getenv("NVML_STUB_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512], kind[16];
    memset(&now, 0, sizeof now);
    now.init = file ? 0 : 9;
    while (file && fgets(line, sizeof line, file)) {
        gpu *g = &now.gpu[now.gpus];
        if (sscanf(line, "init %d", &now.init) == 1)
            continue;
        if (now.gpus < GPUS &&
            sscanf(line, "gpu %d %95s %u %llu %llu %llu %u %u %u %u %u %u %95[^\n]", &g->error, g->uuid,
                   &g->bus, &g->total, &g->free, &g->reserved, &g->percent, &g->celsius,
                   &g->milliwatts, &g->mig, &g->v2, &g->lists, g->name) == 13)
            now.gpus++;
        else if (now.processes < PROCESSES &&
                 sscanf(line, "process %u %15s %u %llu", &now.process[now.processes].gpu, kind,
                        &now.process[now.processes].pid, &now.process[now.processes].bytes) == 4)
            now.process[now.processes++].graphics = kind[0] == 'g';
    }
    if (file)
        fclose(file);
}

/* The GPU's index, or minus the error. */
static int index_of(void *handle) {
    int index = (int)((char *)handle - handles);
    look();
    if (!initialized)
        return -UNINITIALIZED;
    if (now.init)
        return -now.init;
    if (index < 0 || index >= now.gpus)
        return -INVALID;
    return now.gpu[index].error ? -now.gpu[index].error : index;
}

#define GPU_OR_RETURN(handle) \
    int index = index_of(handle); \
    if (index < 0) return -index; \
    gpu *g = &now.gpu[index]

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    look();
    if (!now.init)
        initialized++;
    return now.init;
}

int nvmlShutdown(void) {
    if (!initialized)
        return UNINITIALIZED;
    initialized--;
    return OK;
}

const char *nvmlErrorString(int error) {
    static char text[48];
    snprintf(text, sizeof text, error == 15 ? "GPU is lost" : "stub error %d", error);
    return text;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    look();
    *count = (unsigned)now.gpus;
    return initialized ? now.init : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned wanted, void **handle) {
    look();
    if (wanted >= (unsigned)now.gpus)
        return INVALID;
    *handle = &handles[wanted];
    return now.gpu[wanted].error;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    GPU_OR_RETURN(handle);
    snprintf(name, length, "%s", g->name);
    return OK;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
    GPU_OR_RETURN(handle);
    snprintf(uuid, length, "%s", g->uuid);
    return OK;
}

int nvmlDeviceGetPciInfo_v3(void *handle, pci_info *info) {
    GPU_OR_RETURN(handle);
    memset(info, 0, sizeof *info);
    info->bus = g->bus;
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", g->bus);
    return OK;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    GPU_OR_RETURN(handle);
    *current = *pending = g->mig;
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_v1 *info) {
    GPU_OR_RETURN(handle);
    info->total = g->total;
    info->free = g->free;
    info->used = g->total - g->free;
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2 *info) {
    GPU_OR_RETURN(handle);
    if (!g->v2)
        return NO_FUNCTION;
    info->total = g->total;
    info->free = g->free;
    info->reserved = g->reserved;
    info->used = g->total - g->free - g->reserved;
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *handle, utilization *rates) {
    GPU_OR_RETURN(handle);
    rates->gpu = g->percent;
    rates->memory = 0;
    return OK;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
    GPU_OR_RETURN(handle);
    (void)sensor;
    *celsius = g->celsius;
    return OK;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    GPU_OR_RETURN(handle);
    *milliwatts = g->milliwatts;
    return g->milliwatts ? OK : NOT_SUPPORTED;
}

static int list(void *handle, unsigned graphics, unsigned *count, process_info *into) {
    unsigned found = 0, room = *count;
    GPU_OR_RETURN(handle);
    if (!g->lists)
        return NOT_SUPPORTED;
    for (int i = 0; i < now.processes; i++) {
        if (now.process[i].gpu != (unsigned)index || now.process[i].graphics != graphics)
            continue;
        if (into && found < room)
            into[found] = (process_info){now.process[i].pid, now.process[i].bytes, 0, 0};
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT : OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process_info *into) {
    return list(handle, 0, count, into);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, process_info *into) {
    return list(handle, 1, count, into);
}
