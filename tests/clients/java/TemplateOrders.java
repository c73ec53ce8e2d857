import java.util.ArrayList;
import java.util.List;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.transaction.support.TransactionTemplate;

class TemplateOrders {
    public static void main(String[] arguments) {
        var url = "jdbc:postgresql://" + System.getenv("PGHOST") + "/" + System.getenv("PGDATABASE");
        var source = new DriverManagerDataSource(url, System.getenv("PGUSER"), "");
        var template = new JdbcTemplate(source);

        var insert = "INSERT INTO orders (item) VALUES (?) RETURNING id";
        long tea = template.queryForObject(insert, Long.class, "tea");
        System.out.println(tea); // an ID

        // For many rows, take the IDs first, in the same transaction.
        var items = List.of("milk", "sugar", "lemon");
        var transaction = new TransactionTemplate(new DataSourceTransactionManager(source));
        var ids = transaction.execute(status -> {
            var batch = template.queryForList("SELECT snowflake_batch(?)", Long.class, items.size());
            var rows = new ArrayList<Object[]>();
            for (int i = 0; i < items.size(); i++) {
                rows.add(new Object[] {batch.get(i), items.get(i)});
            }
            template.batchUpdate("INSERT INTO orders (id, item) VALUES (?, ?)", rows);
            return batch;
        });

        var query = "SELECT item FROM orders WHERE id = ?";
        System.out.println(template.queryForObject(query, String.class, ids.get(2))); // lemon
    }
}
