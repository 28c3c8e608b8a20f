import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Holds a lock of Curator's. Usage: Peer.java HOSTS PATH mutex|read|write [CLIENTS].
 *
 * It obeys the lines "lock" and "release" of its standard input, and answers
 * "asked", "held" and "released". A lock of Curator's belongs to a thread, so
 * while it waits it does not listen. With "bench N" all of its clients take the
 * lock and give it back, N times together, and it answers "done".
 */
public class Peer {
    public static void main(String[] args) throws Exception {
        InterProcessMutex[] locks = new InterProcessMutex[args.length > 3 ? Integer.parseInt(args[3]) : 1];
        for (int i = 0; i < locks.length; i++) {
            locks[i] = connect(args);
        }
        InterProcessMutex lock = locks[0];
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.trim().equals("lock")) {
                System.out.println("asked");
                lock.acquire();
                System.out.println("held");
            } else if (line.startsWith("bench ")) {
                bench(locks, Integer.parseInt(line.substring(6).trim()));
                System.out.println("done");
            } else {
                lock.release();
                System.out.println("released");
            }
        }
        System.exit(0); // the sessions expire
    }

    static InterProcessMutex connect(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10000, 5000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        switch (args[2]) {
            case "read": return new InterProcessReadWriteLock(client, args[1]).readLock();
            case "write": return new InterProcessReadWriteLock(client, args[1]).writeLock();
            default: return new InterProcessMutex(client, args[1]);
        }
    }

    static void bench(InterProcessMutex[] locks, int n) throws Exception {
        AtomicInteger left = new AtomicInteger(n);
        Thread[] threads = new Thread[locks.length];
        for (int i = 0; i < threads.length; i++) {
            InterProcessMutex mine = locks[i];
            threads[i] = new Thread(() -> {
                try {
                    while (left.getAndDecrement() > 0) {
                        mine.acquire();
                        mine.release();
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            });
            threads[i].start();
        }
        for (Thread t : threads) {
            t.join();
        }
    }
}
