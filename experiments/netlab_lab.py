"""Inside the laboratory of experiments/netlab: the first process of its namespaces. It lays the networks, starts the
relay, and then does nothing but stay: when it ends, the kernel ends what runs here and takes the namespaces away.

Each device has a namespace with two interfaces, and an address that ends in its number + 1 on both networks:
  control   a bridge without limits, for mpirun's own talk
  data      a bridge for the pairs that HTB shapes; routes lead the other pairs into "wan", the TUN of netlab-relay
"""
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile

CONTROL, DATA = "control", "data"
CONTROL_NETWORK, DATA_NETWORK = "10.78.0.0/16", "10.77.0.0/16"
PRIVATE = "/run/netns"  # in the laboratory a file system of its own, gone with it

HTB_FROM_BITS_PER_S = 4e9  # the relay, which does more, carries about as much on two cores
HTB_LATENCY_S = 0.2e-3     # what two bridged namespaces need anyway, unless the kernel can delay (netem)
FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448  # of TCP over Ethernet: HTB counts the former, a rate means the latter


# As a site with long links would set them: a connection that was idle stays as fast as it was, since training sends in
# bursts; windows that fill 1 Gbps at 100 ms. Routes differ by direction.
SYSCTLS = ["net.ipv4.tcp_slow_start_after_idle=0", "'net.ipv4.tcp_rmem=4096 131072 33554432'",
           "'net.ipv4.tcp_wmem=4096 65536 33554432'", "net.ipv4.conf.all.rp_filter=0",
           "net.ipv4.conf.default.rp_filter=0"]

# Windows alone limit a burst: BBR, where a machine has it as its default, paces the bursts of training at two thirds of the
# rate, since between them the connection is idle. Namespaces may choose freely only what the machine allows all users.
CONGESTION_CONTROL = ["cubic", "reno"]


def netns_of(device):
    return f"{PRIVATE}/{device}"


def on_host(device):
    """Words in front of a command, inside the laboratory, that put it on a device's host."""
    return ["nsenter", f"--net={netns_of(device)}", "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', device]


def address(network, index):
    number = index + 1
    return f"{network.rsplit('.', 2)[0]}.{number // 256}.{number % 256}"


def by_htb(pair, netem):
    return pair["bandwidth_bits_per_s"] >= HTB_FROM_BITS_PER_S and (netem or pair["latency_s"] <= HTB_LATENCY_S)


def counted(plan):
    """How many pairs HTB and the relay shape."""
    htb = sum(by_htb(pair, plan.get("netem", False)) for pair in plan["pairs"])
    return {"htb": htb, "relay": len(plan["pairs"]) - htb}


def sh(*lines):
    """Commands of ip, tc and the like, in one shell; the first that fails raises."""
    subprocess.run(["sh", "-ec", "\n".join(lines)], check=True, capture_output=True, text=True)


def has_netem():
    tried = subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"], capture_output=True)
    subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], capture_output=True)
    return tried.returncode == 0


# ---------------------------------------------------------------------------------------------- hosts and bridges
def make_hosts(devices):
    """Namespaces, bridges, addresses and names."""
    sh("mkdir -p /run/netns 2>/dev/null || { mount -t tmpfs netlab /run && mkdir /run/netns; }",
       "mount -t tmpfs -o mode=0755 netlab /run/netns", "ip link set lo up")
    for bridge in (CONTROL, DATA):
        sh(f"ip link add {bridge} type bridge forward_delay 0", f"ip link set {bridge} up")
    for index, device in enumerate(devices):
        lines = [f"ip netns add {device}", f"ip -n {device} link set lo up"]
        for bridge, network in ((CONTROL, CONTROL_NETWORK), (DATA, DATA_NETWORK)):
            lines += [f"ip link add {bridge}{index} type veth peer name {bridge} netns {device}",
                      f"ip link set {bridge}{index} master {bridge} up",
                      f"ip -n {device} addr add {address(network, index)}/16 dev {bridge}",
                      f"ip -n {device} link set {bridge} up"]
        choose = " || ".join(f"sysctl -qw net.ipv4.tcp_congestion_control={name} 2>/dev/null" for name in CONGESTION_CONTROL)
        sh(*lines, f"nsenter --net={netns_of(device)} sh -c \"sysctl -qw {' '.join(SYSCTLS)}; {choose}\"")
    hosts = pathlib.Path(PRIVATE, ".hosts")
    hosts.write_text("127.0.0.1 localhost\n" +
                     "".join(f"{address(CONTROL_NETWORK, i)} {name}\n" for i, name in enumerate(devices)))
    sh(f"mount --bind {hosts} /etc/hosts")


