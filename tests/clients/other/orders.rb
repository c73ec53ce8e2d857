require "active_record"

# libpq uses PGHOST etc.
ActiveRecord::Base.establish_connection(adapter: "postgresql", database: ENV["PGDATABASE"])

class CreateOrders < ActiveRecord::Migration[6.1]
  def change
    create_table :orders, id: :bigint, default: -> { "snowflake_nextval()" } do |t|
      t.text :item, null: false
    end
  end
end

class Order < ActiveRecord::Base
  # In JSON a string, for JavaScript.
  def as_json(...) = super.merge("id" => id.to_s)
end

ActiveRecord::Migration.suppress_messages { CreateOrders.migrate(:up) }

tea = Order.create!(item: "tea")
puts tea.id # an ID
puts tea.to_json # {"id":"an ID","item":"tea"}

# For many rows, take the IDs first, in the same transaction.
ids = Order.transaction do
  ids = Order.connection.select_values("SELECT snowflake_batch(3)")
  Order.insert_all!(ids.zip(%w[milk sugar lemon]).map { |id, item| { id: id, item: item } })
  ids
end
puts Order.find(ids[2]).item # lemon
