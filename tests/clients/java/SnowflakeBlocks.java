import java.sql.SQLException;
import java.sql.SQLTimeoutException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import javax.sql.DataSource;

/**
 * IDs of the server, taken in advance. While threads use one buffer, the next buffer is fetched. Several threads may call
 * all methods.
 */
public final class SnowflakeBlocks implements AutoCloseable {
    /** The IDs of a block follow each other. A layout with n bits of sequence allows 2^n IDs. */
    private static final int BLOCK = 4096;
    private static final int TIMEOUT_SECONDS = 5;

    private record Buffer(long[] firstIds, AtomicLong used, long expiresNanos) {
        long size() {
            return (long) firstIds.length * BLOCK;
        }
    }

    private final DataSource source;
    private final int blocks;
    private final long maxAgeNanos;
    private final ExecutorService fetcher = Executors.newSingleThreadExecutor(task -> {
        var thread = new Thread(task, "snowflake-blocks");
        thread.setDaemon(true);
        return thread;
    });
    private volatile Buffer current = new Buffer(new long[0], new AtomicLong(), System.nanoTime());
    private CompletableFuture<Buffer> next;

    /** Each query fetches this number of blocks. IDs that are not used within maxAge (at least 100 ms) are dropped. */
    public SnowflakeBlocks(DataSource source, int blocks, Duration maxAge) {
        if (blocks < 1 || maxAge.toMillis() < 100) {
            throw new IllegalArgumentException("at least 1 block and 100 ms");
        }
        this.source = source;
        this.blocks = blocks;
        this.maxAgeNanos = maxAge.toNanos();
    }

    /** Returns the next ID. If no ID is available within 5 seconds, the method fails. Call it again later. */
    public long next() throws SQLException {
        while (true) {
            var buffer = current;
            long index = buffer.used.getAndIncrement();
            if (index < buffer.size() && System.nanoTime() - buffer.expiresNanos < 0) {
                if (index == buffer.size() / 2) {
                    fetchNext();
                }
                return buffer.firstIds[(int) (index / BLOCK)] + index % BLOCK;
            }
            replace(buffer);
        }
    }

    /** Drops the IDs that were not used. */
    @Override
    public synchronized void close() {
        fetcher.shutdownNow();
        current = new Buffer(new long[0], new AtomicLong(), System.nanoTime());
        next = CompletableFuture.failedFuture(new SQLException("closed"));
    }

    /** Starts a query, unless one is running or its result was not used yet. */
    private synchronized CompletableFuture<Buffer> fetchNext() {
        if (next == null || next.isCompletedExceptionally() && !fetcher.isShutdown()) {
            next = CompletableFuture.supplyAsync(this::fetch, fetcher);
        }
        return next;
    }

    private void replace(Buffer used) throws SQLException {
        CompletableFuture<Buffer> fetched;
        synchronized (this) {
            if (current != used) {
                return; // by another thread
            }
            fetched = fetchNext();
        }
        // Without the lock, so that all threads fail at the same time.
        try {
            var buffer = fetched.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
            synchronized (this) {
                if (next == fetched) {
                    current = buffer;
                    next = null;
                }
            }
        } catch (ExecutionException e) {
            throw new SQLException("no IDs available", e.getCause());
        } catch (TimeoutException e) {
            throw new SQLTimeoutException("no IDs within " + TIMEOUT_SECONDS + " s");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new SQLException("interrupted", e);
        }
    }

    private Buffer fetch() {
        var query = "SELECT snowflake_block(?) FROM generate_series(1, ?)";
        try (var connection = source.getConnection(); var statement = connection.prepareStatement(query)) {
            statement.setQueryTimeout(TIMEOUT_SECONDS);
            statement.setInt(1, BLOCK);
            statement.setInt(2, blocks);
            var firstIds = new long[blocks];
            var rows = statement.executeQuery();
            for (int i = 0; rows.next(); i++) {
                firstIds[i] = rows.getLong(1);
            }
            return new Buffer(firstIds, new AtomicLong(), System.nanoTime() + maxAgeNanos);
        } catch (SQLException e) {
            throw new CompletionException(e);
        }
    }
}
