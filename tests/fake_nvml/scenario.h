/* The scenario file: what it says about each GPU now, and how often each function was called. */
#ifndef FAKE_NVML_SCENARIO_H
#define FAKE_NVML_SCENARIO_H

#define MAX_GPUS 64
#define NO_GPU (-1)

struct call {
    int gpu;           /* NO_GPU: a call about the system */
    unsigned position; /* calls of this function on this GPU since the file was read, from 0 */
    int code;          /* nvmlReturn_t that the scenario asks for */
};

struct process_row {
    char kind[16]; /* compute, graphics */
    unsigned pid;
    unsigned long long used_bytes; /* 2^64 - 1: the driver does not say */
};

/* Reads the file again when it or the time has moved on, counts the call and waits its delay. */
struct call scenario_enter(int gpu, const char *function);

int scenario_gpu_count(void);

/* The text after `key`, copied to `text`; 0 when the scenario does not have it. */
int scenario_text(int gpu, const char *key, char *text, unsigned length);

/* The number at the call's position, the last one repeating; 0 when the scenario lacks it. */
int scenario_number(const struct call *call, const char *key, unsigned long long *number);

/* As scenario_number, with a fraction; `nan` is one. */
int scenario_real(const struct call *call, const char *key, double *number);

/* The next number of a list: each is given once after the file was read; 0 when none is left. */
int scenario_next(int gpu, const char *key, unsigned *number);

/* Rows of a kind, copied to `rows` up to `capacity`; returns how many there are. */
unsigned scenario_processes(int gpu, const char *kind, struct process_row *rows, unsigned capacity);

#endif
