/* Reads the scenario file (README.md describes it); knows no NVML function. */
#include "scenario.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define MAX_ENTRIES 128
#define MAX_PROCESSES 256
#define SCOPES (MAX_GPUS + 1) /* the system, then each GPU */

struct entry {
    char key[80];
    char text[256];
};

struct scope {
    struct entry entries[MAX_ENTRIES];
    unsigned entry_count;
    struct process_row processes[MAX_PROCESSES];
    unsigned process_count;
    struct {
        char function[64];
        unsigned calls;
    } counters[MAX_ENTRIES];
    unsigned counter_count;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct scope scopes[SCOPES];
static int gpu_count;
static struct stat read_state;    /* of the file when it was last read */
static double next_section_s = 0; /* when the next `at` section begins; < 0: never */
static double loaded_at_s;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

__attribute__((constructor)) static void remember_load_time(void) { loaded_at_s = now_s(); }

static void refuse(const char *problem, const char *what) {
    fprintf(stderr, "fake NVML: %s: %s\n", problem, what);
    abort(); /* a wrong scenario must never look like a driver fault */
}

static struct entry *find(struct scope *scope, const char *key) {
    for (unsigned i = 0; i < scope->entry_count; i++)
        if (strcmp(scope->entries[i].key, key) == 0) return &scope->entries[i];
    return NULL;
}

static void set(struct scope *scope, const char *key, const char *text) {
    struct entry *entry = find(scope, key);
    if (entry == NULL) {
        if (scope->entry_count == MAX_ENTRIES) refuse("too many keys", key);
        entry = &scope->entries[scope->entry_count++];
        snprintf(entry->key, sizeof entry->key, "%s", key);
    }
    snprintf(entry->text, sizeof entry->text, "%s", text);
}

static void set_process(struct scope *scope, const char *line) {
    struct process_row row;
    char used[32];
    unsigned i = 0;
    if (sscanf(line, "%15s %u %31s", row.kind, &row.pid, used) != 3) refuse("bad process", line);
    row.used_bytes = strcmp(used, "unknown") == 0 ? ~0ULL : strtoull(used, NULL, 0);
    while (i < scope->process_count && (scope->processes[i].pid != row.pid ||
                                        strcmp(scope->processes[i].kind, row.kind) != 0))
        i++;
    if (strcmp(used, "gone") == 0) {
        if (i == scope->process_count) return;
        scope->process_count--;
        memmove(&scope->processes[i], &scope->processes[i + 1],
                (scope->process_count - i) * sizeof row);
        return;
    }
    if (i == MAX_PROCESSES) refuse("too many processes", line);
    scope->processes[i] = row;
    if (i == scope->process_count) scope->process_count++;
}

static void read_line(char *line, struct scope **scope) {
    char key[32], rest[256] = "";
    line[strcspn(line, "#\n")] = '\0';
    if (sscanf(line, " %31s %255[^\n]", key, rest) < 1) return;
    for (size_t end = strlen(rest); end > 0 && rest[end - 1] == ' ';) rest[--end] = '\0';
    if (strcmp(key, "gpu") == 0) {
        int gpu = atoi(rest);
        if (gpu < 0 || gpu >= MAX_GPUS) refuse("bad GPU", line);
        if (gpu >= gpu_count) gpu_count = gpu + 1;
        *scope = &scopes[gpu + 1];
    } else if (strcmp(key, "process") == 0) {
        set_process(*scope, rest);
    } else if (strcmp(key, "rc") == 0 || strcmp(key, "delay_s") == 0) {
        char function[48], scoped[80];
        int used = 0;
        if (sscanf(rest, "%47s %n", function, &used) != 1) refuse("no function", line);
        snprintf(scoped, sizeof scoped, "%s:%s", key, function);
        set(*scope, scoped, rest + used);
    } else {
        set(*scope, key, rest);
    }
}

/* Reads all sections that have begun; called with the lock held. */
static void read_when_changed(void) {
    const char *path = getenv("FAKE_NVML_SCENARIO");
    struct stat state;
    double elapsed_s = now_s() - loaded_at_s;
    if (path == NULL) refuse("not set", "FAKE_NVML_SCENARIO");
    if (stat(path, &state) != 0) refuse(path, strerror(errno));
    if (state.st_ino == read_state.st_ino && state.st_size == read_state.st_size &&
        state.st_mtim.tv_sec == read_state.st_mtim.tv_sec &&
        state.st_mtim.tv_nsec == read_state.st_mtim.tv_nsec &&
        (next_section_s < 0 || elapsed_s < next_section_s))
        return;
    FILE *file = fopen(path, "r");
    if (file == NULL) refuse(path, strerror(errno));
    struct scope *scope = &scopes[0];
    char line[512];
    memset(scopes, 0, sizeof scopes);
    gpu_count = 0;
    read_state = state;
    next_section_s = -1;
    while (fgets(line, sizeof line, file) != NULL) {
        double at_s;
        if (sscanf(line, " at %lf", &at_s) == 1) {
            if (at_s > elapsed_s) {
                next_section_s = at_s;
                break;
            }
            scope = &scopes[0];
        } else {
            read_line(line, &scope);
        }
    }
    fclose(file);
}

static unsigned count(struct scope *scope, const char *function) {
    unsigned i = 0;
    while (i < scope->counter_count && strcmp(scope->counters[i].function, function) != 0) i++;
    if (i == MAX_ENTRIES) refuse("too many functions", function);
    if (i == scope->counter_count) {
        snprintf(scope->counters[i].function, sizeof scope->counters[i].function, "%s", function);
        scope->counter_count++;
    }
    return scope->counters[i].calls++;
}

/* The word at `position` of a text, the last one repeating. */
static const char *word_at(const char *text, unsigned position) {
    const char *word = text + strspn(text, " ");
    while (position-- > 0) {
        const char *next = word + strcspn(word, " ");
        next += strspn(next, " ");
        if (*next == '\0') break;
        word = next;
    }
    return word;
}

/* What is said of a function: about it on this GPU, about all on this GPU, then about the system. */
static const char *rule(int gpu, const char *kind, const char *function) {
    char exact[80], every[80];
    struct entry *entry = NULL;
    snprintf(exact, sizeof exact, "%s:%s", kind, function);
    snprintf(every, sizeof every, "%s:*", kind);
    if (gpu != NO_GPU) {
        entry = find(&scopes[gpu + 1], exact);
        if (entry == NULL) entry = find(&scopes[gpu + 1], every);
    }
    if (entry == NULL) entry = find(&scopes[0], exact);
    if (entry == NULL) entry = find(&scopes[0], every);
    return entry == NULL ? NULL : entry->text;
}

struct call scenario_enter(int gpu, const char *function) {
    struct call call = {gpu, 0, 0};
    const char *text;
    double delay_s = 0;
    pthread_mutex_lock(&lock);
    read_when_changed();
    call.position = count(&scopes[gpu + 1], function);
    if ((text = rule(gpu, "rc", function)) != NULL) call.code = atoi(word_at(text, call.position));
    if ((text = rule(gpu, "delay_s", function)) != NULL) delay_s = atof(word_at(text, call.position));
    pthread_mutex_unlock(&lock);
    if (delay_s > 0) {
        struct timespec wait = {(time_t)delay_s, (long)((delay_s - (time_t)delay_s) * 1e9)};
        while (nanosleep(&wait, &wait) != 0 && errno == EINTR) continue;
    }
    return call;
}

int scenario_gpu_count(void) {
    pthread_mutex_lock(&lock);
    read_when_changed();
    int count_now = gpu_count;
    pthread_mutex_unlock(&lock);
    return count_now;
}

int scenario_text(int gpu, const char *key, char *text, unsigned length) {
    pthread_mutex_lock(&lock);
    struct entry *entry = find(&scopes[gpu + 1], key);
    if (entry != NULL) snprintf(text, length, "%s", entry->text);
    pthread_mutex_unlock(&lock);
    return entry != NULL;
}

int scenario_number(const struct call *call, const char *key, unsigned long long *number) {
    char text[256];
    if (!scenario_text(call->gpu, key, text, sizeof text)) return 0;
    *number = strtoull(word_at(text, call->position), NULL, 0);
    return 1;
}

int scenario_real(const struct call *call, const char *key, double *number) {
    char text[256];
    if (!scenario_text(call->gpu, key, text, sizeof text)) return 0;
    *number = strtod(word_at(text, call->position), NULL);
    return 1;
}

int scenario_next(int gpu, const char *key, unsigned *number) {
    char *word = NULL;
    char text[256], *rest = text;
    pthread_mutex_lock(&lock);
    struct entry *entry = find(&scopes[gpu + 1], key);
    if (entry != NULL) {
        snprintf(text, sizeof text, "%s", entry->text);
        for (unsigned given = count(&scopes[gpu + 1], key) + 1; given > 0; given--)
            word = strtok_r(rest, " ", &rest);
    }
    pthread_mutex_unlock(&lock);
    if (word != NULL) *number = (unsigned)atoi(word);
    return word != NULL;
}

unsigned scenario_processes(int gpu, const char *kind, struct process_row *rows, unsigned capacity) {
    unsigned found = 0;
    pthread_mutex_lock(&lock);
    struct scope *scope = &scopes[gpu + 1];
    for (unsigned i = 0; i < scope->process_count; i++)
        if (strcmp(scope->processes[i].kind, kind) == 0) {
            if (found < capacity) rows[found] = scope->processes[i];
            found++;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

/* For tests: calls of a function since the file was read; gpu NO_GPU: the system's. */
unsigned fakeNvmlCalls(int gpu, const char *function) {
    unsigned calls = 0;
    pthread_mutex_lock(&lock);
    struct scope *scope = &scopes[gpu + 1];
    for (unsigned i = 0; i < scope->counter_count; i++)
        if (strcmp(scope->counters[i].function, function) == 0) calls = scope->counters[i].calls;
    pthread_mutex_unlock(&lock);
    return calls;
}
