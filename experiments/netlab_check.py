"""The self-test of experiments/netlab: measures every directed pair of a laboratory, from inside it.

  latency     the least of 20 small UDP packets, one way: all namespaces of a machine have one clock
  bandwidth   payload that one TCP connection delivers per second once it has found its speed

Usage, by `netlab check` alone: netlab_check.py STATE table|json
"""
import contextlib
import ctypes
import json
import os
import socket
import statistics
import sys
import threading
import time

import netlab_lab as lab

CLONE_NEWNET = 0x40000000
PORT = 5201
BANDWIDTH_TOLERANCE = 0.10
LATENCY_TOLERANCE, LATENCY_FLOOR_S = 0.10, 1e-3  # the floor: what waking up costs where others compute


def enter(device):
    """Sockets that are made from now on are the device's."""
    with open(lab.netns_of(device)) as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns", device)


def socket_on(device, kind):
    enter(device)
    one = socket.socket(socket.AF_INET, kind)
    one.settimeout(30)
    return one


def latency(sender, receiver, address):
    """Seconds, one way."""
    with socket_on(receiver, socket.SOCK_DGRAM) as end, socket_on(sender, socket.SOCK_DGRAM) as start:
        end.bind((address, PORT))
        times = []
        for _ in range(20):
            start.sendto(str(time.monotonic_ns()).encode(), (address, PORT))
            sent = int(end.recv(100))
            times.append((time.monotonic_ns() - sent) * 1e-9)
        return min(times)


def pour(connection):
    """Until the receiver has measured enough and hangs up."""
    block = bytes(1 << 18)
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(block)


def bandwidth(sender, receiver, address, round_trip_s):
    """Bits/s of payload, once TCP has had time to find its speed: some doublings, one each round trip."""
    warm_up, seconds = 0.5 + 12 * round_trip_s, 1 + 4 * round_trip_s
    with socket_on(receiver, socket.SOCK_STREAM) as listener, socket_on(sender, socket.SOCK_STREAM) as start:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, PORT))
        listener.listen()
        start.connect((address, PORT))
        end, _ = listener.accept()
        with end:
            begin = time.monotonic() + warm_up
            writer = threading.Thread(target=pour, args=(start,))
            writer.start()
            buffer, received, first, last = bytearray(1 << 20), 0, None, None
            while last is None or last < begin + seconds:
                size = end.recv_into(buffer)
                last = time.monotonic()
                if size == 0:
                    raise ConnectionError(f"{sender} hung up on {receiver}")
                if first is not None:
                    received += size
                elif last >= begin:
                    first = last
        with contextlib.suppress(OSError):  # where the other end has noticed already
            start.shutdown(socket.SHUT_RDWR)
        writer.join()
        return received * 8 / (last - first)


def measured(state, pair):
    address = lab.address(lab.DATA_NETWORK, state["devices"].index(pair["to"]))
    back = next(p for p in state["pairs"] if (p["from"], p["to"]) == (pair["to"], pair["from"]))
    one = {"from": pair["from"], "to": pair["to"], "by": "HTB" if lab.by_htb(pair, lab.has_netem()) else "relay",
           "bandwidth_bits_per_s": pair["bandwidth_bits_per_s"], "latency_s": pair["latency_s"],
           "measured_latency_s": latency(pair["from"], pair["to"], address),
           "measured_bandwidth_bits_per_s": bandwidth(pair["from"], pair["to"], address,
                                                      pair["latency_s"] + back["latency_s"])}
    off = one["measured_bandwidth_bits_per_s"] / one["bandwidth_bits_per_s"] - 1
    late = one["measured_latency_s"] - one["latency_s"]
    one["as_configured"] = (abs(off) <= BANDWIDTH_TOLERANCE
                            and abs(late) <= max(LATENCY_FLOOR_S, LATENCY_TOLERANCE * one["latency_s"]))
    return one


def row(one):
    configured, got = one["bandwidth_bits_per_s"] / 1e6, one["measured_bandwidth_bits_per_s"] / 1e6
    return (f"{one['from']:<12} {one['to']:<12} {one['by']:<6} {configured:>10.4g} {got:>10.4g} {100 * (got / configured - 1):>+7.1f} % "
            f"{one['latency_s'] * 1e3:>9.3f} {one['measured_latency_s'] * 1e3:>9.3f}  {'' if one['as_configured'] else 'off'}")


def main():
    state, form = json.loads(sys.argv[1]), sys.argv[2]
    if form == "table":
        print(f"{'from':<12} {'to':<12} {'by':<6} {'Mbps':>10} {'measured':>10} {'':>9} {'ms':>9} {'measured':>9}")
    results = []
    for pair in state["pairs"]:
        results.append(measured(state, pair))
        if form == "table":
            print(row(results[-1]), flush=True)
    good = sum(one["as_configured"] for one in results)
    worst = max(abs(one["measured_bandwidth_bits_per_s"] / one["bandwidth_bits_per_s"] - 1) for one in results)
    late = statistics.median(one["measured_latency_s"] - one["latency_s"] for one in results)
    if form == "json":
        print(json.dumps(results, indent=2))
    else:
        print(f"\n{good} of {len(results)} pairs as configured; bandwidth off by at most {100 * worst:.1f} %, latency by "
              f"{late * 1e3:+.3f} ms (median)")
    return 0 if good == len(results) else 5


if __name__ == "__main__":
    sys.exit(main())
