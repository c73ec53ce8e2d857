import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import org.postgresql.ds.PGSimpleDataSource;

// Takes IDs of SnowflakeBlocks in several threads, and prints what is wrong with them. Threads continue after errors.
class BlocksUnderLoad {
    public static void main(String[] arguments) throws Exception {
        int threads = Integer.parseInt(arguments[0]);
        int each = Integer.parseInt(arguments[1]);
        var source = new PGSimpleDataSource();
        source.setUrl("jdbc:postgresql://" + System.getenv("PGHOST") + "/" + System.getenv("PGDATABASE"));
        source.setUser(System.getenv("PGUSER"));
        var all = new long[threads * each];
        var failures = new AtomicInteger();
        var descending = new AtomicInteger();
        try (var ids = new SnowflakeBlocks(source, 32, Duration.ofSeconds(1))) {
            ids.next();
            System.out.println("started");
            long start = System.nanoTime();
            var running = new Thread[threads];
            for (int t = 0; t < threads; t++) {
                int from = t * each;
                running[t] = new Thread(() -> {
                    long last = 0;
                    for (int i = from; i < from + each;) {
                        try {
                            long id = ids.next();
                            if (id <= last) {
                                descending.incrementAndGet();
                            }
                            last = id;
                            all[i++] = id;
                        } catch (SQLException e) {
                            failures.incrementAndGet();
                            Thread.onSpinWait();
                        }
                    }
                });
                running[t].start();
            }
            for (var thread : running) {
                thread.join();
            }
            System.err.printf("%.1f million IDs per second%n", all.length * 1e3 / (System.nanoTime() - start));
        }
        Arrays.sort(all);
        int repeated = 0;
        for (int i = 1; i < all.length; i++) {
            if (all[i] == all[i - 1]) {
                repeated++;
            }
        }
        System.out.println(all.length + " IDs, " + repeated + " repeated, " + descending + " descending");
        System.out.println(failures.get() > 0 ? "failures" : "no failures");

        var ids = new SnowflakeBlocks(source, 1, Duration.ofMillis(100));
        long first = ids.next();
        for (long start = System.nanoTime(); System.nanoTime() - start < 150_000_000;) {
            Thread.onSpinWait();
        }
        System.out.println(ids.next() == first + 1 ? "an old ID" : "old IDs are dropped");
        ids.close();
        try {
            System.out.println(ids.next());
        } catch (SQLException e) {
            System.out.println(e.getCause().getMessage());
        }
    }
}
