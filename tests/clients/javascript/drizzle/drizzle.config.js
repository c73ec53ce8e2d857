const { PGHOST: host, PGUSER: user, PGDATABASE: database } = process.env

export default {
  dialect: 'postgresql',
  schema: 'snowflake_schema.js',
  dbCredentials: { host, user, database, ssl: false },
  tablesFilter: ['!snowflake_*'],
}
