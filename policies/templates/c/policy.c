// NAME: first come, first served; a job that finds no place blocks those behind it.
//
// Everything that this policy knows comes in through `init` and `decide`: it has no clock, no file and no network.
// `policy.h` is written by the build, from `wit/policy.wit`. What the host hands over is ours to free.
#include "policy.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t submitted;
    uint32_t gpus, memory_mib, types, *type; // the types that it may run on; none: any
} job_t;

static job_t *jobs; // by id, which are dense
static uint32_t jobs_room, *waiting, waiting_count, waiting_room; // ids, in the order in which they are looked at
static exports_sandtable_policy_scheduler_setup_t setup; // kept for its topology
static uint32_t *free_gpus, *free_count, gpus_total; // by node: its free GPUs, ascending, from its first GPU on
static bool skip;

// Ends the run with a text: without it the text is lost.
static void fail(const char *why) {
    policy_string_t text;
    policy_string_set(&text, why);
    sandtable_policy_log_panic(&text);
    abort();
}

static void *more(void *old, size_t count, size_t size) {
    void *new = realloc(old, count * size);
    if (new == NULL) fail("no memory left");
    return new;
}

static bool comes_before(uint32_t a, uint32_t b) {
    return jobs[a].submitted != jobs[b].submitted ? jobs[a].submitted < jobs[b].submitted : a < b;
}

static void waits_no_more(uint32_t id) {
    for (uint32_t at = 0; at < waiting_count; at++) {
        if (waiting[at] != id) continue;
        memmove(waiting + at, waiting + at + 1, (--waiting_count - at) * sizeof *waiting);
        return;
    }
}

static void waits(uint32_t id) {
    waits_no_more(id);
    if (waiting_count == waiting_room) waiting = more(waiting, waiting_room = waiting_room * 2 + 64, sizeof *waiting);
    uint32_t at = waiting_count++;
    for (; at > 0 && comes_before(id, waiting[at - 1]); at--) waiting[at] = waiting[at - 1];
    waiting[at] = id;
}

// Keeps the mirror of the cluster up to date.
static void take_in(sandtable_policy_types_event_t *event) {
    switch (event->tag) {
    case SANDTABLE_POLICY_TYPES_EVENT_JOB_ARRIVED: {
        sandtable_policy_types_job_info_t *info = &event->val.job_arrived;
        if (info->id >= jobs_room) {
            uint32_t room = (info->id + 1) * 2;
            jobs = more(jobs, room, sizeof *jobs);
            memset(jobs + jobs_room, 0, (room - jobs_room) * sizeof *jobs);
            jobs_room = room;
        }
        job_t *job = &jobs[info->id];
        job->submitted = info->submitted;
        job->gpus = info->demand.gpus;
        job->memory_mib = info->demand.memory_mib;
        job->types = info->demand.gpu_types.len;
        job->type = more(job->type, job->types + 1, sizeof *job->type);
        if (job->types > 0) memcpy(job->type, info->demand.gpu_types.ptr, job->types * sizeof *job->type);
        waits(info->id);
        break;
    }
    case SANDTABLE_POLICY_TYPES_EVENT_JOB_ENDED:
        waits_no_more(event->val.job_ended.job);
        break;
    case SANDTABLE_POLICY_TYPES_EVENT_JOB_CHANGED:
        if (event->val.job_changed.phase == SANDTABLE_POLICY_TYPES_JOB_PHASE_QUEUED) waits(event->val.job_changed.job);
        else waits_no_more(event->val.job_changed.job);
        break;
    case SANDTABLE_POLICY_TYPES_EVENT_NODE_CHANGED:
        setup.topology.nodes.ptr[event->val.node_changed.node].health = event->val.node_changed.health;
        break;
    }
}

// Which GPUs are free, node by node.
static void look_around(void) {
    sandtable_policy_cluster_tuple2_list_gpu_id_list_job_id_t held;
    sandtable_policy_cluster_occupancy(&held);
    size_t at = 0;
    for (size_t index = 0; index < setup.topology.nodes.len; index++) {
        sandtable_policy_types_node_t *node = &setup.topology.nodes.ptr[index];
        bool usable = node->health == SANDTABLE_POLICY_TYPES_NODE_HEALTH_UP
            && node->pool == SANDTABLE_POLICY_TYPES_POOL_TRAINING;
        free_count[index] = 0;
        for (uint32_t gpu = node->first_gpu; gpu < node->first_gpu + node->gpus; gpu++) {
            while (at < held.f0.len && held.f0.ptr[at] < gpu) at++;
            bool taken = at < held.f0.len && held.f0.ptr[at] == gpu;
            if (usable && !taken) free_gpus[node->first_gpu + free_count[index]++] = gpu;
        }
    }
    sandtable_policy_cluster_tuple2_list_gpu_id_list_job_id_free(&held);
}

