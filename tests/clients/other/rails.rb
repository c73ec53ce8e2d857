# Uses the initializer of docs/apps/other-languages.md: dumps the schema, loads it into database "copy", and loads
# fixtures there. Prints what the test compares.
require "active_record"
require "active_record/fixtures"
require_relative "initializer"

def connect(database)
  ActiveRecord::Base.establish_connection(adapter: "postgresql", database: database)
  ActiveRecord::Base.connection
end

def dump(connection)
  schema = StringIO.new
  ActiveRecord::SchemaDumper.dump(connection, schema)
  schema.string
end

connection = connect(ENV["PGDATABASE"])
connection.execute(<<~SQL)
  CREATE TABLE orders (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), item text);
  CREATE TABLE parts (id bigint PRIMARY KEY DEFAULT snowflake_segment_nextval('parts'),
                      order_id snowflake NOT NULL REFERENCES orders, other_ids snowflake[]);
SQL
puts connection.schema_names.inspect
schema = dump(connection)
puts schema.lines.grep(/enable_extension "snow|create_|t\.|add_|Could not/)

copy = connect("copy")
ActiveRecord::Schema.verbose = false
eval(schema)
puts dump(copy) == schema
copy.change_table(:parts) do |t|
  t.snowflake :third
  t.references :parent, type: :snowflake
end

class Order < ActiveRecord::Base
  has_many :parts
end

class Part < ActiveRecord::Base
  belongs_to :order
end

ActiveRecord::FixtureSet.create_fixtures("fixtures/type", %w[orders parts])
tea = Part.first.order
puts Order.count, tea.item
milk = Order.create!(item: "milk")
Part.create!(id: 1, order: milk, other_ids: [milk.id], third: milk.id)
part = Part.where(order_id: [milk.id.to_s]).includes(:order).first
puts Part.columns_hash["parent_id"].type
puts part.order.item, part.other_ids == [milk.id], part.third == milk.id, milk.id.class
puts Order.exists?(id: "abc")
