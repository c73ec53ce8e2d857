// Reads and writes IDs with database/sql and two drivers, in columns of both types.
package main

import (
	"database/sql"
	"fmt"
	"os"

	_ "github.com/jackc/pgx/v4/stdlib"
	_ "github.com/lib/pq"
)

func main() {
	address := fmt.Sprintf("host=%s user=%s dbname=%s sslmode=disable",
		os.Getenv("PGHOST"), os.Getenv("PGUSER"), os.Getenv("PGDATABASE"))
	for _, driver := range []string{"pgx", "postgres"} {
		db, err := sql.Open(driver, address)
		check(err)
		for _, table := range []string{"of_bigint", "of_type"} {
			var tea, found int64
			insert := "INSERT INTO " + table + " (item) VALUES ('tea') RETURNING id"
			check(db.QueryRow(insert).Scan(&tea))
			check(db.QueryRow("SELECT id FROM "+table+" WHERE id = $1", tea).Scan(&found))
			_, err = db.Exec("UPDATE "+table+" SET id = $1", found)
			check(err)
			_, err = db.Exec("DELETE FROM "+table+" WHERE id = $1", found)
			check(err)
			fmt.Println(driver, table, found == tea)
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
