// NAME: first come, first served; a job that finds no place blocks those behind it.
//
// Everything that this policy knows comes in through `init` and `decide`: it has no clock, no file and no network.
// `policy.h` is written by the build, from `wit/policy.wit`. What the host hands over is ours to free.
#include "policy.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t submitted;
    uint32_t class;
} job_t;

static sandtable_policy_types_demand_t *classes; // what jobs ask for, by class
static size_t classes_count;
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

// Takes in what jobs of this batch ask for that none asked for before. Its lists stay ours.
static void take_in_classes(void) {
    sandtable_policy_introductions_list_demand_t added;
    sandtable_policy_introductions_classes(&added);
    classes = more(classes, classes_count + added.len, sizeof *classes);
    memcpy(classes + classes_count, added.ptr, added.len * sizeof *classes);
    classes_count += added.len;
    free(added.ptr);
}

// Keeps the mirror of the cluster up to date.
static void take_in(sandtable_policy_types_event_t *event) {
    switch (event->tag) {
    case SANDTABLE_POLICY_TYPES_EVENT_JOB_ARRIVED: {
        sandtable_policy_types_arrival_t *arrival = &event->val.job_arrived;
        if (arrival->job >= jobs_room) {
            uint32_t room = (arrival->job + 1) * 2;
            jobs = more(jobs, room, sizeof *jobs);
            jobs_room = room;
        }
        jobs[arrival->job] = (job_t){.submitted = arrival->submitted, .class = arrival->class_};
        waits(arrival->job);
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

static bool place(sandtable_policy_types_demand_t *demand, uint32_t *found) {
    bool any = demand->gpu_types.len == 0;
    size_t types = any ? setup.topology.gpu_types.len : demand->gpu_types.len;
    for (size_t at = 0; at < types; at++) {
        uint32_t type = any ? at : demand->gpu_types.ptr[at], memory = setup.topology.gpu_types.ptr[type].memory_mib;
        if (memory > 0 && demand->memory_mib > memory) continue;
        if (place_on(type, demand->gpus, found)) return true;
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
    ret->cadence.ends = SANDTABLE_POLICY_TYPES_WAKE_ALWAYS;
    ret->uses = 0;
    return true;
}

bool exports_sandtable_policy_scheduler_decide(
    exports_sandtable_policy_scheduler_batch_t *batch, exports_sandtable_policy_scheduler_plan_t *ret,
    exports_sandtable_policy_scheduler_policy_error_t *err) {
    (void)err;
    if (batch->fresh & SANDTABLE_POLICY_TYPES_FRESH_CLASSES) take_in_classes();
    for (size_t at = 0; at < batch->events.len; at++) take_in(&batch->events.ptr[at]);
    look_around();
    ret->base = batch->seq;
    ret->actions.len = 0;
    ret->actions.ptr = more(NULL, waiting_count + 1, sizeof *ret->actions.ptr);
    uint32_t left = 0;
    bool blocked = false;
    for (uint32_t at = 0; at < waiting_count; at++) {
        uint32_t id = waiting[at], *gpus = NULL;
        sandtable_policy_types_demand_t *demand = &classes[jobs[id].class];
        if (!blocked) gpus = more(NULL, demand->gpus + 1, sizeof *gpus);
        if (blocked || !place(demand, gpus)) {
            free(gpus);
            blocked = !skip;
            waiting[left++] = id;
            continue;
        }
        sandtable_policy_types_action_t *action = &ret->actions.ptr[ret->actions.len++];
        action->tag = SANDTABLE_POLICY_TYPES_ACTION_START;
        action->val.start.job = id;
        action->val.start.gpus.ptr = gpus;
        action->val.start.gpus.len = demand->gpus;
        action->val.start.batch.is_some = false;
    }
    waiting_count = left;
    exports_sandtable_policy_scheduler_batch_free(batch);
    return true;
}
