import java.util.Map;
import java.util.stream.Stream;
import javax.persistence.Entity;
import javax.persistence.GeneratedValue;
import javax.persistence.Id;
import javax.persistence.Persistence;
import javax.persistence.Table;
import org.eclipse.persistence.config.SessionCustomizer;
import org.eclipse.persistence.queries.ValueReadQuery;
import org.eclipse.persistence.sequencing.QuerySequence;
import org.eclipse.persistence.sessions.Session;

class EclipseLinkOrders {
    @Entity
    @Table(name = "orders")
    public static class Order {
        @Id
        @GeneratedValue(generator = "snowflake")
        public Long id;
        public String item;
    }

    // Named in META-INF/persistence.xml.
    public static class Sequences implements SessionCustomizer {
        @Override
        public void customize(Session session) {
            var sequence = new QuerySequence("snowflake", 1, false, false);
            sequence.setSelectQuery(new ValueReadQuery("SELECT snowflake_nextval()"));
            session.getLogin().addSequence(sequence);
        }
    }

    public static void main(String[] arguments) {
        var url = "jdbc:postgresql://" + System.getenv("PGHOST") + "/" + System.getenv("PGDATABASE");
        var factory = Persistence.createEntityManagerFactory("shop", Map.of(
                "javax.persistence.jdbc.url", url, "javax.persistence.jdbc.user", System.getenv("PGUSER")));
        var manager = factory.createEntityManager();

        manager.getTransaction().begin();
        var orders = Stream.of("tea", "milk", "sugar", "lemon").map(item -> {
            var order = new Order();
            order.item = item;
            manager.persist(order); // SELECT snowflake_nextval(), in the same transaction
            return order;
        }).toList();
        manager.getTransaction().commit();
        System.out.println(orders.get(0).id); // an ID

        manager.clear();
        System.out.println(manager.find(Order.class, orders.get(3).id).item); // lemon
        factory.close();
    }
}
