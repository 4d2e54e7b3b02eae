#!/usr/bin/env bash
# A real Slurm on 127.0.0.1, private to one directory; no root, no systemd.
#   slurm-loopback.sh up DIR [NODES]    then: export SLURM_CONF=DIR/slurm.conf
#   slurm-loopback.sh quit DIR          ends the controller; `revive` has it back with what it knew
#   slurm-loopback.sh down DIR          stops all of it, and waits until it is gone
# SLURM_PORT is the controller's port, the nodes take those after it. SLURM_SCHEDULER is its scheduler. Keep DIR short: a socket's path has 108 bytes.
set -euo pipefail
verb=$1
dir=$(mkdir -p "$2" && cd "$2" && pwd)
nodes=${3:-2}
last=$((nodes - 1))
port=${SLURM_PORT:-16817}
host=$(hostname -s)
me=$(id -un)
export PATH=$PATH:/usr/sbin:/sbin SLURM_CONF=$dir/slurm.conf

# Everything binds to what this machine's name means. Where that is not 127.0.0.1, as in a container, it is made so for
# these processes alone.
name_is_loopback() {
    [ "$(getent ahostsv4 "$host" | awk 'NR==1 {print $1}')" = 127.0.0.1 ] && return
    echo "127.0.0.1 $host $(hostname) localhost" >"$dir/hosts"
    export LD_PRELOAD=libnss_wrapper.so NSS_WRAPPER_HOSTS=$dir/hosts
    [ "$(getent ahostsv4 "$host" 2>/dev/null | awk 'NR==1 {print $1}')" = 127.0.0.1 ] && return
    echo "$host is not 127.0.0.1 here, and libnss-wrapper is not installed" >&2
    exit 77
}

# Whether a process is there, and no zombie.
runs() {
    grep -qs '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status"
}

up() {
    umask 022
    mkdir -p "$dir"/{run,state,log}
    : >"$dir/run/fakegpu0"
    : >"$dir/run/fakegpu1"
    (umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")
    cat >"$dir/slurm.conf" <<CONF
ClusterName=loopback
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.sock
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort=$port
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdSpoolDir=$dir/state/%n
SlurmdPidFile=$dir/run/%n.pid
SlurmdLogFile=$dir/log/%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=${SLURM_SCHEDULER:-sched/backfill}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,default_queue_depth=200,bf_interval=1
GresTypes=gpu
DebugFlags=NO_CONF_HASH
ReturnToService=2
SlurmdTimeout=10
KillWait=2
NodeName=n[0-$last] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 3))-$((port + 3 + last))] CPUs=2 RealMemory=2000 Gres=gpu:2
PartitionName=main Nodes=n[0-$last] Default=YES DefMemPerCPU=500 MaxTime=INFINITE State=UP
CONF
    echo "Name=gpu File=$dir/run/fakegpu[0-1]" >"$dir/gres.conf"
    name_is_loopback
    munged --force --origin=127.0.0.1 --socket="$dir/run/munge.sock" --key-file="$dir/munge.key" \
        --log-file="$dir/log/munged.log" --pid-file="$dir/run/munged.pid" --seed-file="$dir/run/munged.seed"
    daemons
}

# The controller, forgetting whatever it knew, and the nodes that don't run.
daemons() {
    slurmctld -c -f "$SLURM_CONF"
    for i in $(seq 0 "$last"); do
        pid=$(cat "$dir/run/n$i.pid" 2>/dev/null || true)
        { [ -n "$pid" ] && runs "$pid"; } || slurmd -N "n$i" -f "$SLURM_CONF"
    done
    for _ in $(seq 200); do
        [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = "$nodes" ] && return
        sleep 0.1
    done
    echo "Slurm did not come up; see $dir/log" >&2
    exit 1
}

# The controller dies as by a power cut, and comes up with nothing in its memory. Its numbers go on elsewhere: a node that still
# knows a job refuses another of that number, which is not what is tried here.
forget() {
    kill -9 "$(cat "$dir/run/slurmctld.pid")"
    echo "FirstJobId=100000" >>"$dir/slurm.conf"
    name_is_loopback
    daemons
}

# The controller ends, and has saved what it knows.
quit() {
    pid=$(cat "$dir/run/slurmctld.pid")
    kill "$pid"
    while runs "$pid"; do sleep 0.1; done
}

revive() {
    name_is_loopback
    slurmctld -f "$SLURM_CONF"
}

down() {
    for round in TERM KILL; do
        for pidfile in "$dir"/run/n*.pid "$dir"/run/slurmctld.pid "$dir"/run/munged.pid; do
            [ -f "$pidfile" ] && kill "-$round" "$(cat "$pidfile")" 2>/dev/null || true
        done
        for _ in $(seq 50); do
            alive=0
            for pidfile in "$dir"/run/n*.pid "$dir"/run/slurmctld.pid "$dir"/run/munged.pid; do
                [ -f "$pidfile" ] && runs "$(cat "$pidfile")" && alive=1
            done
            [ "$alive" = 0 ] && return
            sleep 0.1
        done
    done
}

"$verb"
