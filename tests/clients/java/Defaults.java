import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.List;

// Prints how JDBC's metadata describes columns with the defaults snowflake_nextval() and snowflake_next().
class Defaults {
    public static void main(String[] arguments) throws SQLException {
        var url = "jdbc:postgresql://" + System.getenv("PGHOST") + "/" + System.getenv("PGDATABASE");
        try (var connection = DriverManager.getConnection(url, System.getenv("PGUSER"), "")) {
            for (var table : List.of("by_nextval", "by_next")) {
                var columns = connection.getMetaData().getColumns(null, "public", table, "id");
                columns.next();
                System.out.println(
                        table + ": " + columns.getString("TYPE_NAME") + ", " + columns.getString("IS_AUTOINCREMENT"));
            }
        }
    }
}
