#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program as ranks on machines of their own, which are network namespaces of this one, each with a host name and an
# address, joined by virtual Ethernet: what they tell each other takes the network, IPv4, or IPv6 with FAMILY=6.
#
#     scripts/machines.sh RANKS [--rate 100mbit] [--cut RANK SECONDS [FOR_SECONDS]] -- PROGRAM [ARGUMENT ...]
#
# --rate limits every machine's link; --cut takes one's link down after so many seconds, for ever or for a while. The program
# gets torchrun's variables. Exit status: that of the first rank that fails; 77 where namespaces are not allowed.
set -euo pipefail

usage() { sed -n '3,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 3 ] || usage
ranks=$1
shift
rate=
cut_rank=
while [ "$1" != -- ]; do
  case $1 in
    --rate) rate=$2; shift 2 ;;
    --cut)
      cut_rank=$2 cut_after=$3
      shift 3
      cut_for=
      [ "$1" = -- ] || { cut_for=$1; shift; }
      ;;
    *) usage ;;
  esac
done
shift

prefix=zt$$
machine() { echo "${prefix}m$1"; }
address() { [ "${FAMILY:-4}" = 6 ] && echo "fd00:7a::$(($1 + 1))" || echo "10.213.77.$(($1 + 1))"; }
namespaces=()
# Whoever is left in one goes with it.
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

make "${prefix}hub"
ip -n "${prefix}hub" link add hub type bridge
ip -n "${prefix}hub" link set hub up
for ((rank = 0; rank < ranks; rank++)); do
  make "$(machine $rank)"
  ip -n "${prefix}hub" link add "to$rank" type veth peer name eth0 netns "$(machine $rank)"
  ip -n "${prefix}hub" link set "to$rank" master hub up
  if [ "${FAMILY:-4}" = 6 ]; then
    ip -n "$(machine $rank)" address add "$(address $rank)/64" dev eth0 nodad
  else
    ip -n "$(machine $rank)" address add "$(address $rank)/24" dev eth0
  fi
  ip -n "$(machine $rank)" link set eth0 up
  if [ -n "$rate" ]; then
    tc -n "$(machine $rank)" qdisc add dev eth0 root tbf rate "$rate" burst 128kb latency 50ms
  fi
done

processes=()
for ((rank = 0; rank < ranks; rank++)); do
  RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=$(address 0) MASTER_PORT=29511 \
    TORCHELASTIC_RUN_ID=$prefix ip netns exec "$(machine $rank)" \
    unshare --uts sh -c 'hostname "machine$RANK" && exec "$@"' sh "$@" &
  processes+=($!)
done
if [ -n "$cut_rank" ]; then
  (
    sleep "$cut_after"
    ip -n "${prefix}hub" link set "to$cut_rank" down
    if [ -n "$cut_for" ]; then
      sleep "$cut_for"
      ip -n "${prefix}hub" link set "to$cut_rank" up
    fi
  ) &
fi
status=0
for each in "${processes[@]}"; do
  wait "$each" || { code=$?; [ $status -ne 0 ] || status=$code; }
done
exit $status
