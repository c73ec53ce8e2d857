import java.io.Serializable;
import java.util.stream.Stream;
import javax.persistence.Entity;
import javax.persistence.GeneratedValue;
import javax.persistence.GenerationType;
import javax.persistence.Id;
import javax.persistence.Table;
import org.hibernate.Session;
import org.hibernate.annotations.GenericGenerator;
import org.hibernate.cfg.Configuration;
import org.hibernate.engine.SessionImplementor;
import org.hibernate.id.IdentifierGenerator;

class HibernateOrders {
    // The default of the column generates the key, and Hibernate reads the key back.
    @Entity
    @Table(name = "orders")
    public static class Order {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        public Long id;
        public String item;
    }

    // Hibernate takes the key before the INSERT, so it can send the rows as a batch.
    @Entity
    @Table(name = "orders")
    public static class OrderOfBatch {
        @Id
        @GeneratedValue(generator = "snowflake")
        @GenericGenerator(name = "snowflake", strategy = "HibernateOrders$Snowflakes")
        public Long id;
        public String item;
    }

    public static class Snowflakes implements IdentifierGenerator {
        @Override
        public Serializable generate(SessionImplementor session, Object object) {
            var query = ((Session) session).createSQLQuery("SELECT snowflake_nextval()");
            return ((Number) query.uniqueResult()).longValue();
        }
    }

    public static void main(String[] arguments) {
        var url = "jdbc:postgresql://" + System.getenv("PGHOST") + "/" + System.getenv("PGDATABASE");
        var factory = new Configuration()
                .addAnnotatedClass(Order.class)
                .addAnnotatedClass(OrderOfBatch.class)
                .setProperty("hibernate.connection.url", url)
                .setProperty("hibernate.connection.username", System.getenv("PGUSER"))
                .setProperty("hibernate.dialect", "org.hibernate.dialect.PostgreSQLDialect")
                .setProperty("hibernate.jdbc.batch_size", "20")
                .buildSessionFactory();
        var session = factory.openSession();

        var transaction = session.beginTransaction();
        var tea = new Order();
        tea.item = "tea";
        session.persist(tea);
        var others = Stream.of("milk", "sugar", "lemon").map(item -> {
            var order = new OrderOfBatch();
            order.item = item;
            session.persist(order);
            return order;
        }).toList();
        transaction.commit();
        System.out.println(tea.id); // an ID
        System.out.println(others.get(2).id); // an ID

        session.clear();
        System.out.println(((Order) session.get(Order.class, others.get(2).id)).item); // lemon
        factory.close();
    }
}
