# Uses tables with the defaults snowflake_nextval() and snowflake_next() with Active Record's fixtures and Sequel.
require "active_record"
require "active_record/fixtures"
require "sequel"

ActiveRecord::Base.establish_connection(adapter: "postgresql", database: ENV["PGDATABASE"])
sequel = Sequel.connect(adapter: "postgres", host: ENV["PGHOST"], user: ENV["PGUSER"], database: ENV["PGDATABASE"])

def tell(what)
  puts "#{what}: #{yield}"
rescue StandardError => error
  puts "#{what}: #{error.message.lines.first.strip}"
end

%w[by_nextval by_next].each do |table|
  tell("Active Record's fixtures, #{table}") do
    ActiveRecord::FixtureSet.create_fixtures("fixtures", [table])
    sequel[table.to_sym].count
  end
  tell("Sequel, #{table}") do
    sequel.reset_primary_key_sequence(table.to_sym).inspect
  end
end
