#!/bin/bash
# Trains from a store on several machines of a SLURM cluster: sbatch examples/cluster/slurm.sh store/ runs/store
#
# One torchrun per machine, one process per GPU. The store and the run folder must be on a disk that all machines see.
# A job that is requeued, or submitted again, goes on from its last checkpoint, also with another number of machines: a
# step has 8 groups whatever their number, which 1, 2, 4 or 8 processes can share out. For other numbers of processes,
# say from the start: GROUPS_PER_STEP=12 sbatch examples/cluster/slurm.sh store/ runs/store
#SBATCH --job-name=bandana
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --mem=64G
#SBATCH --time=24:00:00
#SBATCH --requeue
set -euo pipefail
store=$1 out=$2
per_node=${SLURM_GPUS_ON_NODE:-1}
groups_per_step=${GROUPS_PER_STEP:-8}

# Two machines must not choose their meeting place by themselves; the first of the job's list is it. Ports differ from
# job to job, because one machine may serve several.
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
host=${hosts%%$'\n'*}
port=$((20000 + SLURM_JOB_ID % 20000))

srun torchrun \
  --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node "$per_node" --max-restarts 3 \
  --rdzv-backend c10d --rdzv-endpoint "$host:$port" --rdzv-id "$SLURM_JOB_ID" \
  -m bandana run bandana "$store" --out "$out" \
  --set "shards.groups_per_step=$groups_per_step"