# ---------------------------------------------------------------------------------------------- fast pairs
def shape_by_kernel(device, destinations, netem):
    """An HTB class per destination (index, pair); traffic to others is not shaped. A burst of 2 ms keeps the rate
    between ticks; segments arrive unsplit, which HTB accounts for."""
    tc = f"ip netns exec {device} tc"
    lines = [f"{tc} qdisc add dev {DATA} root handle 1: htb r2q 1000"]
    for index, pair in destinations:
        rate = pair["bandwidth_bits_per_s"] * FRAME_BYTES / PAYLOAD_BYTES
        burst = max(int(rate / 8 * 2e-3), 1 << 17)
        one = f"1:{index + 1:x}"
        lines += [f"{tc} class add dev {DATA} parent 1: classid {one} htb rate {rate:.0f}bit burst {burst} cburst {burst} "
                  "quantum 60000",
                  f"{tc} filter add dev {DATA} parent 1: protocol ip prio 1 u32 match ip dst "
                  f"{address(DATA_NETWORK, index)}/32 flowid {one}"]
        if netem:
            lines.append(f"{tc} qdisc add dev {DATA} parent {one} netem limit 100000 delay {pair['latency_s'] * 1e6:.0f}us")
    sh(*lines)


# ---------------------------------------------------------------------------------------------- slow or long pairs
def relay_plan(plan, pairs, index):
    """The lines that netlab-relay reads. What a route crosses unshared is one hop of its own."""
    links = {link["name"]: link for link in plan["links"]}
    lines = [f"device {netns_of(name)}" for name in plan["devices"]]
    hops, number_of = [], {}

    def hop(key, bits_per_s):
        if key not in number_of:
            number_of[key] = len(hops)
            queue = max(int(bits_per_s / 8 * plan["queue_s"]), 1 << 18)
            hops.append(f"hop {bits_per_s:.0f} {queue}")
        return str(number_of[key])

    routes = []
    for pair in pairs:
        crossed = [links[name] for name in pair["links"]]
        used = [hop(link["name"], link["bandwidth_bits_per_s"]) for link in crossed if link["shared"]]
        own = [link["bandwidth_bits_per_s"] for link in crossed if not link["shared"]]
        if own:
            used.append(hop((pair["from"], pair["to"]), min(own)))
        routes.append(f"route {index[pair['from']]} {index[pair['to']]} {pair['latency_s'] * 1e9:.0f} {','.join(used)}")
    return "\n".join(lines + hops + routes) + "\n"


def start_relay(plan, pairs, index):
    """The relay, and the routes that lead into it."""
    words = tempfile.TemporaryFile("w+", dir=PRIVATE)
    words.write(relay_plan(plan, pairs, index))
    words.seek(0)
    relay = subprocess.Popen([plan["relay"]], stdin=words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    answer = relay.stdout.readline().strip()
    if answer != "ready":
        raise RuntimeError(answer or "netlab-relay ended before it was ready")
    for device in plan["devices"]:
        own = address(DATA_NETWORK, index[device])
        lines = [f"ip -n {device} link set wan mtu 1500 txqueuelen 10000 up"]
        lines += [f"ip -n {device} route add {address(DATA_NETWORK, index[pair['to']])}/32 dev wan src {own}"
                  for pair in pairs if pair["from"] == device]
        sh(*lines)
    return relay


# ---------------------------------------------------------------------------------------------- the keeper
def lay(plan):
    """All of the laboratory. Returns the relay's process, or None where no pair needs it."""
    index = {name: i for i, name in enumerate(plan["devices"])}
    netem = has_netem()
    make_hosts(plan["devices"])
    fast = [pair for pair in plan["pairs"] if by_htb(pair, netem)]
    slow = [pair for pair in plan["pairs"] if not by_htb(pair, netem)]
    for device in plan["devices"]:
        destinations = [(index[pair["to"]], pair) for pair in fast if pair["from"] == device]
        if destinations:
            shape_by_kernel(device, destinations, netem)
    return start_relay(plan, slow, index) if slow else None


def stay(relay, owner):
    """Until the relay ends or the owner, if there is one, is gone. Buries the dead meanwhile, as a first process must."""
    while True:
        ready, _, _ = select.select([owner] if owner is not None else [], [], [], 0.2)
        if ready:
            return
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if relay is not None and pid == relay.pid:
                return


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    bound = sys.argv[1] == "bound"
    plan = json.loads(sys.stdin.readline())
    try:
        relay = lay(plan)
    except (subprocess.CalledProcessError, RuntimeError, OSError) as fault:
        print(f"can't be laid: {getattr(fault, 'stderr', None) or fault}".strip().replace("\n", "; "), flush=True)
        return 5
    print("ready", flush=True)
    stay(relay, sys.stdin.fileno() if bound else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
