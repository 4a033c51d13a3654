#!/usr/bin/env bash
# A real SLURM on this machine for the tests: one node with two fake GPUs, from the packages slurm-wlm and munge.
# Needs root; no systemd, no GPU. Waits until the node is idle; a second call does nothing. stop.sh ends it.
set -euo pipefail
MARK="# written by fedrepro's tests/slurm/start.sh"
RUN=/run/fedrepro-slurm STATE=/var/lib/fedrepro-slurm LOG=/var/log/fedrepro-slurm
HOST=$(hostname -s)
MEMORY=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo) # MB

[ "$(id -u)" = 0 ] || { echo "start.sh: run it as root" >&2; exit 1; }
command -v slurmctld munged >/dev/null || { echo "start.sh: apt-get install slurm-wlm munge" >&2; exit 1; }
if [ -e /etc/slurm/slurm.conf ] && ! grep -qxF "$MARK" /etc/slurm/slurm.conf; then
    echo "start.sh: /etc/slurm/slurm.conf is of another cluster, which it leaves alone" >&2
    exit 1
fi

mkdir -p /etc/slurm "$RUN" "$STATE/controller" "$STATE/devices" "$STATE/node" "$LOG"
# SLURM sets CUDA_VISIBLE_DEVICES only for character devices; links to one need no right to make devices.
ln -sfn /dev/null "$STATE/devices/gpu0"
ln -sfn /dev/null "$STATE/devices/gpu1"
echo "Name=gpu Type=fake File=$STATE/devices/gpu[0-1]" >/etc/slurm/gres.conf
# slurmd loads a cgroup plugin in any case; detecting one fails in containers, and v1, once named, is not used.
echo "CgroupPlugin=cgroup/v1" >/etc/slurm/cgroup.conf
cat >/etc/slurm/slurm.conf <<CONF
$MARK
ClusterName=fedrepro
SlurmctldHost=$HOST(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=$STATE/controller
SlurmdSpoolDir=$STATE/node
SlurmctldPidFile=$RUN/slurmctld.pid
SlurmdPidFile=$RUN/slurmd.pid
SlurmctldLogFile=$LOG/slurmctld.log
SlurmdLogFile=$LOG/slurmd.log
SlurmdParameters=config_overrides # more CPUs than the machine has
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
EnforcePartLimits=NO # SLURM's own default: accepts a job that can never start
MinJobAge=3600
KillWait=10
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
NodeName=$HOST NodeAddr=127.0.0.1 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=$MEMORY Gres=gpu:fake:2 State=UNKNOWN
PartitionName=gpu Nodes=$HOST Default=YES DefaultTime=10 MaxTime=60 DefMemPerCPU=500 State=UP
CONF

alive() { [ -s "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; }

[ -s /etc/munge/munge.key ] || dd if=/dev/urandom of=/etc/munge/munge.key bs=128 count=1 status=none
chown munge:munge /etc/munge/munge.key
chmod 600 /etc/munge/munge.key
install -d -o munge -g munge -m 755 /run/munge
if ! munge -n 2>/dev/null | unmunge >/dev/null 2>&1; then
    setpriv --reuid=munge --regid=munge --clear-groups munged --pid-file="/run/munge/munged.pid" 2>"$LOG/munged.log"
    cp /run/munge/munged.pid "$RUN/munged.pid" # stop.sh ends a munged that this started, no other
fi
munge -n | unmunge >/dev/null
alive "$RUN/slurmctld.pid" || slurmctld
alive "$RUN/slurmd.pid" || slurmd -N "$HOST"
for _ in $(seq 300); do
    state=$(sinfo --noheader --partition gpu --format %T 2>/dev/null || true)
    case "$state" in
    idle | mixed | allocated) exit 0 ;;
    down* | drain*) scontrol update nodename="$HOST" state=resume 2>/dev/null || true ;;
    esac
    sleep 0.1
done
echo "start.sh: the node does not become idle; the ends of the logs:" >&2
tail -n 5 "$LOG"/*.log >&2
exit 1
