"""Holds a lock of Kazoo's. Usage: peer.py HOSTS PATH mutex|read|write.

It obeys the lines "lock" and "release" of its standard input, and answers
"asked", "held" and "released".
"""
import sys
import threading

from kazoo.client import KazooClient

hosts, path, kind = sys.argv[1:]
client = KazooClient(hosts=hosts, timeout=10)
client.start()
lock = {"mutex": client.Lock, "read": client.ReadLock, "write": client.WriteLock}[kind](path, "peer")


def say(word):
    print(word, flush=True)


def take():
    lock.acquire()
    say("held")


say("ready")
for line in sys.stdin:
    if line.strip() == "lock":
        threading.Thread(target=take, daemon=True).start()
        say("asked")
    else:
        lock.release()
        say("released")
client.stop()