// GPUs of one type for a gang: the node that they fit best, else the fewest nodes; false: not now.
static bool place_on(uint32_t type, uint32_t gpus, uint32_t *found) {
    uint32_t there = 0, got = 0;
    size_t nodes = setup.topology.nodes.len;
    for (size_t node = 0; node < nodes; node++) {
        if (setup.topology.nodes.ptr[node].gpu_type == type) there += free_count[node];
    }
    if (there < gpus) return false;
    while (got < gpus) {
        uint32_t rest = gpus - got;
        size_t best = nodes, most = nodes;
        for (size_t node = 0; node < nodes; node++) {
            if (setup.topology.nodes.ptr[node].gpu_type != type || free_count[node] == 0) continue;
            if (free_count[node] >= rest && (best == nodes || free_count[node] < free_count[best])) best = node;
            if (most == nodes || free_count[node] > free_count[most]) most = node;
        }
        size_t node = best < nodes ? best : most;
        uint32_t take = free_count[node] < rest ? free_count[node] : rest, *first = free_gpus + setup.topology.nodes.ptr[node].first_gpu;
        memcpy(found + got, first, take * sizeof *found);
        memmove(first, first + take, (free_count[node] -= take) * sizeof *first);
        got += take;
    }
    return true;
}

static bool place(job_t *job, uint32_t *found) {
    size_t types = job->types > 0 ? job->types : setup.topology.gpu_types.len;
    for (size_t at = 0; at < types; at++) {
        uint32_t type = job->types > 0 ? job->type[at] : at, memory = setup.topology.gpu_types.ptr[type].memory_mib;
        if (memory > 0 && job->memory_mib > memory) continue;
        if (place_on(type, job->gpus, found)) return true;
    }
    return false;
}

void exports_sandtable_policy_scheduler_describe(exports_sandtable_policy_scheduler_descriptor_t *ret) {
    policy_string_dup(&ret->name, "NAME");
    policy_string_dup(&ret->version, "0.1.0");
    policy_string_dup(&ret->about, "first come, first served, in C");
    ret->uses = 0;
    ret->needs = 0;
    policy_string_dup(&ret->config_schema,
        "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {\"skip\": {\"type\": \"boolean\", "
        "\"default\": false, \"description\": \"Whether jobs may pass one that finds no place.\"}}}");
}

// The configuration is canonical JSON: no spaces, sorted keys.
static bool is_config(const char *text) {
    return setup.config.len == strlen(text) && memcmp(setup.config.ptr, text, setup.config.len) == 0;
}

bool exports_sandtable_policy_scheduler_init(
    exports_sandtable_policy_scheduler_setup_t *given, exports_sandtable_policy_scheduler_readiness_t *ret,
    exports_sandtable_policy_scheduler_policy_error_t *err) {
    setup = *given;
    skip = is_config("{\"skip\":true}");
    if (!skip && !is_config("{}") && !is_config("{\"skip\":false}")) {
        err->tag = SANDTABLE_POLICY_TYPES_POLICY_ERROR_BAD_CONFIG;
        policy_string_dup(&err->val.bad_config, "expected {} or {\"skip\": true} or {\"skip\": false}");
        return false;
    }
    for (size_t node = 0; node < setup.topology.nodes.len; node++) gpus_total += setup.topology.nodes.ptr[node].gpus;
    free_gpus = more(NULL, gpus_total + 1, sizeof *free_gpus);
    free_count = more(NULL, setup.topology.nodes.len + 1, sizeof *free_count);
    ret->cadence.round.is_some = false;
    ret->cadence.on_events = true;
    return true;
}

bool exports_sandtable_policy_scheduler_decide(
    exports_sandtable_policy_scheduler_batch_t *batch, exports_sandtable_policy_scheduler_plan_t *ret,
    exports_sandtable_policy_scheduler_policy_error_t *err) {
    (void)err;
    for (size_t at = 0; at < batch->events.len; at++) take_in(&batch->events.ptr[at]);
    look_around();
    ret->base = batch->seq;
    ret->actions.len = 0;
    ret->actions.ptr = more(NULL, waiting_count + 1, sizeof *ret->actions.ptr);
    uint32_t left = 0;
    bool blocked = false;
    for (uint32_t at = 0; at < waiting_count; at++) {
        uint32_t id = waiting[at], *gpus = NULL;
        if (!blocked) gpus = more(NULL, jobs[id].gpus + 1, sizeof *gpus);
        if (blocked || !place(&jobs[id], gpus)) {
            free(gpus);
            blocked = !skip;
            waiting[left++] = id;
            continue;
        }
        sandtable_policy_types_action_t *action = &ret->actions.ptr[ret->actions.len++];
        action->tag = SANDTABLE_POLICY_TYPES_ACTION_START;
        action->val.start.job = id;
        action->val.start.gpus.ptr = gpus;
        action->val.start.gpus.len = jobs[id].gpus;
        action->val.start.batch.is_some = false;
    }
    waiting_count = left;
    exports_sandtable_policy_scheduler_batch_free(batch);
    return true;
}
