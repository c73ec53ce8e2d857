import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Map;
import javax.persistence.Entity;
import javax.persistence.EntityManager;
import javax.persistence.GeneratedValue;
import javax.persistence.GenerationType;
import javax.persistence.Id;
import javax.persistence.Persistence;
import javax.persistence.PersistenceException;
import javax.persistence.Table;

// Prints which key an entity gets from strategies that look for the key in the wrong place.
class WrongKeys {
    @Entity
    @Table(name = "orders")
    public static class Order {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        public Long id;
        public String item;
    }

    public static void main(String[] arguments) throws SQLException {
        var url = "jdbc:postgresql://" + System.getenv("PGHOST") + "/" + System.getenv("PGDATABASE");
        var factory = Persistence.createEntityManagerFactory("wrong", Map.of(
                "javax.persistence.jdbc.url", url, "javax.persistence.jdbc.user", System.getenv("PGUSER")));
        System.out.println("EclipseLink, IDENTITY: " + key(factory.createEntityManager(), "LOCK TABLE orders"));
        System.out.println("EclipseLink, IDENTITY, after a row with a serial key: " + key(factory.createEntityManager(),
                "CREATE TABLE visits (id serial); INSERT INTO visits DEFAULT VALUES"));
        factory.close();

        // MyBatis without keyColumn does the same.
        try (var connection = DriverManager.getConnection(url, System.getenv("PGUSER"), "")) {
            connection.createStatement().execute(
                    "CREATE TABLE items (item text, id bigint PRIMARY KEY DEFAULT snowflake_nextval())");
            var insert = connection.prepareStatement(
                    "INSERT INTO items (item) VALUES ('7')", Statement.RETURN_GENERATED_KEYS);
            insert.executeUpdate();
            var keys = insert.getGeneratedKeys();
            keys.next();
            System.out.println("The first generated key, id is not the first column: " + keys.getLong(1));
        }
    }

    private static String key(EntityManager manager, String before) {
        manager.getTransaction().begin();
        manager.createNativeQuery(before).executeUpdate();
        var order = new Order();
        order.item = "tea";
        try {
            manager.persist(order);
            manager.flush();
            return order.id.toString();
        } catch (PersistenceException e) {
            return e.getCause().getCause().getMessage();
        } finally {
            manager.getTransaction().rollback();
        }
    }
}
