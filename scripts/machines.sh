#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program as ranks on separate machines: network namespaces of this machine, each with a host name and an
# address, joined by virtual Ethernet. Ranks communicate over this network, by IPv4, or by IPv6 with FAMILY=6.
#
#     scripts/machines.sh RANKS [OPTION ...] -- PROGRAM [ARGUMENT ...]
#
#     --rate MBIT                            rate of each machine's link; for both ways with --delay or --loss
#     --delay MS, --loss PERCENT             of all frames, each way; by a switch in user space, lib/slow_switch.py
#     --cut RANK SECONDS [FOR_SECONDS]       takes a machine's link down after SECONDS, forever or for FOR_SECONDS
#     --deafen RANK SECONDS [FOR_SECONDS]    frames to that machine are lost; frames from it are not
#     --mute RANK SECONDS [FOR_SECONDS]      frames from that machine are lost; frames to it are not
#     --from RANK                            with --deafen: only frames from this machine are lost
#     --vanish RANK SECONDS                  kills all its processes and takes its link down, at once
#     --open-mpi                             starts the ranks with Open MPI's mpirun on the first machine
#
# The program gets torchrun's variables, or mpirun's. When a rank ends, the seconds since the start and its status go to
# standard error. Exit status: that of the first rank that fails; 77 if namespaces are not allowed.
set -euo pipefail

usage() { sed -n '3,21s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 3 ] || usage
here=$(cd "$(dirname "$0")" && pwd)
ranks=$1
shift
rate='' delay=0 loss=0 open_mpi=''
fault='' fault_rank='' fault_after='' fault_for='' fault_from=''
while [ "${1-}" != -- ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --rate) rate=$2; shift 2 ;;
    --delay) delay=$2; shift 2 ;;
    --loss) loss=$2; shift 2 ;;
    --open-mpi) open_mpi=yes; shift ;;
    --from) fault_from=$2; shift 2 ;;
    --cut | --deafen | --mute | --vanish)
      fault=${1#--} fault_rank=$2 fault_after=$3
      shift 3
      [ "$1" = -- ] || [ "${1#--}" != "$1" ] || { fault_for=$1; shift; }
      ;;
    *) usage ;;
  esac
done
shift

prefix=zt$$
hub=${prefix}hub
slow=$([ "$delay$loss" = 00 ] || echo yes)
machine() { echo "${prefix}m$1"; }
address() { [ "${FAMILY:-4}" = 6 ] && echo "fd00:7a::$(($1 + 1))" || echo "10.213.77.$(($1 + 1))"; }
namespaces=()
# Kills the processes that are left in the namespace.
clean_up() {
  for each in "${namespaces[@]}"; do
    ip netns pids "$each" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns delete "$each" 2>/dev/null || true
  done
}
trap clean_up EXIT
make() {
  ip netns add "$1" 2>/dev/null || { echo "no network namespaces here: skipped" >&2; exit 77; }
  namespaces+=("$1")
  ip -n "$1" link set lo up
}

make "$hub"
if [ -z "$slow" ]; then
  ip -n "$hub" link add hub type bridge
  ip -n "$hub" link set hub up
fi
wires=()
for ((rank = 0; rank < ranks; rank++)); do
  make "$(machine $rank)"
  ip -n "$hub" link add "to$rank" type veth peer name eth0 netns "$(machine $rank)"
  ip -n "$hub" link set "to$rank" up
  [ -n "$slow" ] || ip -n "$hub" link set "to$rank" master hub
  if [ "${FAMILY:-4}" = 6 ]; then
    ip -n "$(machine $rank)" address add "$(address $rank)/64" dev eth0 nodad
  else
    ip -n "$(machine $rank)" address add "$(address $rank)/24" dev eth0
  fi
  ip -n "$(machine $rank)" link set eth0 up
  if [ -n "$slow" ]; then
    ip netns exec "$(machine $rank)" python3 "$here/lib/slow_switch.py" --plain eth0
    wires+=("to$rank")
  elif [ -n "$rate" ]; then
    tc -n "$(machine $rank)" qdisc add dev eth0 root tbf rate "${rate}mbit" burst 128kb latency 50ms
  fi
