import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Holds a lock of Curator's. Usage: Peer.java HOSTS PATH mutex|read|write.
 *
 * It obeys the lines "lock" and "release" of its standard input, and answers
 * "held" and "released". A lock of Curator's belongs to a thread, so while it
 * waits it does not listen.
 */
public class Peer {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10000, 5000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        InterProcessMutex lock;
        switch (args[2]) {
            case "read": lock = new InterProcessReadWriteLock(client, args[1]).readLock(); break;
            case "write": lock = new InterProcessReadWriteLock(client, args[1]).writeLock(); break;
            default: lock = new InterProcessMutex(client, args[1]);
        }
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.trim().equals("lock")) {
                System.out.println("asked");
                lock.acquire();
                System.out.println("held");
            } else {
                lock.release();
                System.out.println("released");
            }
        }
        client.close();
    }
}
