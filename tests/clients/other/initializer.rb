require "active_record/connection_adapters/postgresql_adapter"

module Snowflake
  class Type < ActiveRecord::Type::BigInteger
    def type = :snowflake
  end

  module Adapter
    def native_database_types = super.merge(snowflake: { name: "snowflake" })

    # Without the extension's own schema in schema.rb.
    def schema_names = super - ["snowflake_internal"]

    # For fixtures: the default of the key is no sequence that can be set.
    def reset_pk_sequence!(table, *)
      key = columns(table).find { |column| column.name == primary_key(table) }
      super unless key&.default_function.to_s.include?("snowflake_")
    end

    private

    def initialize_type_map(map = type_map)
      map.register_type("snowflake", Type.new)
      super
    end
  end

  module Columns
    def snowflake(*names, **options) = names.each { |name| column(name, :snowflake, **options) }
  end
end

ActiveRecord::ConnectionAdapters::PostgreSQLAdapter.prepend(Snowflake::Adapter)
ActiveRecord::ConnectionAdapters::PostgreSQL::TableDefinition.include(Snowflake::Columns)
ActiveRecord::ConnectionAdapters::PostgreSQL::Table.include(Snowflake::Columns)
ActiveRecord::SchemaDumper.ignore_tables += [/\Asnowflake_/]
