import java.math.BigDecimal;
import java.math.BigInteger;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

// Prints the table of docs/apps/java.md: which calls of JDBC work with columns of both types.
class JdbcTypes {
    private static final long ID = 1541815603606036481L;
    private static final BigDecimal DECIMAL = BigDecimal.valueOf(ID);
    private static final BigInteger INTEGER = BigInteger.valueOf(ID);
    private static final String TEXT = Long.toString(ID);

    interface Setter {
        void set(PreparedStatement statement) throws SQLException;
    }

    interface Getter {
        Object get(ResultSet row) throws SQLException;
    }

    private static Connection connection;

    public static void main(String[] arguments) throws SQLException {
        var url = "jdbc:postgresql://" + System.getenv("PGHOST") + "/" + System.getenv("PGDATABASE");
        connection = DriverManager.getConnection(url, System.getenv("PGUSER"), "");
        setters("`setLong()`, `setInt()`, `setShort()`", "?",
                s -> s.setLong(1, ID), s -> s.setInt(1, 7), s -> s.setShort(1, (short) 7));
        setters("`setObject()` with a `Long`, `Types.BIGINT` or `Types.OTHER`", "?",
                s -> s.setObject(1, ID), s -> s.setObject(1, ID, Types.BIGINT), s -> s.setObject(1, TEXT, Types.BIGINT),
                s -> s.setObject(1, INTEGER, Types.BIGINT), s -> s.setObject(1, ID, Types.OTHER));
        setters("`setNull()` with `BIGINT`, `NULL` or `OTHER`", "?",
                s -> s.setNull(1, Types.BIGINT), s -> s.setNull(1, Types.NULL), s -> s.setNull(1, Types.OTHER));
        arrays("`id = ANY (?)` with an array",
                s -> s.setObject(1, new long[] {ID}), s -> s.setObject(1, new Long[] {ID}),
                s -> s.setArray(1, connection.createArrayOf("bigint", new Long[] {ID})));
        setters("`setBigDecimal()`, `setObject()` with a `BigInteger` or `Types.NUMERIC`", "?",
                s -> s.setBigDecimal(1, DECIMAL), s -> s.setObject(1, DECIMAL), s -> s.setObject(1, INTEGER),
                s -> s.setObject(1, ID, Types.NUMERIC), s -> s.setNull(1, Types.NUMERIC));
        setters("`setDouble()`, `setFloat()`", "?", s -> s.setDouble(1, ID), s -> s.setFloat(1, ID));
        setters("`setString()`, `setNull()` with `VARCHAR`", "?",
                s -> s.setString(1, TEXT), s -> s.setObject(1, TEXT), s -> s.setNull(1, Types.VARCHAR));
        setters("the same with `?::bigint`, and `setBigDecimal()`", "?::bigint",
                s -> s.setString(1, TEXT), s -> s.setBigDecimal(1, DECIMAL), s -> s.setNull(1, Types.VARCHAR));
        getters("`getLong()`, `getString()`, `getBigDecimal()`", "id",
                r -> r.getLong(1) == ID, r -> r.getString(1).equals(TEXT), r -> r.getBigDecimal(1).equals(DECIMAL));
        getters("`getObject()`", "id", r -> r.getObject(1).getClass());
        getters("`getObject(.., Long.class)`", "id", r -> r.getObject(1, Long.class).getClass());
        getters("`getArray()` of `array_agg(id)`", "array_agg(id)",
                r -> ((Object[]) r.getArray(1).getArray())[0].getClass());
        getters("`getObject()` of `id::bigint`, `getArray()` of `array_agg(id::bigint)`",
                "id::bigint, array_agg(id::bigint)", r -> r.getObject(1).getClass(),
                r -> ((Object[]) r.getArray(2).getArray())[0].getClass());
        columns();
        connection.close();
    }

    // Inserts a value, and looks for it.
    private static void setters(String calls, String parameter, Setter... setters) throws SQLException {
        row(calls, type -> {
            var results = new LinkedHashSet<String>();
            for (var setter : setters) {
                results.add(result(() -> {
                    try (var insert = connection.prepareStatement("INSERT INTO ids VALUES (" + parameter + ")")) {
                        setter.set(insert);
                        insert.executeUpdate();
                    }
                    var query = "SELECT coalesce(id, " + ID + ") FROM ids WHERE id = " + parameter + " OR id IS NULL";
                    try (var select = connection.prepareStatement(query)) {
                        setter.set(select);
                        var rows = select.executeQuery();
                        if (!rows.next()) {
                            return "not found";
                        }
                        return List.of(ID, 7L).contains(rows.getLong(1)) ? "yes" : "rounded";
                    }
                }));
                execute("TRUNCATE ids");
            }
            return results;
        });
    }

    private static void arrays(String calls, Setter... setters) throws SQLException {
        row(calls, type -> {
            execute("INSERT INTO ids VALUES (" + ID + ")");
            var results = new LinkedHashSet<String>();
            for (var setter : setters) {
                results.add(result(() -> {
                    try (var select = connection.prepareStatement("SELECT id FROM ids WHERE id = ANY (?)")) {
                        setter.set(select);
                        return select.executeQuery().next() ? "yes" : "not found";
                    }
                }));
            }
            return results;
        });
    }

    private static void getters(String calls, String columns, Getter... getters) throws SQLException {
        row(calls, type -> {
            execute("INSERT INTO ids VALUES (" + ID + ")");
            var results = new LinkedHashSet<String>();
            for (var getter : getters) {
                for (int threshold : new int[] {5, -1}) { // as text, and in binary form
                    results.add(result(() -> {
                        try (var select = connection.prepareStatement("SELECT " + columns + " FROM ids GROUP BY id")) {
                            select.unwrap(org.postgresql.PGStatement.class).setPrepareThreshold(threshold);
                            var rows = select.executeQuery();
                            rows.next();
                            var got = getter.get(rows);
                            if (got instanceof Class<?> found) {
                                return "`" + found.getSimpleName() + "`";
                            }
                            return got.equals(true) ? "yes" : "wrong";
                        }
                    }));
                }
            }
            return results;
        });
    }

    private static void columns() throws SQLException {
        row("`getColumns()`, with `DEFAULT snowflake_next()`", type -> {
            var columns = connection.getMetaData().getColumns(null, "public", "ids", "id");
            columns.next();
            return Set.of("`" + columns.getString("TYPE_NAME") + "`");
        });
    }

    interface Cell {
        Set<String> of(String type) throws SQLException;
    }

    private static void row(String calls, Cell cell) throws SQLException {
        var line = new StringBuilder("| " + calls);
        for (var type : List.of("bigint", "snowflake")) {
            execute("CREATE TABLE ids (id " + type + " DEFAULT snowflake_next())");
            line.append(" | ").append(String.join(", ", cell.of(type)));
            execute("DROP TABLE ids");
            execute("DISCARD ALL");
        }
        System.out.println(line + " |");
    }

    interface Attempt {
        String run() throws SQLException;
    }

    private static String result(Attempt attempt) {
        try {
            return attempt.run();
        } catch (SQLException e) {
            return "error";
        }
    }

    private static void execute(String command) throws SQLException {
        try (var statement = connection.createStatement()) {
            statement.execute(command);
        }
    }
}
