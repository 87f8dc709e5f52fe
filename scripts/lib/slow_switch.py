#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An Ethernet switch with delay and loss: frames between the given interfaces arrive DELAY ms later, and some are lost.

    slow_switch.py --delay 20 --loss 1 --rate 100 INTERFACE ...
    slow_switch.py --plain INTERFACE

For kernels without netem; it runs in its own network namespace. A frame that arrives at one interface leaves at the one
where its destination was seen, or at all others. --rate is the outgoing Mbit/s of each interface, with a queue of 50
ms; further frames are dropped. --plain switches off segmentation and checksum offload, which pass several segments or
unfinished checksums to an interface. Use it for both ends of each wire."""
import argparse
import ctypes
import fcntl
import heapq
import random
import select
import signal
import socket
import struct
import sys
import time

SIOCETHTOOL = 0x8946
SWITCHED_OFF = (0x15, 0x17, 0x1f, 0x24, 0x2c)  # receive and send checksums; segmentation: TSO and GSO; GRO
ALL_PROTOCOLS = 3
LONGEST = 65600
LONGEST_QUEUE = 0.05  # seconds


def make_plain(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in SWITCHED_OFF:
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP", interface.encode(), ctypes.addressof(value))
            try:
                fcntl.ioctl(control, SIOCETHTOOL, request + bytes(40 - len(request)))
            except OSError as error:
                if command != SWITCHED_OFF[0]:  # this one cannot always be switched off, and is harmless
                    sys.exit(f"{interface}: ethtool command {command:#x}: {error}")


class Port:
    def __init__(self, interface):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
        self.socket.bind((interface, ALL_PROTOCOLS))
        self.socket.setblocking(False)
        self.free_at = 0.0  # when its last frame has left


def switch(interfaces, delay, loss, rate):
    ports = [Port(each) for each in interfaces]
    number_of = {port.socket.fileno(): i for i, port in enumerate(ports)}
    seen_at, waiting, count = {}, [], 0
    dice = random.Random(1)
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, port, frame = heapq.heappop(waiting)
            try:
                ports[port].socket.send(frame)
            except OSError:
                pass  # the interface is down: the frame is lost, as on a cut wire
        patience = max(0.0, waiting[0][0] - now) if waiting else None
        readable, _, _ = select.select([port.socket for port in ports], [], [], patience)
        now = time.monotonic()
        for ready in readable:
            source = number_of[ready.fileno()]
            for _ in range(64):  # then the other interfaces' turn
                try:
                    frame, (_, _, kind, *_rest) = ready.recvfrom(LONGEST)
                except OSError:
                    break
                if kind == socket.PACKET_OUTGOING:
                    continue
                seen_at[frame[6:12]] = source
                target = seen_at.get(frame[:6])
                for port in ([target] if target is not None else range(len(ports))):
                    out = ports[port]
                    begin = max(now, out.free_at)
                    if port == source or dice.random() < loss or begin - now > LONGEST_QUEUE:
                        continue
                    out.free_at = begin + (len(frame) + 24) / rate  # with preamble, checksum and gap
                    count += 1
                    heapq.heappush(waiting, (out.free_at + delay, count, port, frame))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--delay", type=float, default=0, help="milliseconds")
    parser.add_argument("--loss", type=float, default=0, help="per cent of frames")
    parser.add_argument("--rate", type=float, default=10000, help="Mbit/s")
    parser.add_argument("interfaces", nargs="+")
    options = parser.parse_args()
    for each in options.interfaces:
        make_plain(each)
    if not options.plain:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        switch(options.interfaces, options.delay / 1e3, options.loss / 100, options.rate * 1e6 / 8)


if __name__ == "__main__":
    main()
