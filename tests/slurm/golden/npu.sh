#!/bin/sh
#SBATCH --job-name=job-20261115-143000-abcd
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=24
#SBATCH --mem=98304M
#SBATCH --gres=npu:8
#SBATCH --time=0-02:03:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@40
#SBATCH --chdir=/
#SBATCH --output=/shared/muster/runs/job-20261115-143000-abcd/slurm.log
#SBATCH --open-mode=append
#SBATCH --export=ALL
for python in /usr/bin/python3.11 python3; do
  "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || continue
  exec "$python" -I -S /shared/muster/agent/456.pyz supervise /shared/muster/runs/job-20261115-143000-abcd --code /shared/muster/code/123 --python "$(command -v "$python")" --site slurm
done
echo "muster: $(hostname) has no Python 3.9 or newer, not even" /usr/bin/python3.11 python3 '- set `python` below [slurm] in config.toml' >&2
exit 127
