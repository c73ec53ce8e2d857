package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgtype"
	"github.com/jackc/pgx/v4"
)

// Call this for each connection: with pgxpool, in AfterConnect.
func registerSnowflake(ctx context.Context, conn *pgx.Conn) error {
	var id, ids uint32
	query := "SELECT oid, typarray FROM pg_type WHERE oid = 'snowflake'::regtype"
	if err := conn.QueryRow(ctx, query).Scan(&id, &ids); err != nil {
		return err
	}
	types := conn.ConnInfo()
	types.RegisterDataType(pgtype.DataType{Value: &pgtype.Int8{}, Name: "snowflake", OID: id})
	types.RegisterDataType(pgtype.DataType{Value: &pgtype.Int8Array{}, Name: "_snowflake", OID: ids})
	return nil
}

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "") // uses PGHOST, PGDATABASE etc.
	check(err)
	defer conn.Close(ctx)
	check(registerSnowflake(ctx, conn))

	var tea int64
	insert := "INSERT INTO orders (item) VALUES ('tea') RETURNING id"
	check(conn.QueryRow(ctx, insert).Scan(&tea))
	fmt.Println(tea) // an ID

	var ids []int64
	check(conn.QueryRow(ctx, "SELECT array_agg(id) FROM orders WHERE id = $1", tea).Scan(&ids))
	fmt.Println(ids[0] == tea) // true

	check(conn.BeginFunc(ctx, func(tx pgx.Tx) error {
		var milk int64
		if err := tx.QueryRow(ctx, "SELECT snowflake_nextval()").Scan(&milk); err != nil {
			return err
		}
		rows := pgx.CopyFromRows([][]any{{milk, "milk"}})
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"id", "item"}, rows)
		return err
	}))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
