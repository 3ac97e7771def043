#!/bin/sh
# Indexes a dataset in an array job of Slurm, and joins the parts: array_slurm.sh DATASET DIRECTORY [PARTS]
#
# The index is written to DIRECTORY, which all nodes must see. batchfs must be in the PATH of the
# jobs. Mount with it on each node: batchfs mount DATASET MOUNTPOINT --index-at DIRECTORY
#SBATCH --ntasks=1
#SBATCH --requeue
set -eu
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
	exec batchfs index "$1" --index-at "$2" --part "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
elif [ -n "${SLURM_JOB_ID:-}" ]; then
	exec batchfs index "$1" --index-at "$2" --merge
fi
parts=$(sbatch --parsable --array="0-$((${3:-16} - 1))" "$0" "$1" "$2")
sbatch --dependency="afterok:$parts" "$0" "$1" "$2"