done
if [ -n "$slow" ]; then
  ip netns exec "$hub" python3 "$here/lib/slow_switch.py" --delay "$delay" --loss "$loss" --rate "${rate:-10000}" "${wires[@]}" &
  sleep 0.5
fi

# ---- faults ---------------------------------------------------------------------------------------------------------

lose() {  # FROM TO: frames from FROM to TO go to an unused address
  ip -n "$(machine "$1")" neighbour replace "$(address "$2")" lladdr 02:00:00:00:00:99 dev eth0 nud permanent
}
restore() { ip -n "$(machine "$1")" neighbour delete "$(address "$2")" dev eth0; }
each_way() {  # COMMAND: runs it for each direction that the fault closes
  for ((rank = 0; rank < ranks; rank++)); do
    [ "$rank" = "$fault_rank" ] || [ "${fault_from:-$rank}" != "$rank" ] ||
      if [ "$fault" = mute ]; then "$1" "$fault_rank" "$rank"; else "$1" "$rank" "$fault_rank"; fi
  done
}
begin() {
  case $fault in
    cut) ip -n "$hub" link set "to$fault_rank" down ;;
    deafen | mute) each_way lose ;;
    vanish)
      ip -n "$hub" link set "to$fault_rank" down
      ip netns pids "$(machine "$fault_rank")" | xargs -r kill -9
      ;;
  esac
}
heal() {
  case $fault in
    cut) ip -n "$hub" link set "to$fault_rank" up ;;
    deafen | mute) each_way restore ;;
  esac
}
seconds() { local now=${EPOCHREALTIME/[.,]/}; printf '%d.%01d' $(((now - start) / 1000000)) $(((now - start) / 100000 % 10)); }

# ---- ranks ----------------------------------------------------------------------------------------------------------

start=${EPOCHREALTIME/[.,]/}
on_machine() {  # RANK COMMAND...: with the machine's host name
  local name=machine$1 space
  space=$(machine "$1")
  shift
  ip netns exec "$space" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$name" "$@"
}
rank_process() {
  RANK=$1 WORLD_SIZE=$ranks LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=$(address 0) MASTER_PORT=29511 \
    TORCHELASTIC_RUN_ID=$prefix on_machine "$@"
}
processes=()
if [ -n "$open_mpi" ]; then
  # mpirun starts its daemons by a substitute for ssh, which finds the machine's number from the name that it is given.
  agent=$(mktemp)
  hosts=''
  for ((rank = 0; rank < ranks; rank++)); do hosts+="$(address $rank):1,"; done
  cat >"$agent" <<END
#!/usr/bin/env bash
shift_to=\$1; shift
number=\$((\${shift_to##*.} - 1))
exec ip netns exec ${prefix}m\$number unshare --uts sh -c 'hostname "\$0"; exec sh -c "\$*"' machine\$number "\$@"
END
  chmod +x "$agent"
  (
    trap 'rm -f "$agent"' EXIT
    OMPI_MCA_plm_rsh_agent=$agent OMPI_MCA_orte_keep_fqdn_hostnames=1 on_machine 0 mpirun --allow-run-as-root \
      --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 --host "${hosts%,}" -n "$ranks" "$@"
  ) &
  processes+=($!)
else
  for ((rank = 0; rank < ranks; rank++)); do
    (
      code=0
      rank_process "$rank" "$@" || code=$?
      echo "machine $rank: status $code after $(seconds) s" >&2
      exit $code
    ) &
    processes+=($!)
  done
fi
if [ -n "$fault" ]; then
  (
    sleep "$fault_after"
    begin
    echo "machine $fault_rank: $fault after $(seconds) s" >&2
    if [ -n "$fault_for" ]; then
      sleep "$fault_for"
      heal
      echo "machine $fault_rank: healed after $(seconds) s" >&2
    fi
  ) &
fi
status=0
for each in "${processes[@]}"; do
  wait "$each" || { code=$?; [ $status -ne 0 ] || status=$code; }
done
exit $status
