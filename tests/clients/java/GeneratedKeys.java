import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.stream.Stream;
import javax.persistence.Entity;
import javax.persistence.EntityManager;
import javax.persistence.GeneratedValue;
import javax.persistence.GenerationType;
import javax.persistence.Id;
import javax.persistence.Persistence;
import javax.persistence.PersistenceException;
import javax.persistence.Table;
import org.eclipse.persistence.config.SessionCustomizer;
import org.eclipse.persistence.queries.ValueReadQuery;
import org.eclipse.persistence.sequencing.QuerySequence;
import org.eclipse.persistence.sessions.Session;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.simple.SimpleJdbcInsert;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.jdbc.support.GeneratedKeyHolder;

// Prints which keys the strategies of EclipseLink, JDBC and Spring return.
class GeneratedKeys {
    @Entity
    @Table(name = "orders")
    public static class Order {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        public Long id;
        public String item;
    }

    @Entity
    @Table(name = "orders")
    public static class OrderOfBlock {
        @Id
        @GeneratedValue(generator = "snowflake")
        public Long id;
        public String item;
    }

    public static class Blocks implements SessionCustomizer {
        @Override
        public void customize(Session session) {
            var sequence = new QuerySequence("snowflake", 50, false, false);
            sequence.setSelectQuery(new ValueReadQuery("SELECT snowflake_block(50) + 49"));
            session.getLogin().addSequence(sequence);
        }
    }

    public static void main(String[] arguments) throws SQLException {
        var url = "jdbc:postgresql://" + System.getenv("PGHOST") + "/" + System.getenv("PGDATABASE");
        var factory = Persistence.createEntityManagerFactory("keys", Map.of(
                "javax.persistence.jdbc.url", url, "javax.persistence.jdbc.user", System.getenv("PGUSER")));
        System.out.println("EclipseLink, IDENTITY: " + key(factory.createEntityManager(), "LOCK TABLE orders"));
        System.out.println("EclipseLink, IDENTITY, after a row with a serial key: " + key(factory.createEntityManager(),
                "CREATE TABLE visits (id serial); INSERT INTO visits DEFAULT VALUES"));
        System.out.println("EclipseLink, blocks of 50: " + blocks(factory.createEntityManager()));
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

        var source = new DriverManagerDataSource(url, System.getenv("PGUSER"), "");
        for (var type : List.of("bigint", "snowflake")) {
            new JdbcTemplate(source).execute("ALTER TABLE orders ALTER id TYPE " + type);
            System.out.println("Spring, GeneratedKeyHolder, " + type + ": " + attempt(() -> {
                var holder = new GeneratedKeyHolder();
                new JdbcTemplate(source).update(connection -> connection.prepareStatement(
                        "INSERT INTO orders (item) VALUES ('tea')", new String[] {"id"}), holder);
                return holder.getKey();
            }));
            System.out.println("Spring, SimpleJdbcInsert, " + type + ": " + attempt(() -> {
                var insert = new SimpleJdbcInsert(source).withTableName("orders").usingGeneratedKeyColumns("id");
                return insert.executeAndReturnKey(Map.of("item", "tea"));
            }));
        }
    }

    // Whether 120 keys are those of three blocks. The program is the only one that takes IDs.
    private static String blocks(EntityManager manager) {
        manager.getTransaction().begin();
        var last = (Number) manager.createNativeQuery("SELECT snowflake_nextval()").getSingleResult();
        var keys = Stream.generate(OrderOfBlock::new).limit(120).peek(manager::persist).map(o -> o.id).toList();
        var current = (Number) manager.createNativeQuery("SELECT snowflake_currval()").getSingleResult();
        manager.getTransaction().commit();
        for (int i = 1; i < keys.size(); i++) {
            if (i % 50 == 0 ? keys.get(i) <= keys.get(i - 1) : keys.get(i) != keys.get(i - 1) + 1) {
                return "wrong";
            }
        }
        return keys.get(0) > last.longValue() && keys.get(100) + 49 == current.longValue() ? "right" : "wrong";
    }

    // The name of the exception, or the class of the key.
    private static String attempt(Supplier<Number> key) {
        try {
            return key.get().getClass().getSimpleName();
        } catch (DataAccessException e) {
            return e.getClass().getSimpleName();
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
