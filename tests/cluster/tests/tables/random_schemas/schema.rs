//! A random schema: a table with a key, tables that reference it, and all that PostgreSQL lets depend on such columns.

use std::collections::BTreeSet;

use harness::{Random, fuzz::literal};

/// The schema of all tables.
pub const SCHEMA: &str = "z";

/// Owners of tables. The second one may set `session_replication_role`.
pub const OWNERS: [&str; 2] = ["the \"Owner\"", "trusted"];

/// A role with privileges on some columns.
pub const CLERK: &str = "a clerk";

/// Extensions whose operator classes are used if the installation has them.
pub const EXTENSIONS: [&str; 4] = ["btree_gist", "btree_gin", "pg_trgm", "intarray"];

pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table or a column, as it is written in SQL.
type Name = String;

#[derive(Default)]
pub struct Schema {
    pub owner: &'static str,
    /// The adopted table and column.
    pub table: Name,
    pub column: String,
    /// Whether the call lets views be created again.
    pub views: bool,
    /// The statements that create tables and rows. All of them succeed.
    pub tables: Vec<String>,
    /// Statements that may fail, for example for an index with a name that is taken.
    pub extras: Vec<String>,
    pub by_superuser: Vec<String>,
    /// The columns that become bigint, as table, period and column.
    pub widened: BTreeSet<String>,
    /// Statements that change rows, and may fail.
    pub changes: Vec<String>,
    /// The number of calls after which the adoption is abandoned.
    pub abandon_after: Option<u64>,
}

struct Child {
    table: Name,
    key: Name,
    tenant: Name,
    note: Name,
    /// Not more than one row for each key.
    is_unique: bool,
}

struct Draft<'a> {
    random: &'a mut Random,
    has_extensions: bool,
    taken: BTreeSet<String>,
    schema: Schema,
}

/// Draws a schema.
pub fn draw(random: &mut Random, has_extensions: bool) -> Schema {
    let owner = *random.one_of(&OWNERS);
    let schema = Schema { owner, ..Schema::default() };
    let mut draft = Draft { random, has_extensions, taken: BTreeSet::new(), schema };
    draft.fill();
    draft.schema
}

