"""Holds a lock of Kazoo's. Usage: peer.py HOSTS PATH mutex|read|write [CLIENTS].

It obeys the lines "lock" and "release" of its standard input, and answers
"asked", "held" and "released". With "bench N" all of its clients take the lock
and give it back, N times together, and it answers "done".
"""
import sys
import threading

from kazoo.client import KazooClient

hosts, path, kind = sys.argv[1:4]


def connect():
    client = KazooClient(hosts=hosts, timeout=10)
    client.start()
    return client, {"mutex": client.Lock, "read": client.ReadLock, "write": client.WriteLock}[kind](path, "peer")


both = [connect() for _ in range(int(sys.argv[4]) if len(sys.argv) > 4 else 1)]
client, lock = both[0]
left = 0
guard = threading.Lock()


def say(word):
    print(word, flush=True)


def take():
    lock.acquire()
    say("held")


def loop(mine):
    global left
    while True:
        with guard:
            left -= 1
            if left < 0:
                return
        mine.acquire()
        mine.release()


def bench(n):
    global left
    left = n
    threads = [threading.Thread(target=loop, args=(mine,)) for _, mine in both]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    say("done")


say("ready")
for line in sys.stdin:
    if line.strip() == "lock":
        threading.Thread(target=take, daemon=True).start()
        say("asked")
    elif line.startswith("bench "):
        bench(int(line.split()[1]))
    else:
        lock.release()
        say("released")
for client, _ in both:
    client.stop()
