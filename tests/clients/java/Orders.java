import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;

class Orders {
    public static void main(String[] arguments) throws SQLException {
        var url = "jdbc:postgresql://" + System.getenv("PGHOST") + "/" + System.getenv("PGDATABASE");
        var connection = DriverManager.getConnection(url, System.getenv("PGUSER"), "");

        // The driver adds RETURNING. (RETURN_GENERATED_KEYS requests all columns.)
        var insert = connection.prepareStatement("INSERT INTO orders (item) VALUES (?)", new String[] {"id"});
        insert.setString(1, "tea");
        insert.executeUpdate();
        var keys = insert.getGeneratedKeys();
        keys.next();
        long tea = keys.getLong("id");
        System.out.println(tea); // an ID

        // For many rows, take the IDs first, in the same transaction.
        connection.setAutoCommit(false);
        var ids = new ArrayList<Long>();
        var batch = connection.createStatement().executeQuery("SELECT snowflake_batch(3)");
        while (batch.next()) {
            ids.add(batch.getLong(1));
        }
        var items = List.of("milk", "sugar", "lemon");
        var insertMany = connection.prepareStatement("INSERT INTO orders (id, item) VALUES (?, ?)");
        for (int i = 0; i < items.size(); i++) {
            insertMany.setLong(1, ids.get(i));
            insertMany.setString(2, items.get(i));
            insertMany.addBatch();
        }
        insertMany.executeBatch();
        connection.commit();

        var query = connection.prepareStatement("SELECT item FROM orders WHERE id = ?");
        query.setLong(1, ids.get(2));
        var lemon = query.executeQuery();
        lemon.next();
        System.out.println(lemon.getString("item")); // lemon
        connection.close();
    }
}