impl Draft<'_> {
    fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    fn pick(&mut self, all: &[&str]) -> String {
        (*self.random.one_of(all)).to_owned()
    }

    /// Up to `most` of these, in random order.
    fn some(&mut self, mut all: Vec<String>, most: u64) -> Vec<String> {
        let count = self.random.below(most + 1);
        let mut drawn = vec![];
        for _ in 0..count {
            if !all.is_empty() {
                drawn.push(all.swap_remove(self.random.below(all.len() as u64) as usize));
            }
        }
        drawn
    }

    /// A name that no other object has, quoted.
    fn name(&mut self, base: &str) -> Name {
        loop {
            let name = match self.random.below(14) {
                0 => base.to_uppercase(),
                1 => format!("{base} of"),
                2 => format!("{base}\"x"),
                3 => format!("{base}'s"),
                4 => format!("{base}.ü"),
                5 => format!("{base}\\%I%s$1"),
                6 => self
                    .pick(&["select", "where", "order", "user", "coalesce", "new", "old", "table", "using"]),
                // Names of 63 bytes that share all but the last.
                7 | 8 => format!("{}{}", "y".repeat(62), self.random.below(10)),
                9 => format!("{base}; -- ' USING '"),
                _ => base.to_owned(),
            };
            let name = if self.taken.contains(&name) { format!("{base}{}", self.taken.len()) } else { name };
            if name.len() <= 63 && self.taken.insert(name.clone()) {
                return quoted(&name);
            }
        }
    }

    fn table(&mut self, base: &str) -> Name {
        format!("{SCHEMA}.{}", self.name(base))
    }

    /// The type of a key. Some are bigint already.
    fn key_type(&mut self) -> &'static str {
        match self.random.below(12) {
            0 => "bigint",
            1..=3 => "smallint",
            _ => "int",
        }
    }

    fn run(&mut self, statement: String) {
        self.schema.tables.push(statement);
    }

    fn extra(&mut self, statement: String) {
        self.schema.extras.push(statement);
    }

    fn fill(&mut self) {
        self.run(format!(
            "CREATE FUNCTION {SCHEMA}.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
        ));
        let table = self.table("accounts");
        let [id, tenant, note, up, code] = ["id", "tenant", "note", "up", "code"].map(|base| self.name(base));
        let key_type = self.key_type();
        let mut id_definition = match self.random.below(8) {
            0 if key_type != "bigint" => {
                format!("{id} {}", if key_type == "int" { "serial" } else { "smallserial" })
            }
            1 => format!("{id} {key_type} GENERATED ALWAYS AS IDENTITY"),
            2 => format!(
                "{id} {key_type} GENERATED BY DEFAULT AS IDENTITY (INCREMENT BY 3 CACHE 5 START WITH 1000)"
            ),
            3 => format!("{id} {key_type} NOT NULL DEFAULT 7"),
            4 => {
                let sequence = self.table("numbers");
                self.run(format!("CREATE SEQUENCE {sequence} START WITH 500"));
                format!("{id} {key_type} DEFAULT nextval({})", literal(&sequence))
            }
            _ => format!("{id} {key_type}"),
        };
        if !id_definition.contains("serial") {
            id_definition += " NOT NULL";
        }
        let up_type = if self.chance(10) { "bigint" } else { "int" };
        let first = self.chance(30);
        let options = self.pick(&["", "", "", " WITH (fillfactor = 70, autovacuum_enabled = off)"]);
        self.run(format!(
            "CREATE TABLE {table} ({}{id_definition}, {tenant} int NOT NULL DEFAULT 1, {note} text, {code} int UNIQUE, {up} {up_type}){options}",
            if first { "dropped int, " } else { "" },
        ));
        if first {
            self.run(format!("ALTER TABLE {table} DROP COLUMN dropped"));
        }
        let constraint = self.name("key");
        let keys = [
            format!("CONSTRAINT {constraint} PRIMARY KEY ({id})"),
            format!("PRIMARY KEY ({id}) INCLUDE ({note})"),
            format!("CONSTRAINT {constraint} UNIQUE ({id})"),
            format!("UNIQUE NULLS NOT DISTINCT ({id}) WITH (fillfactor = 80)"),
        ];
        let key = self.random.one_of(&keys).clone();
        self.run(format!("ALTER TABLE {table} ADD {key}"));
        let pairs = [
            format!("UNIQUE ({id}, {tenant})"),
            format!("UNIQUE ({tenant}, {id})"),
            format!("CONSTRAINT {} UNIQUE ({id}, {tenant}) INCLUDE ({code})", self.name("both")),
        ];
        let pair = self.random.one_of(&pairs).clone();
        self.run(format!("ALTER TABLE {table} ADD {pair}"));
        let rows = format!(
            "INSERT INTO {table} ({id}, {tenant}, {note}, {code}, {up}) OVERRIDING SYSTEM VALUE
             SELECT n, 1 + n % 2, 'note ' || n, n, nullif(n / 2, 0) FROM generate_series(1, 50) AS n"
        );
        self.run(rows);
        if key_type != "bigint" {
            self.schema.widened.insert(format!("{table}.{id}"));
        }
        if self.chance(50) {
            let actions = self.actions(&up, false);
            self.run(format!(
                "ALTER TABLE {table} ADD FOREIGN KEY ({up}) REFERENCES {table} ({id}) {actions}"
            ));
            if up_type == "int" {
                self.schema.widened.insert(format!("{table}.{up}"));
            }
        }
        let children: Vec<Child> =
            (0..=self.random.below(3)).map(|_| self.child(&table, &id, &tenant, &code)).collect();
        self.schema.table = table.clone();
        self.schema.column = id[1..id.len() - 1].replace("\"\"", "\"");
        self.decorate(&table, &id, &note, &tenant);
        for child in &children {
            self.indexes(child);
            self.decorate(&child.table, &child.key, &child.note, &child.tenant);
        }
        let extra_indexes = vec![
            format!("CREATE INDEX ON {table} ({id}, {note} DESC)"),
            format!("CREATE UNIQUE INDEX ON {table} ({id} DESC NULLS LAST) INCLUDE ({note})"),
            format!("CREATE INDEX ON {table} ({note}) WHERE {id} > {up}"),
            format!("CREATE INDEX ON {table} (({id} + {up}), {id})"),
        ];
        for index in self.some(extra_indexes, 2) {
            self.extra(index);
        }
        if self.chance(25) {
            self.views(&table, &id, &children[0]);
        }
        if self.chance(30) {
            self.obstacle(&table, &id, &children[0]);
        }
        if self.chance(50) {
            // Views and sequences that are created again must not get these privileges.
            let clerk = quoted(CLERK);
            for kind in ["TABLES", "SEQUENCES"] {
                self.extra(format!(
                    "ALTER DEFAULT PRIVILEGES IN SCHEMA {SCHEMA} GRANT ALL ON {kind} TO {clerk}"
                ));
            }
        }
        self.changes(&table, &id, &code, &children);
        if self.chance(25) {
            self.schema.abandon_after = Some(self.random.below(8));
        }
    }

    /// Actions of a foreign key. Those of a composite key may name some of its columns.
    fn actions(&mut self, key: &str, is_composite: bool) -> String {
        let delete = match self.random.below(8) {
            0 => " ON DELETE CASCADE".into(),
            1 => " ON DELETE SET NULL".into(),
            2 if is_composite => format!(" ON DELETE SET NULL ({key})"),
            3 => " ON DELETE SET DEFAULT".into(),
            4 if is_composite => format!(" ON DELETE SET DEFAULT ({key})"),
            5 => " ON DELETE RESTRICT".into(),
            _ => String::new(),
        };
        let update = self.pick(&[
            "",
            "",
            " ON UPDATE CASCADE",
            " ON UPDATE SET NULL",
            " ON UPDATE RESTRICT",
            " ON UPDATE SET DEFAULT",
        ]);
        let deferrable = self.pick(&["", "", "", " DEFERRABLE", " DEFERRABLE INITIALLY DEFERRED"]);
        delete + &update + &deferrable
    }

    fn child(&mut self, parent: &Name, id: &Name, parent_tenant: &Name, code: &Name) -> Child {
        let table = self.table("bookings");
        let [key, tenant, note] = ["account", "part", "text"].map(|base| self.name(base));
        let key_type = self.key_type();
        let is_composite = self.chance(35);
        let is_unique = self.chance(20);
        let is_not_null = self.chance(30);
        let first = self.chance(30);
        let default = if self.chance(30) { " DEFAULT 3" } else { "" };
        self.run(format!(
            "CREATE TABLE {table} ({}{key} {key_type}{}{default}, {tenant} int DEFAULT 2, {note} text, code int,
             at timestamptz, tags int[], number int PRIMARY KEY)",
            if first { "dropped text, " } else { "" },
            if is_not_null { " NOT NULL" } else { "" },
        ));
        if first {
            self.run(format!("ALTER TABLE {table} DROP COLUMN dropped"));
        }
        let nulls = if is_not_null { "" } else { "WHEN n % 7 = 0 THEN NULL" };
        let rows = if is_unique { 45 } else { 150 };
        self.run(format!(
            "INSERT INTO {table} ({key}, {tenant}, {note}, code, at, tags, number)
             SELECT k, 1 + k % 2, 'text ' || n % 5, 1 + n % 50, timestamptz '2026-01-01 00:00Z' + n * interval '1 h', ARRAY[n, 1], n
             FROM generate_series(1, {rows}) AS n CROSS JOIN LATERAL (SELECT CASE {nulls} WHEN true THEN 1 + n % 50 END) AS key (k)"
        ));
        let columns = match is_composite {
            true => (format!("{key}, {tenant}"), format!("{id}, {parent_tenant}")),
            false => (key.clone(), id.clone()),
        };
        let constraint = self.name("reference");
        let matching = self.pick(&["", "", " MATCH FULL"]);
        let actions = self.actions(&key, is_composite);
        let validity = if self.chance(10) { " NOT VALID" } else { "" };
        let mut keys = vec![format!(
            "ADD CONSTRAINT {constraint} FOREIGN KEY ({}) REFERENCES {parent} ({}){matching}{actions}{validity}",
            columns.0, columns.1
        )];
        // The same column again, and a foreign key that is not adopted: their actions have an order.
        if self.chance(30) {
            let actions = self.actions(&key, false);
            keys.push(format!("ADD FOREIGN KEY ({key}) REFERENCES {parent} ({id}){actions}"));
        }
        if self.chance(30) {
            let actions = self.actions("code", false);
            keys.push(format!("ADD FOREIGN KEY (code) REFERENCES {parent} ({code}){actions}"));
        }
        if self.chance(50) {
            keys.reverse();
        }
        for foreign_key in keys {
            self.run(format!("ALTER TABLE {table} {foreign_key}"));
        }
        if key_type != "bigint" {
            self.schema.widened.insert(format!("{table}.{key}"));
        }
        if is_unique {
            self.run(format!("ALTER TABLE {table} ADD UNIQUE ({key})"));
            if self.chance(50) {
                let grandchild = self.table("lines");
                let own = self.name("booking");
                let key_type = self.key_type();
                let actions = self.actions(&own, false);
                self.run(format!(
                    "CREATE TABLE {grandchild} ({own} {key_type} DEFAULT 5, n int PRIMARY KEY)"
                ));
                self.run(format!(
                    "INSERT INTO {grandchild} SELECT (SELECT {key} FROM {table} WHERE number = n), n FROM generate_series(1, 20) AS n"
                ));
                self.run(format!(
                    "ALTER TABLE {grandchild} ADD FOREIGN KEY ({own}) REFERENCES {table} ({key}){actions}"
                ));
                if key_type != "bigint" {
                    self.schema.widened.insert(format!("{grandchild}.{own}"));
                }
            }
        }
        Child { table, key, tenant, note, is_unique }
    }

    /// Indexes of all kinds on a referencing table.
    fn indexes(&mut self, child: &Child) {
        let Child { table, key, note, .. } = child;
        let order = self.pick(&["", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"]);
        let class = self.pick(&[
            "",
            " COLLATE \"C\"",
            " text_pattern_ops",
            " COLLATE \"POSIX\" text_pattern_ops DESC",
        ]);
        let name = self.name("an index");
        let mut all = vec![
            format!("CREATE INDEX {name} ON {table} ({key}{order}, {note}{class})"),
            format!(
                "CREATE INDEX ON {table} USING brin ({key}, at timestamptz_minmax_multi_ops(values_per_range=32)) WITH (pages_per_range=7, autosummarize=on)"
            ),
            format!("CREATE INDEX ON {table} USING brin ({key})"),
            format!("CREATE INDEX ON {table} USING hash ({key}) WITH (fillfactor=60)"),
            format!(
                "CREATE UNIQUE INDEX ON {table} ({key}, number) NULLS NOT DISTINCT WHERE {key} IS NOT NULL"
            ),
            format!("CREATE UNIQUE INDEX ON {table} (number, {key}) WITH (deduplicate_items=off)"),
            format!("CREATE INDEX ON {table} (number) INCLUDE ({key}, {note})"),
            format!("CREATE INDEX ON {table} (({key} * 2), lower({note}))"),
            format!("CREATE INDEX ON {table} ((-{key})) INCLUDE ({note})"),
            format!("CREATE INDEX ON {table} (number) WHERE {key} = 7"),
            format!("CREATE INDEX ON {table} ((md5({key}::text)))"),
            format!(
                "CREATE INDEX ON {table} ({key}, (lower({note})) text_pattern_ops) WHERE {note} <> ' USING ' AND {note} <> ' WHERE '"
            ),
            format!("CREATE INDEX ON {table} ({key}) TABLESPACE fast WHERE {key} > 3"),
            format!("ALTER TABLE {table} ADD UNIQUE ({key}, number) INCLUDE ({note}) WITH (fillfactor=90)"),
        ];
        // Their definitions would change, so most of them are refused.
        if self.chance(20) {
            all.extend([
                format!("CREATE INDEX ON {table} USING brin ({key} int4_minmax_multi_ops)"),
                format!("CREATE INDEX ON {table} (({key} % 10))"),
                format!("CREATE INDEX ON {table} (({key}::bigint))"),
                format!("CREATE INDEX ON {table} ({key} int4_ops)"),
                format!("CREATE INDEX ON {table} (number) WHERE {key} IS NULL OR {key} <> ALL ('{{1,2}}')"),
            ]);
        }
        if self.has_extensions {
            all.push(format!("CREATE INDEX ON {table} USING gist ({key}, {note} gist_trgm_ops(siglen=16))"));
            all.push(format!(
                "CREATE INDEX ON {table} USING gin ({key}, {note} gin_trgm_ops) WITH (fastupdate=off)"
            ));
            all.push(format!("CREATE INDEX ON {table} USING gist (tags gist__int_ops(numranges=50), {key})"));
        }
        for index in self.some(all, 5) {
            self.extra(index);
        }
    }

    /// Comments, privileges, options, constraints and triggers of a table.
    fn decorate(&mut self, table: &Name, key: &Name, note: &Name, tenant: &Name) {
        let clerk = quoted(CLERK);
        let check = self.name("check");
        let comment = literal(&format!("it's \"{key}\"\n%I"));
        // An index on an expression, and one that identifies rows.
        let index = |condition: &str, what: &str| {
            format!(
                "(SELECT {what} FROM pg_index JOIN pg_class AS class ON class.oid = indexrelid
                  WHERE indrelid = {}::regclass AND {condition} ORDER BY relname LIMIT 1)",
                literal(table)
            )
        };
        let expression = index("indexprs IS NOT NULL", "indexrelid::regclass");
        let identifying =
            index("indisunique AND indimmediate AND indpred IS NULL AND indexprs IS NULL", "relname");
        let execute = |command: &str, index: &str| {
            format!(
                "DO $do$ BEGIN EXECUTE format({command}, {}::regclass, {index}); END $do$",
                literal(table)
            )
        };
        let function = format!("{SCHEMA}.{}", self.name("fire"));
        let trigger = self.name("trigger");
        let all = vec![
            format!("ALTER TABLE {table} ADD CONSTRAINT {check} CHECK ({key} > 0)"),
            format!("ALTER TABLE {table} ADD CHECK ({key} BETWEEN 1 AND 5000 OR {note} = 'x')"),
            format!("ALTER TABLE {table} ADD CHECK ({key} IS NULL OR {key} < 100000) NO INHERIT"),
            format!("ALTER TABLE {table} ADD CHECK ({key} + {tenant} > 0)"),
            format!("COMMENT ON COLUMN {table}.{key} IS {comment}"),
            format!("COMMENT ON TABLE {table} IS {comment}"),
            format!("DO $do$ BEGIN EXECUTE (SELECT string_agg(format('COMMENT ON CONSTRAINT %I ON %s IS %L', conname, conrelid::regclass, 'comment of ' || conname), ';')
                     FROM pg_constraint WHERE conrelid = {}::regclass); END $do$", literal(table)),
            format!("DO $do$ BEGIN EXECUTE (SELECT string_agg(format('COMMENT ON INDEX %s IS %L', indexrelid::regclass, 'comment of ' || indexrelid::regclass), ';')
                     FROM pg_index WHERE indrelid = {}::regclass); END $do$", literal(table)),
            format!("GRANT SELECT ({key}), INSERT ({key}, {note}) ON {table} TO {clerk}"),
            format!("GRANT REFERENCES ({key}), UPDATE ({key}) ON {table} TO {clerk} WITH GRANT OPTION; GRANT SELECT ON {table} TO PUBLIC"),
            format!("REVOKE ALL ON {table} FROM {clerk}; REVOKE TRUNCATE ON {table} FROM CURRENT_USER"),
            format!("ALTER TABLE {table} ALTER {key} SET STATISTICS 77, ALTER {key} SET (n_distinct = -0.5)"),
            format!("ALTER TABLE {table} ALTER {key} SET (n_distinct_inherited = 7)"),
format!("ALTER TABLE {table} ALTER {note} SET (n_distinct = 5)"),
            execute("'ALTER INDEX %2$s ALTER COLUMN 1 SET STATISTICS 55'", &expression),
            execute("'ALTER TABLE %1$s CLUSTER ON %2$I'", &identifying),
            execute("'ALTER TABLE %1$s REPLICA IDENTITY USING INDEX %2$I'", &identifying),
            format!("ALTER TABLE {table} REPLICA IDENTITY FULL"),
            format!("CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
                     CREATE TRIGGER {trigger} BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {function}();
                     ALTER FUNCTION {function}() COST 7"),
            format!("CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
                     CREATE TRIGGER {trigger} AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION {function}();
                     COMMENT ON TRIGGER {trigger} ON {table} IS 'fires'; ALTER TABLE {table} DISABLE TRIGGER {trigger}"),
            format!("CREATE CONSTRAINT TRIGGER {trigger} AFTER DELETE ON {table} DEFERRABLE FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.nothing()"),
            format!("CREATE STATISTICS ON {note}, {tenant} FROM {table}"),
            format!("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON {table} USING ({note} <> 'hidden')"),
        ];
        for statement in self.some(all, 6) {
            self.extra(statement);
        }
    }

    fn views(&mut self, table: &Name, id: &Name, child: &Child) {
        let (first, second, column) = (self.table("a view"), self.table("another"), self.name("shown"));
        let clerk = quoted(CLERK);
        self.extra(format!("CREATE VIEW {first} ({column}, n) WITH (security_barrier) AS SELECT {id}, count(*) FROM {table} GROUP BY 1"));
        self.extra(format!(
            "CREATE VIEW {second} AS SELECT v.{column}, c.{}, c.number FROM {first} AS v JOIN {} AS c ON c.{} = v.{column}",
            child.key, child.table, child.key
        ));
        self.extra(format!("GRANT SELECT ON {first} TO {clerk}; REVOKE TRIGGER ON {first} FROM CURRENT_USER; COMMENT ON VIEW {second} IS 'it''s a view'; COMMENT ON COLUMN {first}.n IS 'n'"));
        if self.chance(30) {
            let checked = self.table("checked");
            self.extra(format!(
                "CREATE VIEW {checked} WITH (check_option = local) AS SELECT {id} FROM {table} WHERE {id} > 1"
            ));
        }
        self.schema.views = self.chance(70);
    }

    /// Something that must be refused, at least in most cases.
    fn obstacle(&mut self, table: &Name, id: &Name, child: &Child) {
        let Child { table: other, key, note, .. } = child;
        let all = [
            format!("ALTER TABLE {other} ADD twice bigint GENERATED ALWAYS AS ({key} * 2) STORED"),
            format!("CREATE MATERIALIZED VIEW {} AS SELECT {key} FROM {other}", self.table("totals")),
            format!("CREATE POLICY by_key ON {other} USING ({key} > 0)"),
            format!("CREATE STATISTICS ON {key}, {note} FROM {other}"),
            format!(
                "CREATE TRIGGER on_update BEFORE UPDATE ON {other} FOR EACH ROW EXECUTE FUNCTION {SCHEMA}.nothing()"
            ),
            format!(
                "CREATE TRIGGER of_key AFTER UPDATE OF {key} ON {other} EXECUTE FUNCTION {SCHEMA}.nothing()"
            ),
            format!(
                "CREATE TRIGGER large BEFORE INSERT ON {other} FOR EACH ROW WHEN (NEW.{key} > 10) EXECUTE FUNCTION {SCHEMA}.nothing()"
            ),
            format!("CREATE RULE nothing AS ON UPDATE TO {other} WHERE OLD.number < 0 DO INSTEAD NOTHING"),
            format!("ALTER TABLE {other} ADD EXCLUDE USING hash ({key} WITH =)"),
            format!("ALTER TABLE {other} ADD UNIQUE ({key}, number) DEFERRABLE"),
            format!("CREATE TABLE {} () INHERITS ({other})", self.table("heir")),
            format!(
                "CREATE TABLE {} (k int REFERENCES {table} ({id}), d date) PARTITION BY RANGE (d)",
                self.table("parts")
            ),
            format!("ALTER TABLE {other} ADD CHECK (number > 0) NOT VALID"),
            format!(
                "CREATE FUNCTION {}() RETURNS SETOF int LANGUAGE sql BEGIN ATOMIC SELECT {key} FROM {other}; END",
                self.table("atomic")
            ),
            format!(
                "CREATE DOMAIN {SCHEMA}.small AS int; CREATE TABLE {} (k {SCHEMA}.small REFERENCES {table} ({id}))",
                self.table("of_domain")
            ),
            format!("CREATE SEQUENCE {} OWNED BY {other}.{key}", self.table("owned")),
            format!(
                "CREATE FUNCTION {}({other}) RETURNS int LANGUAGE sql AS 'SELECT 1'",
                self.table("of_row")
            ),
            format!("CREATE TABLE {} (r {other})", self.table("of_rows")),
            format!("ALTER TABLE {other} FORCE ROW LEVEL SECURITY, ENABLE ROW LEVEL SECURITY"),
            format!("REVOKE UPDATE ON {other} FROM CURRENT_USER"),
        ];
        let by_superuser = [
            format!("CREATE PUBLICATION a_few FOR TABLE {other}"),
            format!("CREATE PUBLICATION a_few FOR TABLES IN SCHEMA {SCHEMA}"),
            format!("ALTER TABLE {other} DISABLE TRIGGER ALL"),
        ];
        match self.chance(15) {
            true => self.schema.by_superuser.push(self.random.one_of(&by_superuser).clone()),
            false => self.schema.extras.push(self.random.one_of(&all).clone()),
        }
    }

    fn changes(&mut self, table: &Name, id: &Name, code: &Name, children: &[Child]) {
        for _ in 0..12 {
            let Child { table: other, key, tenant, is_unique, .. } = self.random.one_of(children);
            let n = 1 + self.random.below(60);
            let m = 1 + self.random.below(60);
            let statement = match self.random.below(9) {
                0 | 1 => format!("DELETE FROM {table} WHERE {id} = {n}"),
                2 => format!("UPDATE {table} SET {id} = {id} + 1000 WHERE {id} = {n}"),
                3 => format!("UPDATE {table} SET {code} = {code} + 1000 WHERE {id} = {n}"),
                4 => format!("UPDATE {other} SET {key} = {n}, {tenant} = 1 + {n} % 2 WHERE number = {m}"),
                5 => format!("UPDATE {other} SET {key} = NULL WHERE number = {m}"),
                6 => format!(
                    "INSERT INTO {other} ({key}, number) VALUES ({n}, {}) ON CONFLICT DO NOTHING",
                    1000 + m
                ),
                7 if *is_unique => format!("DELETE FROM {other} WHERE {key} = {n}"),
                7 => format!("INSERT INTO {other} (number) VALUES ({})", 2000 + m),
                _ => "SET CONSTRAINTS ALL IMMEDIATE".into(),
            };
            self.schema.changes.push(statement);
        }
        self.schema.changes.push("SET CONSTRAINTS ALL IMMEDIATE".into());
    }
}
