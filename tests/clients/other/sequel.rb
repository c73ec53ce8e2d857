require "sequel"

DB = Sequel.connect(adapter: "postgres", database: ENV["PGDATABASE"]) # libpq uses PGHOST etc.
DB.extension :pg_array
type = DB[:pg_type].where(typname: "snowflake").first
DB.add_conversion_proc(type[:oid], &:to_i)
DB.register_array_type("snowflake", oid: type[:typarray], scalar_oid: type[:oid])

DB.create_table(:orders) do
  column :id, :snowflake, primary_key: true, default: Sequel.function(:snowflake_nextval)
  column :item, :text, null: false
end

tea = DB[:orders].insert(item: "tea")
puts tea # an ID
puts tea.class # Integer

# For many rows, take the IDs first, in the same transaction.
ids = DB.transaction do
  ids = DB.fetch("SELECT snowflake_batch(3) AS id").map(:id)
  DB[:orders].import(%i[id item], ids.zip(%w[milk sugar lemon]))
  ids
end
puts DB[:orders].first(id: ids[2])[:item] # lemon
puts DB[:orders].where(item: "lemon").get { array_agg(:id) }.to_a == [ids[2]] # true
