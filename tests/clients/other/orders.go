package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v4"
)

type Order struct {
	ID   int64  `json:"id,string"` // In JSON a string, for JavaScript.
	Item string `json:"item"`
}

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "") // uses PGHOST, PGDATABASE etc.
	check(err)
	defer conn.Close(ctx)

	tea := Order{Item: "tea"}
	insert := "INSERT INTO orders (item) VALUES ($1) RETURNING id"
	check(conn.QueryRow(ctx, insert, tea.Item).Scan(&tea.ID))
	fmt.Println(tea.ID) // an ID
	text, err := json.Marshal(tea)
	check(err)
	fmt.Println(string(text)) // {"id":"an ID","item":"tea"}

	// Without a type, a number is read as a float64.
	var rounded any
	check(json.Unmarshal([]byte("1541815603606036481"), &rounded))
	fmt.Println(rounded) // 1.5418156036060365e+18

	// For many rows, take the IDs first, in the same transaction.
	items := []string{"milk", "sugar", "lemon"}
	var ids []int64
	check(conn.BeginFunc(ctx, func(tx pgx.Tx) error {
		query := "SELECT array_agg(id) FROM snowflake_batch($1) AS id"
		if err := tx.QueryRow(ctx, query, len(items)).Scan(&ids); err != nil {
			return err
		}
		rows := pgx.CopyFromSlice(len(items), func(i int) ([]any, error) {
			return []any{ids[i], items[i]}, nil
		})
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"id", "item"}, rows)
		return err
	}))

	var lemon string
	check(conn.QueryRow(ctx, "SELECT item FROM orders WHERE id = $1", ids[2]).Scan(&lemon))
	fmt.Println(lemon) // lemon
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
