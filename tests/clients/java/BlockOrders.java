import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import org.postgresql.ds.PGSimpleDataSource;

class BlockOrders {
    public static void main(String[] arguments) throws SQLException {
        var source = new PGSimpleDataSource(); // A program uses its pool instead.
        source.setUrl("jdbc:postgresql://" + System.getenv("PGHOST") + "/" + System.getenv("PGDATABASE"));
        source.setUser(System.getenv("PGUSER"));
        source.setSocketTimeout(10);

        // 32 blocks are 131,072 IDs.
        try (var ids = new SnowflakeBlocks(source, 32, Duration.ofSeconds(1));
                var connection = source.getConnection();
                var insert = connection.prepareStatement("INSERT INTO orders (id, item) VALUES (?, ?)")) {
            long id = 0;
            for (var item : List.of("tea", "milk", "sugar")) {
                id = ids.next(); // seldom a query
                insert.setLong(1, id);
                insert.setString(2, item);
                insert.addBatch();
            }
            insert.executeBatch();
            System.out.println(id); // an ID
        }
    }
}
