#!/usr/bin/env bash
# Ends what start.sh started, by its process ids, and forgets the cluster's jobs and configuration.
RUN=/run/fedrepro-slurm
for file in "$RUN/slurmd.pid" "$RUN/slurmctld.pid" "$RUN/munged.pid"; do
    [ -s "$file" ] || continue
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null
    for _ in $(seq 200); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
done
if grep -qsxF "# written by fedrepro's tests/slurm/start.sh" /etc/slurm/slurm.conf; then
    rm -f /etc/slurm/slurm.conf /etc/slurm/gres.conf /etc/slurm/cgroup.conf
fi
rm -rf "$RUN" /var/lib/fedrepro-slurm /var/log/fedrepro-slurm
